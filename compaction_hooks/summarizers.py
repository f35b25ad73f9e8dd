"""What a summariser is asked, what it may answer, and when its answer is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from compaction_hooks.messages import Message, Usage

SummaryKind: TypeAlias = Literal["history", "update", "turn_prefix"]
"""A first summary, an update of an earlier one, or the beginning of a turn whose end stays in the context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """One question to a summariser. A model needs `system`, `prompt` and `max_tokens` only.

    Attributes:
        system: The system prompt that makes the model a summariser.
        prompt: The whole user prompt: instructions, previous summary, transcript in tags, focus.
        transcript: The transcript alone: labelled, escaped, bounded.
        previous_summary: The summary to update, or None the first time.
        focus: What the caller asked to pay attention to, or None.
        max_tokens: The most the answer may hold, in tokens.
        deadline: `time.monotonic()` value after which the answer is no longer awaited, or None.
        messages: What is to be summarised, uncut, oldest first; for summarisers that are not models.
    """

    system: str
    prompt: str
    transcript: str
    previous_summary: str | None
    focus: str | None
    kind: SummaryKind
    max_tokens: int
    deadline: float | None = None
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summariser's answer with what is needed to judge it.

    Attributes:
        usage: What the call cost, for the books; None when unknown.
        finish_reason: The provider's word for how the answer ended; "length" and its synonyms refuse it.
        tool_calls: Whatever calls the model made instead of answering; any call refuses the answer.
    """

    text: str
    usage: Usage | None = None
    finish_reason: str | None = None
    tool_calls: tuple[Mapping[str, object], ...] = ()


class Summarizer(Protocol):
    """Any callable, sync or async, that answers a `SummaryRequest`."""

    def __call__(self, request: SummaryRequest, /) -> str | Summary | Awaitable[str | Summary]: ...
