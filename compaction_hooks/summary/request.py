"""The request to a summarizer, and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from inspect import signature
from typing import Any, Final, NamedTuple, Protocol

from compaction_hooks.messages import Message, Provider, UsageReport, Value
from compaction_hooks.native import NativeItems
from compaction_hooks.summary.prompts import SYSTEM_PROMPT, Prompt, make_user_prompt
from compaction_hooks.summary.prompts import SummaryKind as SummaryKind
from compaction_hooks.summary.transcript import Transcript, newest, transcript


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LiveCall(Value):
    """The call whose older messages are summarized, for summarizers that send these messages as they are.

    Attributes:
        messages: In the host's own form, without a tool call that lacks its result. Of `SummaryRequest.live`: the older part of the
            view last sent, which begins with the summary or the native items in force. Of `SummaryRequest.in_place`: the whole
            list, and behind it the instruction.
        provider: The provider of the messages' format; None if a client library translates them.
        model: The model of the call, or None if unknown.
        system, tools, request: The call's options of these names; of `in_place`, those of the call before.
    """

    messages: Sequence[Any]
    provider: Provider | None
    model: str | None
    system: object
    tools: object
    request: Mapping[str, object] | None = None


class InPlace(NamedTuple):
    """A summary asked in place.

    Attributes:
        call: The request.
        instruction: The text at the end of its messages.
        tokens: The size of the whole.
    """

    call: LiveCall
    instruction: str
    tokens: int


class SummaryRequest:
    """One question to a summarizer. A model needs `system`, `prompt` and `max_tokens` only.

    `prompt`, `transcript`, `omitted_items`, `live` and `in_place` are made at their first access: never for a summarizer that is no
    model and reads `messages`. Two requests with equal values are equal.

    Attributes:
        system: The system prompt that makes the model a summarizer.
        prompt: The whole user prompt: instructions, previous summary, transcript in tags, focus.
        transcript: The transcript alone: labelled, escaped, bounded.
        previous_summary: The summary to update, or None the first time.
        focus: The subject the caller asked to pay attention to, or None.
        kind: Which of the two kinds of summary is asked for.
        max_tokens: The most the answer may hold, in tokens.
        deadline: `time.monotonic()` value after which the answer is no longer awaited, or None.
        messages: The messages to summarize, uncut, oldest first; for summarizers that are not models.
        form: Says how the summary is written, in place of our headings; None: with them.
        instructions: Further lines about the summary, behind the headings or `form`; None: no further lines.
        kept_messages: The messages that stay in the context next to the summary: pinned ones, then the newest. Not to be
            summarized: they show what is done by now, and need not be repeated.
        omitted_items: The number of the newest `messages` that are not in `transcript`, because it is bounded: if it was read, a
            later request brings them.
        live: The call whose older messages are summarized: all that this compaction covers, also if `messages` are a part of them.
        in_place: The list that this call would have sent, with the instruction to summarize at its end, for the conversation's own
            model: it has most of it in its cache. None if a transcript is cheaper, or the only form: then ask with `prompt`. Who
            reads it and gets a call has to send it.
    """

    def __init__(
        self,
        *,
        system: str,
        prompt: str,
        transcript: str,
        previous_summary: str | None,
        focus: str | None,
        kind: SummaryKind,
        max_tokens: int,
        deadline: float | None = None,
        messages: tuple[Message, ...] = (),
        form: str | None = None,
        instructions: str | None = None,
        kept_messages: tuple[Message, ...] = (),
        omitted_items: int = 0,
        live: LiveCall | None = None,
        in_place: LiveCall | None = None,
    ) -> None:
        self.system: Final = system
        self.previous_summary: Final = previous_summary
        self.focus: Final = focus
        self.kind: Final = kind
        self.max_tokens: Final = max_tokens
        self.deadline: Final = deadline
        self.messages: Final = messages
        self.form: Final = form
        self.instructions: Final = instructions
        self.kept_messages: Final = kept_messages

        self._prompt, self._transcript, self._omitted_items = prompt, transcript, omitted_items
        self._live: LiveCall | None = live
        self._in_place: LiveCall | None = in_place

    @property
    def prompt(self) -> str:
        """The whole user prompt."""
        return self._prompt

    @property
    def transcript(self) -> str:
        """The transcript alone."""
        return self._transcript

    @property
    def omitted_items(self) -> int:
        """The number of the newest messages that are not in the transcript."""
        return self._omitted_items

    @property
    def live(self) -> LiveCall | None:
        """The call whose older messages are summarized."""
        return self._live

    @property
    def in_place(self) -> LiveCall | None:
        """The list that this call would have sent, with the instruction to summarize at its end."""
        return self._in_place

    def replace(self, **changes: Any) -> SummaryRequest:
        """Return a copy with other values, such as a shorter prompt for the summarizer inside your own, without `in_place`."""
        return SummaryRequest(**self._values() | changes)

    def _values(self) -> dict[str, Any]:
        # Not the property: who reads it has to send it.
        return {name: getattr(self, name) for name in _NAMES if name != "in_place"} | {"in_place": self._in_place}

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, SummaryRequest) else NotImplemented

    def __hash__(self) -> int:
        return hash((*self._values().values(),))

    def __repr__(self) -> str:
        return f"SummaryRequest({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"

    def __reduce__(self) -> tuple[partial[SummaryRequest], tuple[()]]:
        """Copy and pickle the values, not what makes them."""
        return partial(SummaryRequest, **self._values()), ()


_NAMES: Final = tuple(signature(SummaryRequest).parameters)
"""The names of a request's values."""


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


class Texts(NamedTuple):
    """The texts that a summarizer is shown: the prompt without its transcript, and the transcript."""

    frame: Prompt
    transcript: Transcript


class LazyRequest(SummaryRequest):
    """A request of ours: its texts and its call are made when they are first read, and it knows which were.

    Args:
        previous_summary: The summary that one of kind "update" replaces; not shown for the other kind.
        max_tokens: The most the summary may hold.
        request_tokens: The most that system prompt and prompt may take together. The transcript gets the tokens that
            the rest of them leaves, and at least `MINIMUM_TRANSCRIPT_TOKENS`.
        transcript_tokens: The most that the transcript alone may take, in a prompt without the kept messages; None: see above.
        estimate: Size of a text in tokens.
        name_facts: Returns the facts that the prompt asks to keep word for word.
        find_live: Returns the call whose older messages these are.
        find_place: Returns the request in place of the prompt, if it is the better one; gets a function that sizes the prompt in
            tokens.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        kind: SummaryKind,
        previous_summary: str | None,
        focus: str | None,
        max_tokens: int,
        request_tokens: int = 0,
        transcript_tokens: int | None = None,
        estimate: Callable[[str], int],
        deadline: float | None = None,
        form: str | None = None,
        instructions: str | None = None,
        kept_messages: tuple[Message, ...] = (),
        name_facts: Callable[[], str] = str,
        find_live: Callable[[], LiveCall] | None = None,
        find_place: Callable[[Callable[[], int]], InPlace | None] | None = None,
    ) -> None:
        super().__init__(
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
            instructions=instructions,
            kept_messages=kept_messages,
        )

        self._request_tokens, self._transcript_tokens = request_tokens, transcript_tokens
        self._estimate, self._name_facts, self._find_live = estimate, name_facts, find_live
        self._texts: Texts | None = None
        self._find_place = find_place
        self.place: InPlace | None = None
        """How the summarizer asks in place, if it does."""

    @property
    def prompt(self) -> str:
        """The whole user prompt."""
        if not self._prompt:
            frame, shown = self._show()
            self._prompt = frame.fill_with(shown.pieces)
        return self._prompt

    @property
    def transcript(self) -> str:
        """The transcript alone."""
        if not self._transcript:
            self._transcript = self._show().transcript.text
        return self._transcript

    @property
    def omitted_items(self) -> int:
        """The number of the newest messages that are not in the transcript."""
        return len(self.messages) - self._show().transcript.shown_messages

    @property
    def live(self) -> LiveCall | None:
        """The call whose older messages are summarized."""
        if self._live is None and self._find_live is not None:
            self._live = self._find_live()
        return self._live

    @property
    def in_place(self) -> LiveCall | None:
        """The list that this call would have sent, with the instruction to summarize at its end."""
        find, self._find_place = self._find_place, None
        if find is not None:
            self.place = find(self._size)
        return self.place.call if self.place is not None else None

    # -- what the summarizer has read of it

    @property
    def has_read_prompt(self) -> bool:
        """Whether the summarizer read the prompt, or the instruction in place of it."""
        return bool(self._prompt) or self.place is not None

    @property
    def text_read(self) -> str:
        """The text that the summarizer read: the prompt, else the transcript; empty if it read neither."""
        return self._prompt or self._transcript

    @property
    def instructions_read(self) -> str:
        """The end of the prompt, with our instructions; empty if the summarizer read neither prompt nor transcript."""
        if self.place is not None:
            return self.place.instruction
        return self._texts.frame.behind if self._texts is not None else ""

    @property
    def seen_messages(self) -> int:
        """The number of messages, from the oldest on, that the summarizer saw: all if it read no transcript."""
        if self._texts is None or self.place is not None:
            return len(self.messages)
        return self._texts.transcript.shown_messages

    def halve(self) -> LazyRequest | None:
        """Return the same question with a transcript of half the size, for a summarizer whose own window overflowed.

        The kept messages are no longer shown. Results are cut harder first, then the newest items go, a call with its results.
        None when nothing would be left.
        """
        smaller = LazyRequest(
            self.messages,
            kind=self.kind,
            previous_summary=self.previous_summary,
            focus=self.focus,
            max_tokens=self.max_tokens,
            transcript_tokens=self._estimate(self.transcript) // 2,
            estimate=self._estimate,
            deadline=self.deadline,
            form=self.form,
            instructions=self.instructions,
            kept_messages=self.kept_messages,
            name_facts=self._name_facts,
        )

        return smaller if smaller._show().transcript.pieces else None

    # -- the texts

    def _size(self) -> int:
        """Return the tokens of the system prompt and the prompt."""
        frame, shown = self._show()
        return self._estimate(self.system) + self._estimate(frame.fill_with(shown.pieces))

    def _show(self) -> Texts:
        if self._texts is None:
            self._texts = self._make_texts()
        return self._texts

    def _make_texts(self) -> Texts:
        if self._transcript_tokens is not None:
            return self._make_texts_with("")

        most = min(KEPT_TOKENS, int(self._request_tokens * KEPT_RATIO))
        kept = newest(self.kept_messages, max_tokens=most, estimate=self._estimate)
        texts = self._make_texts_with(kept)
        if kept and texts.transcript.shown_messages < len(self.messages):
            # Messages that fit without the kept ones would cost one more request.
            without = self._make_texts_with("")
            return without if without.transcript.shown_messages == len(self.messages) else texts
        return texts

    def _make_texts_with(self, kept: str) -> Texts:
        """Return the prompt with this text of the kept messages, and the transcript that has room in it."""
        frame = make_user_prompt(
            self.kind,
            previous_summary=self.previous_summary,
            focus=self.focus,
            max_tokens=self.max_tokens,
            form=self.form,
            instructions=self.instructions,
            kept=kept,
            facts=self._name_facts(),
        )

        room = self._transcript_tokens
        if room is None:
            taken = self._estimate(self.system) + self._estimate(frame.fill_with(()))
            room = max(self._request_tokens - taken, MINIMUM_TRANSCRIPT_TOKENS)

        return Texts(frame, transcript(self.messages, max_tokens=room, estimate=self._estimate))
