"""The request to a summarizer, and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from compaction_hooks.messages import Message, Provider, UsageReport
from compaction_hooks.native import NativeItems
from compaction_hooks.summary.prompts import SYSTEM_PROMPT, Prompt, make_user_prompt
from compaction_hooks.summary.prompts import SummaryKind as SummaryKind
from compaction_hooks.summary.transcript import Transcript, transcript


class _Filling:
    """The texts of a request, made when they are first read: one transcript for prompt and transcript.

    Args:
        blank: The request without the texts made here.
        room: Returns the most tokens a transcript in this prompt may have.
        kept_tokens: The most tokens that the prompt may show of the kept messages.
        name_facts: Returns the facts that the prompt names.
        make_live: Returns the call whose older messages are summarized; None if there is none.
    """

    def __init__(
        self,
        blank: SummaryRequest,
        room: Callable[[Prompt], int],
        estimate: Callable[[str], int],
        kept_tokens: int,
        name_facts: Callable[[], str],
        make_live: Callable[[], LiveCall] | None = None,
    ) -> None:
        self._blank, self._room, self._estimate, self._kept_tokens = blank, room, estimate, kept_tokens
        self.name_facts, self._make_live = name_facts, make_live
        self.frame: Prompt | None = None
        self._shown: Transcript | None = None

    @property
    def excerpt(self) -> Transcript:
        """The transcript; from the first access on it counts as read."""
        if self._shown is None:
            kept = _show_newest(self._blank.kept_messages, self._kept_tokens, self._estimate)
            self.frame, self._shown = self._show_below(kept)
            if kept and self._shown.shown_messages < len(self._blank.messages):
                # Messages that fit without the kept ones would cost one more request.
                frame, shown = self._show_below("")
                if shown.shown_messages == len(self._blank.messages):
                    self.frame, self._shown = frame, shown
        return self._shown

    def _show_below(self, kept: str) -> tuple[Prompt, Transcript]:
        """Return the prompt with this text of the kept messages, and the transcript that has room in it."""
        frame = make_prompt(self._blank, kept, self.name_facts())
        return frame, transcript(self._blank.messages, max_tokens=self._room(frame), estimate=self._estimate)

    def prompt(self) -> str:
        pieces = self.excerpt.pieces
        assert self.frame is not None  # made for the excerpt
        return self.frame.fill_with(pieces)

    def transcript(self) -> str:
        return self.excerpt.text

    def omitted_items(self) -> int:
        return len(self._blank.messages) - self.excerpt.shown_messages

    def live(self) -> LiveCall | None:
        return self._make_live() if self._make_live else None

    def count_shown(self) -> int:
        """Return the number of messages a summarizer saw: those in the text it read; all of them if it read no text."""
        return len(self._blank.messages) if self._shown is None else self._shown.shown_messages


class _Fillable:
    """A slot for the object that makes the fields that are not set yet; a dataclass with slots has no place for it."""

    __slots__ = ("_filling",)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCall:
    """The call whose older messages are summarized, for summarizers that send these messages as they are.

    Attributes:
        messages: The older part of the view last sent, in the host's own form: it begins with the summary or the native items in
            force, and no tool call in it is without its result.
        provider: The provider of the messages' format; None if a client library translates them.
        model: The model of the call, or None if unknown.
        system, tools: The call's options of these names.
    """

    messages: Sequence[Any]
    provider: Provider | None
    model: str | None
    system: object
    tools: object


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest(_Fillable):
    """One question to a summarizer. A model needs `system`, `prompt` and `max_tokens` only.

    `prompt`, `transcript`, `omitted_items` and `live` are made at their first access: never for a summarizer that is no model and
    reads `messages`.

    Attributes:
        system: The system prompt that makes the model a summarizer.
        prompt: The whole user prompt: instructions, previous summary, transcript in tags, focus.
        transcript: The transcript alone: labelled, escaped, bounded.
        previous_summary: The summary to update, or None the first time.
        focus: The subject the caller asked to pay attention to, or None.
        kind: Which of the three kinds of summary is asked for.
        max_tokens: The most the answer may hold, in tokens.
        deadline: `time.monotonic()` value after which the answer is no longer awaited, or None.
        messages: The messages to summarize, uncut, oldest first; for summarizers that are not models.
        form: Says how the summary is written, in place of our headings; None: with them.
        kept_messages: The messages that stay in the context next to the summary: pinned ones, then the newest. Not to be
            summarized: they show what is done by now, and need not be repeated.
        omitted_items: Of those messages, the newest ones that are not in `transcript`, because it is bounded: if it was read, a
            later request brings them.
        live: The call whose older messages are summarized: all that this compaction covers, also if `messages` are a part of them.
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
    form: str | None = None
    kept_messages: tuple[Message, ...] = ()
    omitted_items: int = 0
    live: LiveCall | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Make a field that was left open. Python calls this only for a field without a value."""
            if name not in _MADE:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            value = getattr(_filling_of(self), name)()
            object.__setattr__(self, name, value)
            return value


_MADE: Final = ("prompt", "transcript", "omitted_items", "live")
_GIVEN: Final = tuple(name for name in SummaryRequest.__dataclass_fields__ if name not in _MADE)


def _filling_of(request: SummaryRequest) -> _Filling | None:
    """Return the maker of a request's fields; None for a request that came with all of them."""
    return cast("_Filling | None", getattr(request, "_filling", None))  # nothing else is ever put there


@dataclass(frozen=True, slots=True)
class Summary:
    """A summarizer's answer with the facts needed to judge it.

    Attributes:
        text: The summary, as Markdown.
        usage: The cost of the call, for the books: a `Usage`, or the provider's own as a dict or a client's object; None when
            unknown.
        finish_reason: The provider's word for how the answer ended; "length" and its synonyms refuse it.
        tool_calls: Tool calls that the model made instead of an answer; one is enough to refuse it.
        native: The provider's own summary of all messages of `SummaryRequest.live`. `text` is then its readable form; if that is
            empty or refused, a text is made by rule.
        fallback_reason: The reason why there is no summary: one is made by rule at once, and the event tells the reason.
        is_by_rule: Whether code chose the text from the messages, with the identifiers that are needed next: nothing is repaired
            but missing constraints.
    """

    text: str
    _: KW_ONLY
    usage: UsageReport = None
    finish_reason: str | None = None
    tool_calls: tuple[Mapping[str, object], ...] = ()
    native: NativeItems | None = None
    fallback_reason: str = ""
    is_by_rule: bool = False


class Summarizer(Protocol):
    """Any callable, sync or async, that answers a `SummaryRequest`."""

    def __call__(self, request: SummaryRequest, /) -> str | Summary | Awaitable[str | Summary]: ...


MINIMUM_TRANSCRIPT_TOKENS = 512
"""The least a summarizer is shown, even if its window seems to have no room: the window may be larger than known."""
KEPT_TOKENS, KEPT_RATIO = 2_000, 0.125
"""The most that a prompt shows of the kept messages, and the part of its room: enough for the calls of the last 20 to 40 steps."""


def summary_request(
    messages: Sequence[Message],
    *,
    kind: SummaryKind,
    previous_summary: str | None,
    focus: str | None,
    max_tokens: int,
    request_tokens: int,
    estimate: Callable[[str], int],
    deadline: float | None = None,
    form: str | None = None,
    kept_messages: tuple[Message, ...] = (),
    name_facts: Callable[[], str] = str,
    live: Callable[[], LiveCall] | None = None,
) -> SummaryRequest:
    """Return the question that asks for a summary of these messages.

    Args:
        previous_summary: The summary that one of kind "update" replaces; not shown for the other kinds.
        max_tokens: The most the summary may hold.
        request_tokens: The most that system prompt and prompt may take together. The transcript gets the tokens that
            the rest of them leaves, and at least `MINIMUM_TRANSCRIPT_TOKENS`.
        estimate: Size of a text in tokens.
        form: Says how the summary is written, in place of our headings.
        kept_messages: The messages that stay in the context next to the summary.
        name_facts: Returns the facts that the prompt asks to keep word for word.
        live: Returns the call whose older messages these are.
    """
    blank = SummaryRequest(
        system=SYSTEM_PROMPT,
        prompt="",
        transcript="",
        previous_summary=previous_summary,
        focus=focus,
        kind=kind,
        max_tokens=max_tokens,
        deadline=deadline,
        messages=tuple(messages),
        form=form,
        kept_messages=kept_messages,
    )

    def room(prompt: Prompt) -> int:
        taken = estimate(SYSTEM_PROMPT) + estimate(prompt.fill_with(()))
        return max(request_tokens - taken, MINIMUM_TRANSCRIPT_TOKENS)

    kept_tokens = min(KEPT_TOKENS, int(request_tokens * KEPT_RATIO))
    return _attach_filling(blank, _Filling(blank, room, estimate, kept_tokens, name_facts, live))


def halve(request: SummaryRequest, estimate: Callable[[str], int]) -> SummaryRequest | None:
    """Return the same question with a transcript of half the size, for a summarizer whose own window overflowed.

    The kept messages are no longer shown. Results are cut harder first, then the newest items go, a call with its results. None
    when nothing would be left.
    """
    filling = _filling_of(request)
    tokens = (estimate(request.transcript) if filling is None else filling.excerpt.tokens) // 2
    blank = replace(
        request, prompt="", transcript="", omitted_items=0, live=None
    )  # else it would hold the text that overflowed
    smaller = _Filling(blank, lambda _: tokens, estimate, 0, filling.name_facts if filling else str)
    return _attach_filling(blank, smaller) if smaller.excerpt.pieces else None


def count_shown_messages(request: SummaryRequest) -> int:
    """Return the number of messages, from the oldest on, that a request's summarizer saw: all if it read no transcript."""
    filling = _filling_of(request)
    return len(request.messages) - request.omitted_items if filling is None else filling.count_shown()


def _attach_filling(blank: SummaryRequest, filling: _Filling) -> SummaryRequest:
    """Return the request with its lazy fields unset, to be made at their first access."""
    request = SummaryRequest.__new__(SummaryRequest)
    for name in _GIVEN:
        object.__setattr__(request, name, getattr(blank, name))
    object.__setattr__(request, "_filling", filling)
    return request


def read_instructions(request: SummaryRequest) -> str:
    """Return the end of the prompt, with our instructions; nothing if the summarizer read neither prompt nor transcript."""
    filling = _filling_of(request)
    frame = make_prompt(request) if filling is None else filling.frame
    return frame.behind if frame else ""


def _show_newest(messages: Sequence[Message], max_tokens: int, estimate: Callable[[str], int]) -> str:
    """Return a transcript of at least the newest messages that fit, each cut alike; empty if not even the last one fits."""
    while messages:
        shown = transcript(messages, max_tokens=max_tokens, estimate=estimate)
        if shown.shown_messages == len(messages):
            return shown.text
        messages = messages[(len(messages) + 1) // 2 :]
    return ""


def make_prompt(request: SummaryRequest, kept: str = "", facts: str = "") -> Prompt:
    """Return the user prompt for this kind of summary."""
    return make_user_prompt(
        request.kind,
        previous_summary=request.previous_summary,
        focus=request.focus,
        max_tokens=request.max_tokens,
        form=request.form,
        kept=kept,
        facts=facts,
    )
