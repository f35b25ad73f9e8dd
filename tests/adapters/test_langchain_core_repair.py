"""`repair=True` with langchain-core's messages."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import langchain_core.exceptions
import pytest
from compaction_adapters.langchain_core import LangChainFormat
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.tool import default_tool_parser, tool_call, tool_call_chunk

from compaction_hooks import is_context_overflow, parse_overflow
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.messages import ToolCall
from compaction_hooks.repair import INTERRUPTED, repaired
from tests.adapters import repair_dialects
from tests.adapters.langchain_core_stage import Stage, asked
from tests.adapters.repair_dialects import check_broken_histories, check_same_chain, check_whole_histories
from tests.adapters.same_chain import CONVERSATIONS, HOSTED, chain
from tests.cases import sampled
from tests.data import needs_data, sessions
from tests.provider import WORDINGS
from tests.repairs import Dialect

FORMAT = LangChainFormat()


@pytest.mark.parametrize("check", sampled([check_same_chain, check_whole_histories, check_broken_histories], 2))
def test_histories(check: Callable[[Dialect], None]) -> None:
    check(repair_dialects.langchain())


def test_a_call_without_an_answer_gets_a_failed_tool_message() -> None:
    asked = AIMessage("", tool_calls=[tool_call(name="read", args={}, id="a")])
    messages: list[BaseMessage] = [HumanMessage("hi"), asked, HumanMessage("and?")]
    after = repaired(messages, FORMAT)
    assert after[2] == ToolMessage(INTERRUPTED, tool_call_id="a", name="read", status="error")
    assert [after[0], after[1], after[3]] == messages
    assert after[1] is asked


def test_new_ids_are_in_all_copies_of_a_call() -> None:
    """Content blocks, raw OpenAI calls and Gemini's signatures: all name the calls. Stream chunks are left out."""
    blocks: list[str | dict[str, object]] = [{"type": "tool_use", "id": "a", "name": "read", "input": {}}] * 2
    raw = [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}] * 2
    chunk = AIMessageChunk(
        content=blocks,
        tool_call_chunks=[tool_call_chunk(name="read", args="{}", id="a", index=n) for n in range(2)],
        additional_kwargs={"tool_calls": raw, "__gemini_function_call_thought_signatures__": {"a": "c2ln"}},
    )
    told: list[BaseMessage] = [ToolMessage("one", tool_call_id="a"), ToolMessage("two", tool_call_id="a")]
    _, made, first, second = repaired([HumanMessage("hi"), chunk, *told], FORMAT)
    assert isinstance(made, AIMessageChunk)
    ids = [call["id"] for call in made.tool_calls]
    assert (ids[0], len(set(ids))) == ("a", 2)
    assert [message.tool_call_id for message in (first, second) if isinstance(message, ToolMessage)] == ids
    assert [block["id"] for block in made.content if isinstance(block, dict)] == ids
    assert [call["id"] for call in made.additional_kwargs["tool_calls"]] == ids
    assert made.tool_call_chunks == []
    assert made.additional_kwargs["__gemini_function_call_thought_signatures__"] == dict.fromkeys(ids, "c2ln")
    assert chunk.tool_calls[1]["id"] == "a"


def test_an_answer_of_reasoning_only_is_left_out() -> None:
    lost = AIMessage("", additional_kwargs={"reasoning_content": "hm", "refusal": None})
    messages: list[BaseMessage] = [HumanMessage("hi"), lost, HumanMessage("and?")]
    assert repaired(messages, FORMAT) == [messages[0], messages[2]]
    spoken = AIMessage("so", additional_kwargs={"reasoning_content": "hm", "refusal": None})
    assert FORMAT.drop(spoken, [(0, 0)]) == AIMessage("so", additional_kwargs={"refusal": None})
    assert FORMAT.drop(spoken, [(0, 1)]).content == ""


def test_calls_in_the_content_only_are_renamed_there() -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "a", "name": "read", "arguments": "{}"}
    made = FORMAT.rename(AIMessage([item]), {(0, 0): "b"})
    assert made.content == [{**item, "call_id": "b"}]


def test_a_call_that_carries_a_thought_signature_is_read_as_signed() -> None:
    calls = [tool_call(name="read", args={}, id="a"), tool_call(name="read", args={}, id="b")]
    kwargs = {"__gemini_function_call_thought_signatures__": {"a": "c2ln"}}
    (piece,) = FORMAT.read(AIMessage("", tool_calls=calls, additional_kwargs=kwargs))
    assert piece.parts == (ToolCall("a", "read", "{}", 4), ToolCall("b", "read", "{}"))


def test_results_among_the_words_of_a_human_message_are_renamed_and_dropped() -> None:
    results = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in "ab"]
    words = {"type": "text", "text": "Go on."}
    message = HumanMessage([results[0], words, results[1]])
    assert FORMAT.rename(message, {(2, 0): "c"}).content == [results[0], words, {**results[1], "tool_use_id": "c"}]
    assert FORMAT.drop(message, [(0, 0), (1, 0)]).content == [results[1]]


def test_a_system_message_inside_stays_in_its_place() -> None:
    """Most providers of LangChain keep it there; only a format of a provider that refuses it moves it."""
    asked = AIMessage("", tool_calls=[tool_call(name="read", args={}, id="a")])
    messages: list[BaseMessage] = [HumanMessage("hi"), asked, SystemMessage("Be brief."), HumanMessage("and?")]
    assert [message.type for message in repaired(messages, FORMAT)] == ["human", "ai", "tool", "system", "human"]
    whole: list[BaseMessage] = [HumanMessage("hi"), SystemMessage("Be brief."), HumanMessage("and?")]
    assert repaired(whole, FORMAT) is whole


WINDOW = 4_000
NAMED = {"cerebras": "cerebras"}
"""Providers whose rejection has no text: recognized by their name."""


@pytest.mark.parametrize("way", ["plain", "stream"])
@pytest.mark.parametrize("client", ["openai", "anthropic"])
async def test_every_wording_is_recognized(stage: Stage, client: str, way: str) -> None:
    model = getattr(stage, client)(max_tokens=256)
    read: dict[str, tuple[bool, int | None]] = {}
    for wording in WORDINGS:
        stage.side(window=WINDOW, wording=wording)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each integration raises errors of its own
            await (anext(model.astream(asked(8))) if way == "stream" else model.ainvoke(asked(8)))
        found = parse_overflow(caught.value, provider=NAMED.get(wording))
        is_overflow = is_context_overflow(caught.value, provider=NAMED.get(wording))
        read[wording] = (is_overflow, found.limit_tokens if found else None)
    assert read == {name: (True, WINDOW if "{limit}" in one.text else None) for name, one in WORDINGS.items()}


def test_an_error_of_langchain_itself_is_recognized() -> None:
    assert is_context_overflow(langchain_core.exceptions.ContextOverflowError("too much"))


Chat = Mapping[str, Any]


def as_langchain(message: Chat) -> BaseMessage:
    """Return a message of OpenAI chat as LangChain has it: calls whose arguments are no JSON are invalid calls."""
    if message["role"] == "assistant":
        valid, invalid = default_tool_parser(message.get("tool_calls") or [])
        return AIMessage(message.get("content") or "", tool_calls=valid, invalid_tool_calls=invalid)
    (converted,) = convert_to_messages([{**message, **({"status": "error"} if message.get("is_error") else {})}])
    if message.get("is_compact_summary"):
        converted.additional_kwargs["lc_source"] = "summarization"
    return converted


def assert_same_chain(messages: Sequence[Chat]) -> int:
    wanted = chain(OpenAIChatFormat(), messages)
    assert chain(LangChainFormat(), [*map(as_langchain, messages)]) == wanted
    return len(wanted)


@pytest.mark.full
@needs_data
def test_recorded_sessions_have_the_same_chain() -> None:
    runs = sum(assert_same_chain(session["messages"]) for session in itertools.islice(sessions(), 0, None, 6))
    assert runs > 2_000


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_generated_conversations_have_the_same_chain(messages: list[Chat]) -> None:
    assert assert_same_chain(messages) > 1


def test_tools_that_the_provider_ran_have_the_chain_of_its_own_blocks() -> None:
    """As langchain-anthropic holds them, and as LangChain's standard blocks, into which langchain-core turns them itself."""
    said = AIMessage(HOSTED[1]["content"], response_metadata={"model_provider": "anthropic"})
    wanted = chain(AnthropicFormat(), HOSTED)
    for content in (said.content, said.content_blocks):
        messages = [HumanMessage("Which release?"), AIMessage(cast("Any", content)), HumanMessage("Thanks.")]
        assert chain(LangChainFormat(), messages) == wanted
    assert {block["type"] for block in said.content_blocks} >= {"server_tool_call", "server_tool_result"}
