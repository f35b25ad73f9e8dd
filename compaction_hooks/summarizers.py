"""What a summariser is asked, what it may answer, and when its answer is refused."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from compaction_hooks.escaping import turns
from compaction_hooks.messages import Message, Usage
from compaction_hooks.prompts import SYSTEM_PROMPT, history_prompt, turn_prefix_prompt, update_prompt
from compaction_hooks.transcript import transcript

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
        kind: Which of the three kinds of summary is asked for.
        max_tokens: The most the answer may hold, in tokens.
        deadline: `time.monotonic()` value after which the answer is no longer awaited, or None.
        messages: What is to be summarised, uncut, oldest first; for summarisers that are not models.
        omitted_items: Of those messages, the oldest ones that are not in `transcript`, because it is bounded.
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
    omitted_items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summariser's answer with what is needed to judge it.

    Attributes:
        text: The summary, as Markdown.
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


# -- asking

MINIMUM_TRANSCRIPT_TOKENS = 512
"""A summariser is shown at least this much, however little room its window seems to leave: it may have more than is known."""


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
) -> SummaryRequest:
    """Return the question that asks for a summary of these messages.

    Args:
        previous_summary: What a summary of kind "update" takes the place of; not shown for the other kinds.
        max_tokens: The most the summary may hold.
        request_tokens: The most that system prompt and prompt may take together. The transcript gets what the rest of them
            leaves, and at least `MINIMUM_TRANSCRIPT_TOKENS`.
        estimate: Size of a text in tokens.
    """
    request = SummaryRequest(
        system=SYSTEM_PROMPT,
        prompt="",
        transcript="",
        previous_summary=previous_summary,
        focus=focus,
        kind=kind,
        max_tokens=max_tokens,
        deadline=deadline,
        messages=tuple(messages),
    )
    room = request_tokens - estimate(SYSTEM_PROMPT) - estimate(_prompt(request, ""))
    return _filled(request, max(room, MINIMUM_TRANSCRIPT_TOKENS), estimate)


def halved(request: SummaryRequest, estimate: Callable[[str], int]) -> SummaryRequest | None:
    """Return the same question with a transcript of half the size, for a summariser whose own window overflowed.

    Results are cut harder first, then the oldest items go, a call with its results. None when nothing would be left.
    """
    smaller = _filled(request, estimate(request.transcript) // 2, estimate)
    return smaller if smaller.transcript else None


def _filled(request: SummaryRequest, transcript_tokens: int, estimate: Callable[[str], int]) -> SummaryRequest:
    """The request with as much of its messages in the transcript as fits."""
    shown = transcript(request.messages, max_tokens=transcript_tokens, estimate=estimate)
    return replace(
        request, prompt=_prompt(request, shown.text), transcript=shown.text, omitted_items=shown.omitted_items
    )


def _prompt(request: SummaryRequest, text: str) -> str:
    """The user prompt for this kind of summary, with this transcript in it."""
    focus, max_tokens = request.focus, request.max_tokens
    match request.kind:
        case "history":
            return history_prompt(text, focus=focus, max_tokens=max_tokens)
        case "update":
            earlier = request.previous_summary or ""
            return update_prompt(text, previous_summary=earlier, focus=focus, max_tokens=max_tokens)
        case "turn_prefix":
            return turn_prefix_prompt(text, focus=focus, max_tokens=max_tokens)


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
_ECHO_CHARS = 80
"""A text from here on that stands word for word in the instructions is an echo; shorter ones may be chance."""
_REASONING = re.compile(r"\s*<(think|thinking|reasoning|analysis)>.*?(?:</\1>|\Z)", re.DOTALL)
_REASONING_END = re.compile(r"\A(?:(?!<think>).)*^</think>[ \t]*$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"```(?:markdown|md|text)?[ \t]*\n(.*)\n```", re.DOTALL)
_SUMMARY_TAG = re.compile(r"(?:[^\n]{0,200}\n\s*)?<summary>(.*?)(?:</summary>\s*[^\n]{0,200})?", re.DOTALL)
_PROMPT_TAG = re.compile(r"^[ \t]*</?(?:conversation|previous-summary|focus)>[ \t]*$", re.MULTILINE)


def accepted(answer: object) -> Summary:
    """Return a `str` or `Summary` as a `Summary` whose text is freed of what models wrap around it.

    Taken off are reasoning at its beginning (`<think>`, `<analysis>`, ...), a code fence and `<summary>` tags around the
    whole, with one line of talk before and after such tags. Usage, finish reason and calls stay. An answer of
    any other type comes back as an empty summary, which `refusal` refuses.
    """
    summary = answer if isinstance(answer, Summary) else Summary(text=answer if isinstance(answer, str) else "")
    text = summary.text if type(summary.text) is str else ""  # whatever a callable put there
    while reasoning := _REASONING.match(text):
        text = text[reasoning.end() :]
    text = _REASONING_END.sub("", text).strip()
    for wrapper in (_FENCE, _SUMMARY_TAG):
        if wrapped := wrapper.fullmatch(text):
            text = wrapped.group(1).strip()
    return replace(summary, text=text)


def refusal(answer: object, request: SummaryRequest, estimate: Callable[[str], int]) -> str | None:
    """Return why an answer must not be used, in words without its text; None when it may be.

    Args:
        answer: Whatever the summariser returned; anything but `str` and `Summary` is refused.
        estimate: Size of a text in tokens.
    """
    if not isinstance(answer, str | Summary):
        return f"the summariser returned {type(answer).__name__}, not str or Summary"
    if isinstance(answer, Summary):
        for name in ("text", "finish_reason"):
            value: object = getattr(answer, name)
            if not isinstance(value, str) and not (value is None and name == "finish_reason"):
                return f"Summary.{name} is {type(value).__name__}, not str"
    summary = accepted(answer)
    ending = re.sub(r"[^a-z]", "", (summary.finish_reason or "").rpartition(".")[2].casefold())
    if summary.tool_calls or ending in _CALLED_TOOLS:
        return "the summariser called a tool instead of answering"
    if ending in _TRUNCATED:
        return f"the summary was cut off (finish reason {ending})"
    if ending in _WITHHELD:
        return f"the summary was withheld (finish reason {ending})"
    if all(map(_says_nothing, summary.text.splitlines())):
        return "the summary is empty"
    if _is_echo(summary.text, request):
        return "the summary repeats the prompt or the transcript, or continues the conversation"
    tokens = estimate(summary.text)
    if tokens > request.max_tokens:
        return f"the summary has {tokens} tokens, at most {request.max_tokens} are accepted"
    return None


def _says_nothing(line: str) -> bool:
    """Whether a line is blank, a heading, or "(none)"."""
    return line.lstrip().startswith("#") or re.sub(r"[\W_]+", "", line).casefold() in ("", "none", "na")


def _is_echo(text: str, request: SummaryRequest) -> bool:
    """Whether a text is made of the prompt's own parts. One quoted label is no echo."""
    instructions = request.prompt.rpartition("</conversation>")[2]
    repeats_instructions = len(text) >= _ECHO_CHARS and text in instructions
    return repeats_instructions or _PROMPT_TAG.search(text) is not None or len(turns(text)) > 1
