"""The messages of the frameworks, as `tests.repairs` writes histories in them; each made only where its framework is there."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from compaction_hooks.repair import repaired
from tests.adapters.same_chain import chain
from tests.repairs import CHAT, Dialect, broken, check_prefix, check_repair, history

Calls = Sequence[tuple[str, int]]


def langchain() -> Dialect:
    """LangChain's messages, calls repeated in content blocks as Anthropic's integration has them."""
    from compaction_adapters.langchain_core import LangChainFormat
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    def asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
        blocks: list[Any] = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}] if thinks else []
        blocks += [{"type": "text", "text": text}] if text else []
        blocks += [{"type": "tool_use", "id": id, "name": "run", "input": {"n": n}} for id, n in calls]
        listed = [{"name": "run", "args": {"n": n}, "id": id, "type": "tool_call"} for id, n in calls]
        return [AIMessage(blocks if thinks or calls else text, tool_calls=listed)]

    return Dialect(
        format=LangChainFormat(),
        system=SystemMessage,
        user=HumanMessage,
        asks=asks,
        tells=lambda results: [ToolMessage(f"result {n}", tool_call_id=id) for id, n in results],
    )


def pydantic_ai() -> Dialect:
    """pydantic-ai's requests and responses, dated alike."""
    from datetime import UTC, datetime

    from compaction_adapters.pydantic_ai import PydanticAIFormat
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    now = datetime(2026, 11, 22, tzinfo=UTC)

    def asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
        parts: list[Any] = [ThinkingPart("hm", signature="c2ln")] if thinks else []
        parts += [TextPart(text)] if text else []
        parts += [ToolCallPart("run", {"n": n}, id) for id, n in calls]
        return [ModelResponse(parts, timestamp=now)]

    def tells(results: Calls) -> list[Any]:
        return [ModelRequest([ToolReturnPart("run", f"result {n}", id, timestamp=now) for id, n in results])]

    return Dialect(
        format=PydanticAIFormat(),
        system=lambda text: ModelRequest([SystemPromptPart(text, timestamp=now)]),
        user=lambda text: ModelRequest([UserPromptPart(text, timestamp=now)]),
        asks=asks,
        tells=tells,
    )


def tinyagent() -> Dialect:
    """tinyagent's message models; it has no system messages, so its histories begin with the user's words twice."""
    from compaction_adapters.tinyagent.messages import TinyAgentFormat
    from tinyagent.agent_types import (
        AssistantMessage,
        TextContent,
        ThinkingContent,
        ToolCallContent,
        ToolResultMessage,
        UserMessage,
    )

    def user(text: str) -> Any:
        return UserMessage(content=[TextContent(text=text)])

    def asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
        blocks: list[Any] = [ThinkingContent(thinking="hm", thinking_signature="c2ln")] if thinks else []
        blocks += [TextContent(text=text)] if text else []
        blocks += [ToolCallContent(id=id, name="run", arguments={"n": n}) for id, n in calls]
        return [AssistantMessage(content=blocks)]

    def tells(results: Calls) -> list[Any]:
        return [ToolResultMessage(tool_call_id=id, content=[TextContent(text=f"result {n}")]) for id, n in results]

    return Dialect(format=TinyAgentFormat(), system=user, user=user, asks=asks, tells=tells)


HISTORIES = 60


def check_broken_histories(dialect: Dialect) -> None:
    """Mend histories broken in every way; what must hold is in `check_repair`."""
    wrong = prefixes = 0
    for seed in range(HISTORIES):
        random = Random(seed)
        messages = broken(random, dialect)
        wrong += bool(dialect.problems(messages))
        check_repair(dialect, messages)
        cut = random.randint(0, len(messages))
        prefixes += check_prefix(dialect, messages[:cut], messages[cut:])
    assert wrong > HISTORIES // 2
    assert prefixes > HISTORIES // 20


def check_whole_histories(dialect: Dialect) -> None:
    """Whole histories come back themselves."""
    for seed in range(HISTORIES):
        messages = history(Random(seed), dialect)
        assert repaired(messages, dialect.format) is messages


def check_same_chain(dialect: Dialect) -> None:
    """A conversation has one digest chain, in these messages and as OpenAI chat dicts: a record applies to both."""
    as_chat = replace(CHAT, system=CHAT.user) if dialect.system is dialect.user else CHAT
    for seed in range(HISTORIES):
        messages, dicts = (history(Random(seed), each) for each in (dialect, as_chat))
        assert chain(dialect.format, messages) == chain(CHAT.format, dicts)
