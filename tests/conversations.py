"""Conversations for tests, as OpenAI chat dicts: short to write, real in shape."""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from compaction_hooks import CompactionController, CompactionSettings, Summarizer, Summary, SummaryRequest
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.tokens import CharacterEstimator

Chat = Mapping[str, Any]

PLAIN = CompactionSettings(clear_tool_results=False)
"""Settings by which a view is summarized at once: no result is cleared before."""
UNFILLED = CompactionSettings(clear_tool_results=False, identifier_tokens=0)
"""The same, and no more than the user's own constraints is added to a summary."""
WORDS = "the parser reads every line of the file and keeps what it found in a table for the next pass over it "


@cache
def prose(tokens: int) -> str:
    """Return prose of about this many tokens, but not fewer by the default estimator."""
    size = CharacterEstimator().estimate_tokens
    lines = tokens // size(WORDS) + 1
    while size(WORDS * lines) < tokens:  # the estimator samples long texts
        lines += 1
    return WORDS * lines


def system(text: str = "You are a careful engineer.") -> Chat:
    return {"role": "system", "content": text}


def user(text: str) -> Chat:
    return {"role": "user", "content": text}


def assistant(text: str | None = None, *calls: Chat) -> Chat:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return {**message, "tool_calls": list(calls)} if calls else message


def call(id: str, name: str = "read_file", **arguments: Any) -> Chat:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def tool(id: str, text: str, **fields: Any) -> Chat:
    return {"role": "tool", "tool_call_id": id, "content": text, **fields}


def step(number: int, result_tokens: int = 300, name: str = "read_file") -> list[Chat]:
    """Return one tool step: a tool call with its result."""
    path = f"src/module_{number}.py"
    return [
        assistant(f"Reading {path}.", call(f"call_{number}", name, path=path)),
        tool(f"call_{number}", f"# {path}\n{prose(result_tokens)}"),
    ]


def steps(count: int, result_tokens: int = 300, first: int = 0, name: str = "read_file") -> list[Chat]:
    """Return several tool steps in a row."""
    return [message for n in range(first, first + count) for message in step(n, result_tokens, name)]


def talk(count: int, tokens: int = 200, first: int = 0) -> list[Chat]:
    """Return turns without tools, each a request and its answer."""
    return [
        message
        for n in range(first, first + count)
        for message in (user(f"Question {n}: {prose(tokens)}"), assistant(f"Answer {n}: {prose(tokens)}"))
    ]


def one_task(count: int = 22) -> list[Chat]:
    """Return a request with so many tool steps; 22 of them are above the threshold of a window of 8,192 tokens, and inside it."""
    return [system(), user("Port the parser."), *steps(count, 300)]


def above_threshold(first: int = 0) -> list[Chat]:
    """Return a list above the threshold of a window of 8,192 tokens, and inside the window."""
    return [system(), *talk(15, first=first)]


class Clock:
    """A clock that moves only by hand."""

    seconds = 1_000.0

    def __call__(self) -> Instant:
        return Instant(datetime(2026, 2, 10, 21, 30, tzinfo=UTC), self.seconds)


class Scripted:
    """A summarizer with scripted summaries, which records its requests."""

    def __init__(self, *answers: str | Summary | Exception) -> None:
        self._answers = list(answers) or ["## Goal\n- keep going"]
        self.requests: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> str | Summary:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Numbered(Scripted):
    """A summarizer whose summaries can be told apart: "summary number 1", and so on."""

    def __call__(self, request: SummaryRequest) -> str:
        self.requests.append(request)
        return f"summary number {len(self.requests)}"


class Waiting(Scripted):
    """An async summarizer that says when it is asked, and answers when it is let."""

    def __init__(self, *answers: str | Summary | Exception) -> None:
        super().__init__(*answers)
        self.started, self.release = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: SummaryRequest) -> str | Summary:  # type: ignore[override]
        self.started.set()
        await self.release.wait()
        return super().__call__(request)


class CountingFormat(OpenAIChatFormat):
    """A format that counts the messages it reads."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, message: Mapping[str, object], /) -> tuple[Message, ...]:
        self.reads += 1
        return super().read(message)


Controller = CompactionController[Mapping[str, object]]


def controller(
    window: int | None = 8_192,
    *,
    summarizer: Summarizer | None = None,
    events: list[CompactionEvent] | None = None,
    settings: CompactionSettings | None = None,
    **more: Any,
) -> Controller:
    """Return a controller for a small window."""
    on_event: Callable[[CompactionEvent], None] = (lambda _: None) if events is None else events.append
    return CompactionController(
        context_window=window, summarizer=summarizer, settings=settings, on_event=on_event, **more
    )


def summarizing(summarizer: Summarizer | None = None, **more: Any) -> Controller:
    """Return a controller for a small window that summarizes at once, and clears no results before."""
    return controller(summarizer=summarizer or Numbered(), settings=PLAIN, **more)


def tokens_of(hooks: Controller) -> int:
    """Return the size of the context of the default conversation, in tokens."""
    tokens = hooks.state().context_tokens
    assert tokens is not None
    return tokens


def elsewhere(hooks: Controller, messages: list[Chat]) -> list[Chat]:
    """Return the view in another process, which has only the records."""
    other = controller(1_000_000, settings=CompactionSettings(auto_compact=False)).session("elsewhere")
    other.import_records(hooks.session("default").export_records())
    return other.transform_context_sync(messages)


def texts(messages: list[Mapping[str, object]]) -> str:
    """Return all text of a view, to search in it."""
    return json.dumps(messages, ensure_ascii=False)
