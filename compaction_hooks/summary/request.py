"""The request to a summarizer, and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol, cast

from compaction_hooks.messages import Message, Provider, UsageReport, Value
from compaction_hooks.native import NativeItems
from compaction_hooks.summary.prompts import SYSTEM_PROMPT, Prompt, make_user_prompt
from compaction_hooks.summary.prompts import SummaryKind as SummaryKind
from compaction_hooks.summary.transcript import Transcript, newest, transcript


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LiveCall(Value):
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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SummaryRequest(Value):
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

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in SummaryRequest.__dataclass_fields__}


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Value):
    """A summarizer's answer with the facts needed to judge it.

    Attributes:
        text: The summary, as Markdown.
        usage: The cost of the call, for the books: a `Usage`, or the provider's own as a dict or a client's object; None: it is
            estimated, unless `is_by_rule` or `fallback_reason` says that no model wrote the text.
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
    return _leave_open(blank, _Texts(blank, room, estimate, kept_tokens, name_facts, live))


class _Texts:
    """The texts of a request, made when they are first read: one transcript for prompt and transcript.

    Args:
        blank: The request without these texts.
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
        kept_tokens: int = 0,
        name_facts: Callable[[], str] = str,
        make_live: Callable[[], LiveCall] | None = None,
    ) -> None:
        self._blank, self._room, self._estimate, self._kept_tokens = blank, room, estimate, kept_tokens
        self.name_facts, self._make_live = name_facts, make_live

    @cached_property
    def shown(self) -> tuple[Prompt, Transcript]:
        """The prompt without its transcript, and the transcript; from the first access on it counts as read."""

        kept = newest(self._blank.kept_messages, max_tokens=self._kept_tokens, estimate=self._estimate)
        shown = self._show_below(kept)
        if kept and shown[1].shown_messages < len(self._blank.messages):
            # Messages that fit without the kept ones would cost one more request.
            without = self._show_below("")
            return without if without[1].shown_messages == len(self._blank.messages) else shown
        return shown

    def _show_below(self, kept: str) -> tuple[Prompt, Transcript]:
        """Return the prompt with this text of the kept messages, and the transcript that has room in it."""

        frame = make_prompt(self._blank, kept, self.name_facts())
        return frame, transcript(self._blank.messages, max_tokens=self._room(frame), estimate=self._estimate)

    @property
    def was_read(self) -> bool:
        return "shown" in vars(self)

    @property
    def prompt(self) -> str:
        return self.shown[0].fill_with(self.shown[1].pieces)

    @property
    def transcript(self) -> str:
        return self.shown[1].text

    @property
    def omitted_items(self) -> int:
        return len(self._blank.messages) - self.shown[1].shown_messages

    @property
    def live(self) -> LiveCall | None:
        return self._make_live() if self._make_live else None


_MADE = ("prompt", "transcript", "omitted_items", "live")
for _name in _MADE:
    # Of use to a request that was left open alone: a value that is set goes before a cached property.
    _made = cached_property(attrgetter(f"_texts.{_name}"))
    _made.__set_name__(SummaryRequest, _name)
    setattr(SummaryRequest, _name, _made)


def _leave_open(blank: SummaryRequest, texts: _Texts) -> SummaryRequest:
    """Return the request with the fields of texts open, to be made at their first access."""
    request = replace(blank)
    for name in _MADE:
        del vars(request)[name]
    vars(request)["_texts"] = texts
    return request


def _texts_of(request: SummaryRequest) -> _Texts:
    """Return the maker of a request's texts."""
    return cast("_Texts", vars(request)["_texts"])


def halve(request: SummaryRequest, estimate: Callable[[str], int]) -> SummaryRequest | None:
    """Return the same question with a transcript of half the size, for a summarizer whose own window overflowed.

    The kept messages are no longer shown. Results are cut harder first, then the newest items go, a call with its results. None
    when nothing would be left.
    """
    tokens = estimate(request.transcript) // 2
    blank = replace(
        request, prompt="", transcript="", omitted_items=0, live=None
    )  # else it would hold the text that overflowed
    smaller = _Texts(blank, lambda _: tokens, estimate, name_facts=_texts_of(request).name_facts)
    return _leave_open(blank, smaller) if smaller.shown[1].pieces else None


def count_shown_messages(request: SummaryRequest) -> int:
    """Return the number of messages, from the oldest on, that a request's summarizer saw: all if it read no transcript."""
    return len(request.messages) - (request.omitted_items if _texts_of(request).was_read else 0)


def read_instructions(request: SummaryRequest) -> str:
    """Return the end of the prompt, with our instructions; nothing if the summarizer read neither prompt nor transcript."""
    texts = _texts_of(request)
    return texts.shown[0].behind if texts.was_read else ""


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
