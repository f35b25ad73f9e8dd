"""A summarizer's answer, judged: its text without wrapping, its cost, and the reasons to refuse it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from compaction_hooks.foreign import describe_error
from compaction_hooks.formats.answers import is_counted, read_report
from compaction_hooks.messages import Usage
from compaction_hooks.summary.request import LazyRequest, Summary
from compaction_hooks.text.escaping import find_turns, remove_noise
from compaction_hooks.tokens.estimator import TokenEstimator, estimate_messages_tokens

logger = logging.getLogger("compaction_hooks")

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
_STRUCTURE = re.compile(r"^[^\S\n]*(?:[#*•+-]|\d+[.)]\s)", re.MULTILINE)
"""A heading or the item of a list: a summary in the form of the prompt has nothing else."""
_FENCE = re.compile(r"```(?:markdown|md|text)?[ \t]*+\n")
_SUMMARY_BEGINNING = re.compile(r"(?:[^\n]{0,200}\n\s*+)?<summary>")
_SUMMARY_END = re.compile(r"</summary>\s*[^\n]{0,200}\Z")
_MOST_END_CHARS = 400
"""Characters at the end of an answer in which its last tag is looked for."""
_LINE_CHARS = 1_000
"""The most characters of a line that are read to find whether it says anything."""
_PROMPT_TAG = re.compile(r"^[ \t]*</?(?:conversation|previous-summary|kept-messages|facts|focus)>[ \t]*$", re.MULTILINE)


def read_summary_usage(answer: Summary, request: LazyRequest, estimator: TokenEstimator) -> Usage | None:
    """Return the cost of an answer; None if it names none and code wrote it, or it tells why there is no summary.

    The cost of any other answer is estimated, by the texts of the request that the summarizer read, or else by the messages.
    Warn about a cost that cannot be read: the summary still counts.
    """
    try:
        usage = read_report(answer.usage, "Summary")
        why = "" if usage is None or is_counted(usage) else "its counts must be whole numbers"
    except Exception as error:  # noqa: BLE001 - a host's callable may put any object there
        usage, why = None, describe_error(error)
    if why:
        logger.warning("the usage of a summary cannot be read, and is estimated: %s", why)
    elif usage is not None or answer.is_by_rule or answer.fallback_reason:
        return usage

    if request.place is not None:
        tokens = request.place.tokens
    elif request.text_read:
        tokens = estimator.estimate_tokens(request.system) + estimator.estimate_tokens(request.text_read)
    else:
        tokens = estimator.estimate_tokens(request.previous_summary or "") + estimate_messages_tokens(
            request.messages, estimator
        )
    return Usage(
        input_tokens=tokens,
        # No more than may be accepted is read: the text may be megabytes.
        output_tokens=estimator.estimate_tokens(answer.text[: request.max_tokens * MOST_CHARS_PER_TOKEN]),
        is_estimate=True,
    )


def unwrap_answer(answer: object) -> Summary:
    """Return a `str` or `Summary` as a `Summary` without the wrapping that models put around the text.

    Removed are reasoning at its beginning (`<think>`, `<analysis>`, ...), a code fence and `<summary>` tags around the
    whole, with one line of talk before and after such tags, and characters that only a terminal reads. Usage, finish reason
    and calls stay. An answer of any other type comes back as an empty summary, which `refusal` refuses.
    """
    summary = answer if isinstance(answer, Summary) else Summary(text=answer if isinstance(answer, str) else "")
    given = cast(object, summary.text)  # a host's callable may put any object there
    # A plain copy of a subclass, such as LangChain's `answer.text`, runs no foreign code.
    text = str.__str__(given) if isinstance(given, str) else ""
    text = _remove_wrapping(_remove_reasoning(remove_noise(text)).strip())
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
        summary = _NEXT_LINE.match(text, end + len("</think>"))
        if summary and (end == start or text[end - 1] == "\n"):
            return text[summary.end() :]
    return text[start:]


def refusal(answer: object, request: LazyRequest, estimate: Callable[[str], int]) -> str | None:
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
    if asks_for_headings(request) and len(summary.text) <= REFUSAL_CHARS and _STRUCTURE.search(summary.text) is None:
        return f"the summary has none of the headings that were asked for, in {len(summary.text)} characters: the model refused"
    if _is_echo(summary.text, request):
        return "the summary repeats the prompt or the transcript, or continues the conversation"

    tokens = estimate(summary.text)
    if tokens > request.max_tokens:
        return f"the summary has {tokens} tokens, at most {request.max_tokens} are accepted"
    return None


def _unreadable(answer: object, request: LazyRequest) -> str | None:
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


def _too_long(text: str, request: LazyRequest) -> str:
    return f"the summary has {len(text):,} characters, at most {request.max_tokens} tokens are accepted"


def asks_for_headings(request: LazyRequest) -> bool:
    """Return whether the summarizer was asked for our headings: it read the prompt, and the host gave no form of its own."""
    return request.form is None and request.has_read_prompt


def _says_nothing(line: str) -> bool:
    """Return whether a line is blank, a heading, or "(none)"."""
    return line.lstrip().startswith("#") or re.sub(r"[\W_]+", "", line[:_LINE_CHARS]).casefold() in ("", "none", "na")


def _is_echo(text: str, request: LazyRequest) -> bool:
    """Return whether a text repeats the prompt's own parts. One quoted label is no echo."""
    repeats_instructions = len(text) >= _ECHO_CHARS and text in request.instructions_read
    return repeats_instructions or _PROMPT_TAG.search(text) is not None or len(find_turns(text)) > 1
