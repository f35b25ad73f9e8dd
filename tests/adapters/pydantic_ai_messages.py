"""Histories of pydantic-ai and agents with a tool, for tests of its adapter that need no provider."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic_ai import Agent, CapabilityEvent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from compaction_hooks import CompactionSettings
from compaction_hooks.testing import Answer, Call
from tests.adapters.stage import SECRET as SECRET
from tests.adapters.stage import CountingSummarizer as CountingSummarizer
from tests.conversations import prose

SUMMARIZE = CompactionSettings(clear_tool_results=False)
"""Nothing but a summary makes room."""
E = TypeVar("E", bound=CapabilityEvent)


# -- agents


def reads(*paths: str, text: str = "") -> Answer:
    return Answer(text, tuple(Call("read_file", {"path": path}) for path in paths))


def steps(count: int) -> list[Answer]:
    """The model asks for one file after the other, then says that it is done."""
    return [*(reads(f"src/{number}.py") for number in range(count)), Answer("All read.")]


def reader(model: Any, *capabilities: Any, tokens: int = 800, **options: Any) -> Agent[None, str]:
    """An agent that reads files of this many tokens."""
    agent: Agent[None, str] = Agent(model, capabilities=list(capabilities), **options)

    def read_file(path: str) -> str:
        """Read a file."""
        return f"# {path}\n{prose(tokens)}"

    agent.tool_plain(read_file)
    return agent


def listen(agent: Agent[None, str], kind: type[E]) -> list[E]:
    """The events of this kind that the agent's runs will emit."""
    heard: list[E] = []

    @agent.on_event(kind)
    async def hear(_: RunContext[None], event: E) -> None:
        heard.append(event)

    return heard


class Changing(AbstractCapability[None]):
    def __init__(self, change: Callable[[RunContext[None], ModelRequestContext], object]) -> None:
        self._change = change

    async def before_model_request(
        self, ctx: RunContext[None], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self._change(ctx, request_context)
        return request_context


# -- histories


def spoken(turns: int, tokens: int = 500, first: int = 0) -> list[ModelMessage]:
    """So many turns of plain talk: nothing but a summary can shorten it."""
    talk: list[ModelMessage] = []
    for turn in range(first, first + turns):
        talk.append(ModelRequest(parts=[UserPromptPart(f"Question {turn}. {prose(tokens)}")]))
        talk.append(ModelResponse(parts=[TextPart(f"Answer {turn}. {prose(tokens)}")]))
    return talk


def texts(messages: Sequence[Any]) -> str:
    """All that a list of wire messages or of the framework's own says."""
    return "\n".join(json.dumps(m, ensure_ascii=False) if isinstance(m, dict) else repr(m) for m in messages)


def stored(messages: list[ModelMessage]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
