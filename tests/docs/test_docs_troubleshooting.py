"""docs/troubleshooting.md: the symptoms, made to happen, have the texts and states that the page names."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, SummaryRequest
from compaction_hooks.errors import FormatError, RecordError
from compaction_hooks.stores import MemoryStore
from tests.conversations import Chat, steps, user

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
LONG = [user("Port the parser."), *steps(60, 2_000)]
THINKING: list[Chat] = [
    user("Hello."),
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]},
    user("Go on."),
]
SMALL = 16_384


PROGRAM = TEXT.split("```python\n", 1)[1].split("```", 1)[0]


def failing(request: SummaryRequest) -> str:
    raise TimeoutError("down")


def is_named(text: str) -> bool:
    """Return whether the page quotes a text; "..." on the page means any words."""
    quoted = [part.split("...") for part in TEXT.split("`")[1::2]]
    return any(all(piece.strip() in text for piece in pieces) for pieces in quoted if len("".join(pieces)) > 15)


def test_the_lines_to_add_show_a_compaction(capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Any] = {}
    exec(PROGRAM, made)
    made["controller"].compact_sync([user("go"), *steps(30, 300)])
    assert "tokens" in capsys.readouterr().out


def test_an_unknown_window_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    controller: CompactionController[Any] = CompactionController()
    controller.transform_context_sync(LONG)
    assert controller.state().context_window is None
    assert is_named(caplog.text)


def test_the_breaker_opens_and_one_success_closes_it(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Callable[[SummaryRequest], str]] = [failing, failing, failing]
    skipped: list[str] = []
    controller: CompactionController[Any] = CompactionController(
        context_window=64_000,
        summarizer=lambda request: answers.pop()(request) if answers else "Ported.",
        settings=CompactionSettings(clear_tool_results=False),
        on_event=lambda event: skipped.append(getattr(event, "why", "")),
    )
    messages = [user("Port the parser."), *steps(11, 5_000)]
    for _ in range(4):
        controller.transform_context_sync(messages := [*messages, user("Go on.")])
    assert controller.state().breaker == "open: TimeoutError: down"
    assert skipped[-1] == "breaker open"
    assert is_named(caplog.text)
    assert controller.compact_sync(messages).outcome == "compacted"
    assert controller.state().breaker == "closed"


def test_records_that_are_not_loaded_are_named() -> None:
    session = CompactionController(store=MemoryStore()).session("thread-1")
    assert not session.state().is_loaded
    with pytest.raises(RecordError) as raised:
        session.export_records()
    assert is_named(str(raised.value))


FOREIGN: list[Chat] = [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": {}}]}]


@pytest.mark.parametrize("messages", [[*LONG[:3], *FOREIGN], [object()]], ids=["two providers", "objects"])
def test_a_foreign_message_is_named(messages: Sequence[Any]) -> None:
    controller: CompactionController[Any] = CompactionController(context_window=SMALL)
    with pytest.raises(FormatError) as raised:
        controller.transform_context_sync([*messages])
    assert is_named(str(raised.value))


def test_refused_reasoning_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[str] = []

    def send(view: list[Chat]) -> str:
        sent.append(json.dumps(view))
        if "thinking" in sent[-1]:
            raise RuntimeError(
                "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
            )
        return "Done."

    assert CompactionController(context_window=SMALL).call_sync(THINKING, send) == "Done."
    assert len(sent) == 2
    assert is_named(caplog.text)


def test_a_pin_that_is_not_in_the_list_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    controller: CompactionController[Any] = CompactionController(context_window=SMALL)
    controller.pin(user("This was never said."))
    controller.transform_context_sync(LONG)
    assert is_named(caplog.text)


def test_a_handler_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def tell(event: object) -> None:
        raise OSError("no disk")

    CompactionController(context_window=SMALL, on_event=tell).transform_context_sync(LONG)
    assert is_named(caplog.text)
