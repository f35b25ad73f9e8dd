"""Agent Framework's messages: the contract of a format, the digests of a conversation as chat dicts, repair, merging, usage."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import pytest
from agent_framework import Content, Message
from compaction_adapters.agent_framework import AgentFrameworkFormat
from compaction_adapters.agent_framework.models import usage_of

from compaction_hooks import Usage
from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.messages import Media
from compaction_hooks.repair import INTERRUPTED, repaired
from compaction_hooks.testing import check_format
from tests.adapters.repair_dialects import Calls, check_broken_histories, check_same_chain, check_whole_histories
from tests.adapters.same_chain import CONVERSATIONS, HOSTED, chain
from tests.cases import folded
from tests.data import needs_data, sessions
from tests.repairs import Dialect

FORMAT = AgentFrameworkFormat()
IMAGE = Content.from_uri("https://example.org/a.png", media_type="image/png")
PIXELS = Content.from_data(b"pixels", "image/png", additional_properties={"detail": "low"})
CALL = Content.from_function_call(
    "a", "read", arguments={"path": "a", "content": "x" * 500}, additional_properties={"fc_id": "fc_a"}
)
THOUGHT = Content.from_text_reasoning(
    id="rs_1", text="hm", protected_data="sealed", additional_properties={"kind": "summary"}
)
RESULTS = [
    Content.from_function_result("a", result=[Content.from_text("done"), PIXELS]),
    Content.from_function_result("b", result="no such file", exception="FileNotFoundError"),
]


@pytest.fixture(autouse=True)
def comparable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The framework's messages are equal to themselves only, and show nothing."""
    monkeypatch.setattr(Message, "__eq__", lambda one, other: one.to_dict() == other.to_dict())
    monkeypatch.setattr(Message, "__repr__", lambda one: str(one.to_dict()))


def said(message: Mapping[str, Any]) -> Message:
    """Return a chat dict as a message."""
    content = message.get("content") or ""
    if message["role"] == "tool":
        failed = "failed" if message.get("is_error") else None
        return Message(
            "tool", [Content.from_function_result(message["tool_call_id"], result=content, exception=failed)]
        )
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    contents = [
        Content.from_uri(block["image_url"]["url"], media_type="image/png")
        if block["type"] == "image_url"
        else Content.from_text(block["text"])
        for block in blocks
        if block.get("text") != ""
    ]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        contents.append(Content.from_function_call(call["id"], function["name"], arguments=function["arguments"]))
    return Message(message["role"], contents)


def asks(text: str, calls: Calls, thinks: bool) -> list[Message]:
    contents = [THOUGHT] if thinks else []
    contents += [Content.from_text(text)] if text else []
    contents += [Content.from_function_call(id, "run", arguments={"n": n}) for id, n in calls]
    return [Message("assistant", contents)]


DIALECT = Dialect(
    format=FORMAT,
    system=lambda text: Message("system", [text]),
    user=lambda text: Message("user", [text]),
    asks=asks,
    tells=lambda results: [
        Message("tool", [Content.from_function_result(id, result=f"result {n}") for id, n in results])
    ],
)


def test_the_contract_of_a_format_holds() -> None:
    stored = Message(
        "user", ["look", IMAGE, PIXELS], author_name="Ann", message_id="m", additional_properties={"_attribution": {}}
    )
    samples = [
        stored,
        Message.from_dict(json.loads(json.dumps(stored.to_dict()))),
        Message("assistant", [THOUGHT, "so", CALL, Content.from_function_call("b", "read", arguments='{"path": "b"}')]),
        Message("tool", RESULTS),
        Message("user", [Content.from_hosted_file("file_1"), Content.from_function_result("c", result="?"), "and"]),
        Message("assistant", [Content.from_mcp_server_tool_call("m", "find", arguments={"words": "parser"}), "Found."]),
        Message("developer", ["Be brief."]),
        Message("critic", ["Hm."]),
        Message("assistant"),
    ]
    check_format(FORMAT, samples)
    roles = [" ".join(piece.role for piece in FORMAT.read(sample)) for sample in samples]
    assert roles[:5] == ["user", "user", "assistant", "tool", "user tool user"]
    assert roles[5:] == ["assistant", "system", "other", "assistant"]
    assert [part.low_detail for part in FORMAT.read(stored)[0].parts if isinstance(part, Media)] == [False, True]
    assert [part.text for part in FORMAT.read(samples[3])[0].results] == ["done", "no such file"]
    assert [part.is_error for part in FORMAT.read(samples[3])[0].results] == [False, True]


def test_new_messages_have_nothing_of_the_framework() -> None:
    for message in (FORMAT.summary("So far."), FORMAT.request("Go on.")):
        assert (message.role, message.text, message.message_id, message.additional_properties) == (
            "user",
            message.text,
            None,
            {},
        )
    assert not FORMAT.read(FORMAT.summary("So far."))[0].is_summary


def test_other_objects_are_refused() -> None:
    wrong: Any = {"role": "user", "content": "hi"}
    with pytest.raises(FormatError, match=r"agent_framework\.Message, not dict"):
        FORMAT.read(wrong)
    for message in (Message("assistant", ["so"]), Message("user", ["hi"])):
        with pytest.raises(ConfigurationError, match="names no tool call"):
            FORMAT.answer(message, (0, 0), "no")


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_a_conversation_has_the_chain_of_its_chat_dicts(messages: Sequence[Mapping[str, Any]]) -> None:
    assert chain(FORMAT, [*map(said, messages)]) == chain(OpenAIChatFormat(), messages)


@pytest.mark.full
@needs_data
def test_recorded_sessions_have_the_chain_of_their_chat_dicts() -> None:
    count = 0
    for session in islice(sessions(), 0, None, 6):
        messages, count = session["messages"], count + 1
        assert chain(FORMAT, [*map(said, messages)]) == chain(OpenAIChatFormat(), messages)
    assert count > 20


def test_tools_that_the_provider_ran_have_the_chain_of_its_own_blocks() -> None:
    search, found, asked, told = HOSTED[1]["content"][:4]
    contents = [
        Content.from_search_tool_call("s1", tool_name="web_search", arguments=search["input"]),
        Content.from_search_tool_result("s1", tool_name="web_search", result=found["content"]),
        Content.from_mcp_server_tool_call("m1", "find", server_name="tracker", arguments=asked["input"]),
        Content.from_mcp_server_tool_result("m1", output=[Content.from_text(told["content"][0]["text"])]),
        Content.from_text("4.2."),
    ]
    messages = [Message("user", ["Which release?"]), Message("assistant", contents), Message("user", ["Thanks."])]
    assert chain(FORMAT, messages) == chain(AnthropicFormat(), HOSTED)


@pytest.mark.parametrize("check", [check_broken_histories, check_whole_histories, check_same_chain])
def test_histories(check: Callable[[Dialect], None]) -> None:
    check(DIALECT)


def test_a_call_without_a_result_is_answered_as_failed() -> None:
    messages = [Message("user", ["hi"]), Message("assistant", [CALL]), Message("user", ["Go on."])]
    made = repaired(messages, FORMAT)[2]
    (result,) = made.contents
    assert (made.role, result.call_id, result.result, result.exception) == ("tool", "a", INTERRUPTED, INTERRUPTED)


def test_user_messages_in_a_row_are_merged() -> None:
    view = [Message("user", ["a", IMAGE]), Message("user", ["b"]), Message("user", ["c"]), Message("assistant", ["d"])]
    merged = FORMAT.merge(view)
    assert [[one.text or one.type for one in message.contents] for message in merged] == [["a", "uri", "b\n\nc"], ["d"]]
    assert [message.text for message in view[1:3]] == ["b", "c"]
    apart = [view[0], Message("tool", RESULTS), view[1]]
    assert FORMAT.merge(apart) is apart


USAGES: dict[str, tuple[dict[str, int], Usage | None]] = {
    "openai counts cached tokens inside": (
        {
            "input_token_count": 90,
            "output_token_count": 5,
            "cache_read_input_token_count": 80,
            "openai.cached_tokens": 80,
        },
        Usage(input_tokens=90, output_tokens=5, cache_read_tokens=80),
    ),
    "anthropic does not": (
        {
            "input_token_count": 90,
            "output_token_count": 5,
            "cache_read_input_token_count": 80,
            "cache_creation_input_token_count": 7,
            "anthropic.cache_read_input_tokens": 80,
        },
        Usage(input_tokens=177, output_tokens=5, cache_read_tokens=80, cache_write_tokens=7),
    ),
    "more cached than counted": (
        {"input_token_count": 3, "cache_read_input_token_count": 80},
        Usage(input_tokens=83, cache_read_tokens=80),
    ),
    "nothing counted": ({"output_token_count": 5}, None),
}


@folded("details, usage", USAGES)
def test_usage(details: dict[str, int], usage: Usage | None) -> None:
    assert usage_of(details) == usage
