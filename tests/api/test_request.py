"""`request=`: a call whose server compacts the conversation itself is compacted here only after an overflow."""

from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSkipped, ConfigurationError
from tests.cases import folded
from tests.conversations import prose

EDITS = {"edits": [{"type": "clear_thinking_20251015"}, {"type": "compact_20260112", "trigger": None}]}


def conversation() -> list[Any]:
    return [
        message
        for n in range(20)
        for message in ({"role": "user", "content": f"Part {n}?"}, {"role": "assistant", "content": prose(400)})
    ]


@folded(
    "request_",
    [
        {"context_management": EDITS},
        {"extra_body": {"context_management": EDITS}},
        {"anthropic_context_management": EDITS},
        {"compaction": {"type": "summarize"}},
        {"context_management": [{"type": "compaction", "compact_threshold": 50_000}]},
        {"openai_context_management": [{"type": "compaction"}]},
        {"input": [{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]},
        {"previous_response_id": "resp_1"},
        {"openai_previous_response_id": "auto"},
        {"use_previous_response_id": True},
        {"conversation": {"id": "conv_1"}},
        {"openai_conversation_id": "conv_1"},
        {"model_kwargs": {"truncation": "auto"}},
    ],
)
def test_a_list_above_the_threshold_is_left_to_the_server_and_this_is_reported_once(request_: dict[str, Any]) -> None:
    events: list[object] = []
    controller = CompactionController(context_window=8_000, on_event=events.append)
    messages = conversation()
    for _ in range(2):
        assert controller.transform_context_sync(messages, request=request_) is messages
    (event,) = events
    assert isinstance(event, CompactionSkipped)
    assert event.why.startswith("left to the server (")


@pytest.mark.parametrize(
    "request_",
    [
        {"temperature": 0.1, "extra_body": None, "input": "Hi"},
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        {"previous_response_id": None, "conversation": None, "truncation": "disabled"},
    ],
    ids=str,
)
def test_other_options_change_nothing(request_: dict[str, Any]) -> None:
    view = CompactionController(context_window=8_000).transform_context_sync(conversation(), request=request_)
    assert len(view) < len(conversation())


def test_an_overflow_is_recovered_from_although_the_server_compacts() -> None:
    sent: list[list[Any]] = []

    def send(view: list[Any]) -> str:
        sent.append(view)
        if len(sent) == 1:
            raise ValueError("prompt is too long: 9000 tokens > 8000 maximum")
        return "Done."

    controller = CompactionController(context_window=8_000)
    assert controller.call_sync(conversation(), send, request={"previous_response_id": "resp_1"}) == "Done."
    assert len(sent[0]) == 40 > len(sent[1])


def test_options_that_are_no_dict_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="request=<str> must be a dict"):
        CompactionController(context_window=8_000).transform_context_sync([], request="auto")  # type: ignore[arg-type]
