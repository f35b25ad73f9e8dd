"""Strategies for a growing conversation: none, our controller with some settings, or a peer's policy."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from compaction_hooks import (
    CompactionController,
    CompactionSettings,
    ContextOverflowError,
    ExtractiveSummarizer,
    Summarizer,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.messages import Part, ToolCall, ToolResult
from compaction_hooks.text.shortening import shorten
from compaction_hooks.view.texts import shorten_arguments
from tests.benchmarks.money.conversations import FORMAT
from tests.benchmarks.money.wire import Chat, tokens_of
from tests.benchmarks.runner import Worker


@dataclass(frozen=True, slots=True)
class SummaryCall:
    """One call of a summarizer, in tokens."""

    asked: int
    answered: int


class Run(Protocol):
    """One strategy at work on one conversation."""

    summaries: list[SummaryCall]
    """The summarizer's calls so far."""

    def send(self, history: list[Chat]) -> Sequence[Chat]:
        """Return the list to send for a history. Kept messages are the same objects."""
        ...

    def report_usage(self, usage: Usage) -> None:
        """Receive the provider's token counts for the last request."""
        ...


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy: its name in the table, and a function that begins a run in a context window of some tokens."""

    name: str
    begin: Callable[[int], Run]


# -- nothing


@dataclass(slots=True)
class _Everything:
    summaries: list[SummaryCall] = field(default_factory=list[SummaryCall])

    def send(self, history: list[Chat]) -> Sequence[Chat]:
        return history

    def report_usage(self, usage: Usage) -> None:
        """Ignore it."""


NOTHING = Strategy("no compaction", lambda _: _Everything())

# -- ours


_CONTEXT = re.compile(r"<(kept-messages|facts)>\n.*?\n</\1>\n", re.DOTALL)
RESULT_CHARS = 2_000
"""Longest tool result or argument in the transcript for a model (`compaction_hooks.summary.transcript`), in characters."""


@dataclass(slots=True)
class PricedSummarizer:
    """The default summarizer with the input and the price of a model.

    Attributes:
        is_brief: Whether the kept messages and the facts in the prompt cost nothing.
    """

    calls: list[SummaryCall]
    is_brief: bool = False
    summarize: ExtractiveSummarizer = field(default_factory=ExtractiveSummarizer)

    def __call__(self, request: SummaryRequest, /) -> Summary:
        shown = tuple(replace(message, parts=tuple(map(_shorten, message.parts))) for message in request.messages)
        summary = self.summarize(request.replace(messages=shown))
        prompt = _CONTEXT.sub("", request.prompt) if self.is_brief else request.prompt
        self.calls.append(SummaryCall(tokens_of(request.system) + tokens_of(prompt), tokens_of(summary.text)))
        return summary


def _shorten(part: Part) -> Part:
    half = RESULT_CHARS // 2
    match part:
        case ToolResult(text=text) if len(text) > RESULT_CHARS:
            return replace(part, text=shorten(text, half, half))
        case ToolCall(arguments=text) if len(text) > RESULT_CHARS:
            return replace(part, arguments=shorten_arguments(text, half, half))
        case _:
            return part


class Ours:
    """A controller's session."""

    def __init__(
        self, window: int, settings: CompactionSettings, summarizer: Summarizer | None, *, is_brief: bool = False
    ) -> None:
        self.summaries: list[SummaryCall] = []
        self._session = CompactionController(
            context_window=window,
            settings=settings,
            summarizer=summarizer or PricedSummarizer(self.summaries, is_brief),
            format=FORMAT,
        ).session("money")

    def send(self, history: list[Chat]) -> Sequence[Chat]:
        return self._session.transform_context_sync(history)

    def report_usage(self, usage: Usage) -> None:
        self._session.report_usage(usage)


def _is_down(request: SummaryRequest, /) -> Summary:
    raise ConnectionError("the summarizer is down")


def ours(
    name: str,
    settings: CompactionSettings | None = None,
    summarizer: Summarizer | None = None,
    *,
    is_brief: bool = False,
) -> Strategy:
    """Return our strategy with these settings and this free summarizer; None: the defaults, and a priced summarizer."""
    return Strategy(name, lambda window: Ours(window, settings or CompactionSettings(), summarizer, is_brief=is_brief))


OURS = ours("ours")
VARIANTS = (
    ours("ours, prompts without kept messages and facts", is_brief=True),
    ours("ours, summary without a model", summarizer=ExtractiveSummarizer()),
    ours("ours, summarizer down: clears and shortens", summarizer=_is_down),
    ours("ours, summary first, no clearing", CompactionSettings(clear_tool_results=False)),
    ours("ours, keeps 12,800", CompactionSettings(keep_recent_tokens=12_800)),
    ours("ours, fills the window", CompactionSettings(trigger_cap_tokens=None)),
)


# -- peers


class PeerRun:
    """One conversation of a worker (`tests.benchmarks.money.worker`)."""

    def __init__(self, worker: Worker, window: int) -> None:
        self.summaries: list[SummaryCall] = []
        self._worker = worker
        self._seen = 0
        self._usage: tuple[int, int] | None = None
        self._made: dict[str, Chat] = {}
        worker.ask({"window": window})

    def send(self, history: list[Chat]) -> Sequence[Chat]:
        answer = self._worker.ask({"new": history[self._seen :], "usage": self._usage})
        self._seen, self._usage = len(history), None
        self.summaries += [SummaryCall(tokens_of(prompt), tokens_of(text)) for prompt, text in answer["summaries"]]
        if "overflow" in answer:
            raise ContextOverflowError(answer["overflow"])
        return [history[item] if isinstance(item, int) else self._same(item) for item in answer["sent"]]

    def _same(self, message: Chat) -> Chat:
        """Return the same object for the same message, so that its blocks are read once."""
        return self._made.setdefault(json.dumps(message), message)

    def report_usage(self, usage: Usage) -> None:
        self._usage = (usage.input_tokens, usage.output_tokens)
