"""One conversation has one digest chain, as OpenAI chat dicts and as LangChain messages: a record applies to both."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from compaction_adapters.langchain_core import LangChainFormat
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from langchain_core.messages.tool import default_tool_parser

from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from tests.adapters.same_chain import CONVERSATIONS, HOSTED, chain
from tests.data import needs_data, sessions

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
