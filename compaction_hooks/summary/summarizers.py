"""The request to a summarizer, its answer, and the reasons to refuse the answer."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from compaction_hooks.errors import describe_error
from compaction_hooks.formats.answers import read_report
from compaction_hooks.formats.usage import is_counted
from compaction_hooks.messages import Message, Provider, Usage, UsageReport
from compaction_hooks.native import NativeItems
from compaction_hooks.summary.prompts import SYSTEM_PROMPT, Prompt, make_user_prompt
from compaction_hooks.summary.prompts import SummaryKind as SummaryKind
from compaction_hooks.summary.transcript import Transcript, transcript
from compaction_hooks.text.escaping import find_turns

logger = logging.getLogger("compaction_hooks")


class _Filling:
    """The texts of a request, made when they are first read: one transcript for prompt and transcript.

    Args:
        blank: The request without the texts made here.
        room: Returns the most tokens a transcript in this prompt may have.
        make_live: Returns the call whose older messages are summarized; None if there is none.
    """

    def __init__(
        self,
        blank: SummaryRequest,
        room: Callable[[Prompt], int],
        estimate: Callable[[str], int],
        make_live: Callable[[], LiveCall] | None = None,
    ) -> None:
        self._blank, self._room, self._estimate, self._make_live = blank, room, estimate, make_live
        self._shown: Transcript | None = None

    @property
    def excerpt(self) -> Transcript:
        """The transcript; from the first access on it counts as read."""
        if self._shown is None:
            room = self._room(_make_prompt(self._blank))
            self._shown = transcript(self._blank.messages, max_tokens=room, estimate=self._estimate)
        return self._shown

    def prompt(self) -> str:
        return _make_prompt(self._blank).fill_with(self.excerpt.pieces)

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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """

    text: str
    usage: UsageReport = None
    finish_reason: str | None = None
    tool_calls: tuple[Mapping[str, object], ...] = ()
    native: NativeItems | None = None
    fallback_reason: str = ""


class Summarizer(Protocol):
    """Any callable, sync or async, that answers a `SummaryRequest`."""

    def __call__(self, request: SummaryRequest, /) -> str | Summary | Awaitable[str | Summary]: ...


# -- asking

MINIMUM_TRANSCRIPT_TOKENS = 512
"""The least a summarizer is shown, even if its window seems to have no room: the window may be larger than known."""


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

    return _attach_filling(blank, _Filling(blank, room, estimate, live))


def halve(request: SummaryRequest, estimate: Callable[[str], int]) -> SummaryRequest | None:
    """Return the same question with a transcript of half the size, for a summarizer whose own window overflowed.

    Results are cut harder first, then the newest items go, a call with its results. None when nothing would be left.
    """
    filling = _filling_of(request)
    tokens = (estimate(request.transcript) if filling is None else filling.excerpt.tokens) // 2
    blank = replace(
        request, prompt="", transcript="", omitted_items=0, live=None
    )  # else it would hold the text that overflowed
    smaller = _Filling(blank, lambda _: tokens, estimate)
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


def _make_prompt(request: SummaryRequest) -> Prompt:
    """Return the user prompt for this kind of summary."""
    return make_user_prompt(
        request.kind,
        previous_summary=request.previous_summary,
        focus=request.focus,
        max_tokens=request.max_tokens,
        form=request.form,
    )


# -- judging the answer

_TRUNCATED = frozenset(
    ("length", "maxtokens", "maxoutputtokens", "modellength", "modelcontextwindowexceeded", "tokenlimit", "incomplete")
)
"""OpenAI, Mistral, LiteLLM; Anthropic, Bedrock, Gemini, Cohere; OpenAI Responses; Mistral; Anthropic; watsonx; Responses."""
_CALLED_TOOLS = frozenset(("toolcalls", "toolcall", "tooluse", "functioncall"))
_WITHHELD = frozenset(
    (
        *("contentfilter", "contentfiltered", "guardrailintervened", "safety", "recitation", "blocklist"),
        *("prohibitedcontent", "refusal", "error", "errortoxic", "aborted", "cancelled"),
    )
)
MOST_REASONING_CHARS = 400_000
"""The most characters of reasoning that may come with a summary: 100,000 tokens."""
MOST_CHARS_PER_TOKEN = 32
"""Prose has about four. A text with more characters for each accepted token is refused before its tokens are estimated."""
REFUSAL_CHARS = 500
"""A model that refuses says so in a few sentences. The shortest summary in the form that the prompt asks for has its headings."""
_ECHO_CHARS = 80
"""A text of at least this length that repeats a passage of the instructions is an echo; a shorter one may be chance."""
_REASONING = re.compile(r"\s*<(think|thinking|reasoning|analysis)>")
_NEXT_LINE = re.compile(r"[ \t]*+(?:\n|\Z)")
_STRUCTURE = re.compile(r"^\s*(?:[#*•+-]|\d+[.)]\s)", re.MULTILINE)
"""A heading or the item of a list: a summary in the form of the prompt has nothing else."""
_FENCE = re.compile(r"```(?:markdown|md|text)?[ \t]*+\n")
_SUMMARY_BEGINNING = re.compile(r"(?:[^\n]{0,200}\n\s*+)?<summary>")
_SUMMARY_END = re.compile(r"</summary>\s*[^\n]{0,200}\Z")
_MOST_END_CHARS = 400
"""Characters at the end of an answer in which its last tag is looked for."""
_LINE_CHARS = 1_000
"""The most characters of a line that are read to find whether it says anything."""
_PROMPT_TAG = re.compile(r"^[ \t]*</?(?:conversation|previous-summary|focus)>[ \t]*$", re.MULTILINE)


def read_summary_usage(answer: object) -> Usage | None:
    """Return the cost of an answer, if it names one. Warn about a cost that cannot be read: the summary still counts."""
    try:
        read = read_report(answer.usage, "Summary") if isinstance(answer, Summary) else None
    except Exception as error:  # noqa: BLE001 - a host's callable may put any object there
        logger.warning("the usage of a summary is left out: %s", describe_error(error))
        return None
    if read is not None and not is_counted(read):
        logger.warning("the usage of a summary is left out: its counts must be whole numbers")
        return None
    return read


def unwrap_answer(answer: object) -> Summary:
    """Return a `str` or `Summary` as a `Summary` without the wrapping that models put around the text.

    Removed are reasoning at its beginning (`<think>`, `<analysis>`, ...), a code fence and `<summary>` tags around the
    whole, with one line of talk before and after such tags. Usage, finish reason and calls stay. An answer of
    any other type comes back as an empty summary, which `refusal` refuses.
    """
    summary = answer if isinstance(answer, Summary) else Summary(text=answer if isinstance(answer, str) else "")
    given = cast(object, summary.text)  # a host's callable may put any object there
    # A plain copy of a subclass, such as LangChain's `answer.text`, runs no foreign code.
    text = str.__str__(given) if isinstance(given, str) else ""
    text = _remove_wrapping(_remove_reasoning(text).strip())
    return summary if text is given and summary is answer else replace(summary, text=text)


# Patterns that run over the whole of a long text stop every thread: these look at its two ends.


def _remove_wrapping(text: str) -> str:
    """Return the text without a fence and tags around the whole."""
    fence = _FENCE.match(text)
    if fence and text.endswith("\n```", fence.end()):
        text = text[fence.end() : -len("\n```")].strip()
    if beginning := _SUMMARY_BEGINNING.match(text):
        end = _SUMMARY_END.search(text, max(beginning.end(), len(text) - _MOST_END_CHARS))
        text = text[beginning.end() : end.start() if end else len(text)].strip()
    return text


def _remove_reasoning(text: str) -> str:
    """Return the text behind its reasoning."""
    start = 0
    while opening := _REASONING.match(text, start):
        end = text.find(closing := f"</{opening[1]}>", opening.end())
        start = end + len(closing) if end >= 0 else len(text)

    # Chat templates open the reasoning themselves: the answer has only its end, on a line of its own.
    end = text.find("<think>", start)
    end = len(text) if end < 0 else end
    while (end := text.rfind("</think>", start, end)) >= 0:
        if end == start or text[end - 1] == "\n":
            summary = _NEXT_LINE.match(text, end + len("</think>"))
            if summary:
                return text[summary.end() :]
    return text[start:]


def refusal(answer: object, request: SummaryRequest, estimate: Callable[[str], int]) -> str | None:
    """Return why an answer must not be used, in words without its text; None when it may be.

    Args:
        answer: The summarizer's return value; anything but `str` and `Summary` is refused.
        estimate: Size of a text in tokens.
    """
    if (why := _unreadable(answer, request)) is not None:
        return why
    summary = unwrap_answer(answer)
    # Before every check that reads the whole text: the answer may be megabytes.
    if len(summary.text) > request.max_tokens * MOST_CHARS_PER_TOKEN:
        return _too_long(summary.text, request)

    ending = re.sub(r"[^a-z]", "", (summary.finish_reason or "").rpartition(".")[2].casefold())
    if summary.tool_calls or ending in _CALLED_TOOLS:
        return "the summarizer called a tool instead of answering"
    if ending in _TRUNCATED:
        return f"the summary was cut off (finish reason {ending})"
    if ending in _WITHHELD:
        return f"the summary was withheld (finish reason {ending})"

    if all(map(_says_nothing, summary.text.splitlines())):
        return "the summary is empty"
    if _asks_for_headings(request) and len(summary.text) <= REFUSAL_CHARS and _STRUCTURE.search(summary.text) is None:
        return f"the summary has none of the headings that were asked for, in {len(summary.text)} characters: the model refused"
    if _is_echo(summary.text, request):
        return "the summary repeats the prompt or the transcript, or continues the conversation"

    tokens = estimate(summary.text)
    if tokens > request.max_tokens:
        return f"the summary has {tokens} tokens, at most {request.max_tokens} are accepted"
    return None


def _unreadable(answer: object, request: SummaryRequest) -> str | None:
    """Return why an answer cannot be read, or is too long to be; None when it can."""
    if not isinstance(answer, str | Summary):
        return f"the summarizer returned {type(answer).__name__}, not str or Summary"
    text = cast(object, answer.text if isinstance(answer, Summary) else answer)
    ending = cast(object, answer.finish_reason if isinstance(answer, Summary) else None)
    if not isinstance(text, str):
        return f"Summary.text is {type(text).__name__}, not str"
    if not isinstance(ending, str | None):
        return f"Summary.finish_reason is {type(ending).__name__}, not str"
    is_long = len(text) > request.max_tokens * MOST_CHARS_PER_TOKEN + MOST_REASONING_CHARS
    return _too_long(text, request) if is_long else None


def _too_long(text: str, request: SummaryRequest) -> str:
    return f"the summary has {len(text):,} characters, at most {request.max_tokens} tokens are accepted"


def _asks_for_headings(request: SummaryRequest) -> bool:
    """Return whether the summarizer was asked for our headings: it read the prompt, and the host gave no form of its own."""
    if request.form is not None:
        return False
    try:
        return bool(object.__getattribute__(request, "prompt"))
    except AttributeError:
        return False


def _says_nothing(line: str) -> bool:
    """Return whether a line is blank, a heading, or "(none)"."""
    return line.lstrip().startswith("#") or re.sub(r"[\W_]+", "", line[:_LINE_CHARS]).casefold() in ("", "none", "na")


def _is_echo(text: str, request: SummaryRequest) -> bool:
    """Return whether a text repeats the prompt's own parts. One quoted label is no echo."""
    repeats_instructions = len(text) >= _ECHO_CHARS and text in _make_prompt(request).behind
    return repeats_instructions or _PROMPT_TAG.search(text) is not None or len(find_turns(text)) > 1
