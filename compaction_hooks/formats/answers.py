"""Usage, stop reason and sealed summaries of a provider's answer, read from dicts and SDK objects alike.

Supported are OpenAI chat completions and Responses, Anthropic messages, Gemini contents and Bedrock Converse, whole or as the
chunks of a stream; LiteLLM, vLLM and other OpenAI-compatible services answer in the first shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from compaction_hooks.foreign import read_attribute
from compaction_hooks.formats._json import Fields, fields_of, list_of
from compaction_hooks.messages import ClientUsage, Message, StopReason, Usage

FILLED_RATIO: Final = 0.99
"""An answer with this part of the requested tokens has reached its own limit; a call with this part of the window has filled it.
Below 1, as in pi, because providers count the last tokens differently."""

ENDINGS: Final = ("complete", "tool_calls")
"""The stop reasons of an answer that ended by itself."""
STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "complete",
    "end_turn": "complete",
    "stop_sequence": "complete",
    "complete": "complete",
    "completed": "complete",
    "pause_turn": "complete",
    "refusal": "complete",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "window",
    "model_length": "window",
    "error": "error",
    "failed": "error",
    "content_filter": "error",
    "content_filtered": "error",
    "guardrail_intervened": "error",
    "safety": "error",
    "malformed_function_call": "error",
    "aborted": "aborted",
    "cancelled": "aborted",
}
"""The stop reasons of OpenAI (chat and Responses), Anthropic, Gemini (in lower case), Bedrock, Mistral and pi."""


def read_report(usage: object, function: str) -> Usage | None:
    """Return the usage in a report: a `Usage`, a provider's dict or a client's object; None for None.

    Args:
        function: The public function that received the report, for the text of the error.

    Raises:
        TypeError: the report is of another type.
    """
    return usage if isinstance(usage, Usage) else read_usage(usage_fields(usage, function))


def read_answer(response: object) -> Message | None:
    """Return an assistant message without parts, with usage, model and stop reason; None if the response has none of them."""
    # Chunks of a stream hold these fields one level deeper: Anthropic's first, the last of Responses and Converse, OpenAI's events.
    # A whole answer may have a field of such a name too, as `metadata` of Responses.
    starts = _field(response, "type") == "message_start"
    deeper = [_field(response, name) for name in (*(["message"] if starts else []), *_DEEPER)]
    read = ((source, _read_source(source)) for source in (response, *deeper) if source is not None)
    source, (usage, ending) = next((each for each in read if each[1] != (None, None)), (response, (None, None)))
    if usage is None and ending is None:
        return None

    model = _field(source, "model") or _field(source, "model_version") or _field(source, "modelVersion")
    return Message(
        role="assistant",
        parts=(),
        usage=usage,
        model=model if isinstance(model, str) else None,
        stop_reason=STOP_REASONS.get((ending or "").lower()),
    )


def _read_source(source: object) -> tuple[Usage | None, str | None]:
    """Return the usage and the provider's word for the ending that an answer, or a part of one, has."""
    usage = next(filter(None, (read_usage(_field(source, name)) for name in _USAGES)), None)
    return usage, _find_ending(source)


def read_output(chunk: object) -> int:
    """Return the output tokens of a chunk that counts nothing else: the last one of a stream of Anthropic's; 0 for any other."""
    if _field(chunk, "type") != "message_delta":
        return 0
    return _count(fields_of(_field(chunk, "usage")) or {}, "output_tokens") or 0


_DEEPER: Final = ("response", "messageStop", "metadata", "chunk")
_USAGES: Final = ("usage", "usage_metadata", "usageMetadata")


def sealed_items(response: object) -> list[object]:
    """Return the summaries in an answer that only the provider can read, as they came: items of OpenAI's or xAI's Responses."""
    return [item for item in list_of(_field(response, "output")) or () if _field(item, "type") == "compaction"]


def is_cut_by_window(answer: Message, *, requested: int | None, window: int | None) -> bool:
    """Return whether the context window ended an answer, and not the answer's own limit.

    The provider's stop reason decides if it names the window. An answer that stopped for its length was cut by the window if it
    is shorter than requested; if the requested length is not known: if it is empty, or if input and output fill the window.

    Args:
        requested: The most output tokens that the call requested, reasoning included; None: not known.
        window: The model's context window in tokens; None: not known.
    """
    usage = answer.usage
    if answer.stop_reason != "length" or usage is None:
        return answer.stop_reason == "window"
    if requested is not None:
        return usage.output_tokens < requested * FILLED_RATIO
    if usage.output_tokens == 0 and not answer.parts:
        return True
    return window is not None and usage.input_tokens + usage.output_tokens >= window * FILLED_RATIO


def _find_ending(source: object) -> str | None:
    choices = _field(source, "choices") or _field(source, "candidates")
    if isinstance(choices, Sequence) and not isinstance(choices, str) and choices:
        first = cast("Sequence[object]", choices)[0]
        ending = _field(first, "finish_reason") or _field(first, "finishReason")
    else:
        cut = _field(_field(source, "incomplete_details"), "reason")
        delta = _field(_field(source, "delta"), "stop_reason")
        ending = (
            cut or delta or _field(source, "stop_reason") or _field(source, "stopReason") or _field(source, "status")
        )

    return ending if isinstance(ending, str) else None


def _field(value: object, name: str) -> object:
    """Return the value of a mapping's key or an object's attribute; None without it, and if reading it fails."""
    # Most are dicts, and to ask `Mapping` takes ten times as long.
    if value.__class__ is dict or isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return read_attribute(value, name)


# -- usage


def is_usable(usage: Usage, stop_reason: StopReason | None = None) -> bool:
    """Return whether a usage report can be trusted.

    False if the call failed or was aborted, if no input was counted (truncated streams report zeros), and if the numbers
    contradict one another: one is negative, one is no whole number, or the cached parts exceed the whole input.
    """
    if not is_counted(usage) or stop_reason in ("error", "aborted"):
        return False
    cached = (usage.cache_read_tokens, usage.cache_write_tokens)
    return min(usage.output_tokens, *cached) >= 0 and usage.input_tokens >= max(sum(cached), 1)


def is_counted(usage: object) -> bool:
    """Return whether this is a usage report of plain whole numbers; one made by a host's own code may hold other values."""
    return (
        isinstance(usage, Usage)
        and type(usage.input_tokens) is int  # a boolean is no count
        and type(usage.output_tokens) is int
        and type(usage.cache_read_tokens) is int
        and type(usage.cache_write_tokens) is int
        and type(usage.is_estimate) is bool
    )


def context_tokens(usage: Usage) -> int:
    """Return the size of the context after a call, in tokens: its whole input, and its answer, which the next call sends too.

    >>> context_tokens(Usage(input_tokens=19_000, output_tokens=1, cache_read_tokens=14_000))
    19001
    """
    return usage.input_tokens + usage.output_tokens


def usage_from_openai(usage: Mapping[str, object] | ClientUsage | None) -> Usage | None:
    """Return the usage of an OpenAI-style response (chat or Responses), or None if it counts no input.

    `prompt_tokens` or `input_tokens` is the whole input already; cached tokens are in its details, or with DeepSeek and LiteLLM
    next to it. Missing and malformed fields count as 0.

    Raises:
        TypeError: `usage` is neither a dict nor the client's own object nor None.
    """
    return read_usage(usage_fields(usage, "usage_from_openai"))


def usage_from_anthropic(usage: Mapping[str, object] | ClientUsage | None) -> Usage | None:
    """Return the usage of an Anthropic-style response, or None if it counts no input.

    Anthropic's `input_tokens` excludes the tokens read from and written to the cache: the whole input is the sum of the three.

    Raises:
        TypeError: `usage` is neither a dict nor the client's own object nor None.
    """
    return read_usage(usage_fields(usage, "usage_from_anthropic"))


def usage_fields(usage: object, function: str) -> Fields | None:
    """Return the fields of a usage report that is a dict or a client's object; None without a report.

    Args:
        function: The public function that received the report, for the text of the error.

    Raises:
        TypeError: the report is of another type.
    """
    fields = fields_of(usage)
    if fields is None and usage is not None:
        raise TypeError(
            f"{function}() takes a provider's usage as a dict or as the client's own object, not {type(usage).__name__}: "
            "pass `response.usage`, or None if there is none"
        )
    return fields


def read_usage(usage: object) -> Usage | None:
    """Return the usage that a provider reports: OpenAI, Anthropic, Bedrock Converse or Gemini; None if it counts no input."""
    fields = fields_of(usage)
    if not fields:
        return None
    if gemini := _read_gemini(fields):
        return gemini

    details = fields_of(fields.get("prompt_tokens_details")) or fields_of(fields.get("input_tokens_details")) or {}
    own_read, own_write = _count(fields, *_CACHE_READ), _count(fields, *_CACHE_WRITE)
    cache_read = own_read or _count(fields, "prompt_cache_hit_tokens") or _count(details, "cached_tokens")
    cache_write = own_write or _count(details, "cache_write_tokens")

    # OpenAI's input count includes the cached part, Anthropic's and Bedrock's exclude it.
    whole = _count(fields, "prompt_tokens")
    if whole is None:
        counts = [
            count for count in (_count(fields, "input_tokens", "inputTokens"), own_read, own_write) if count is not None
        ]
        if not counts:
            return None
        whole = sum(counts)

    # xAI counts reasoning into the total only: it is output.
    output = _count(fields, "completion_tokens") or _count(fields, "output_tokens", "outputTokens") or 0
    output = max(output, (_count(fields, "total_tokens") or 0) - whole)
    return Usage(
        input_tokens=whole,
        output_tokens=output,
        cache_read_tokens=cache_read or 0,
        cache_write_tokens=cache_write or 0,
    )


def _read_gemini(fields: Fields) -> Usage | None:
    """Read Gemini's counts, in the case of the API or of its client: the cached part is in the prompt, thoughts are output."""
    prompt = _count(fields, "prompt_token_count", "promptTokenCount")
    if not prompt:
        return None

    tools = _count(fields, "tool_use_prompt_token_count", "toolUsePromptTokenCount") or 0
    answer = _count(fields, "candidates_token_count", "candidatesTokenCount") or 0
    thoughts = _count(fields, "thoughts_token_count", "thoughtsTokenCount") or 0
    cached = _count(fields, "cached_content_token_count", "cachedContentTokenCount") or 0
    return Usage(input_tokens=prompt + tools, output_tokens=answer + thoughts, cache_read_tokens=cached)


_CACHE_READ = ("cache_read_input_tokens", "cacheReadInputTokens")
_CACHE_WRITE = ("cache_creation_input_tokens", "cacheWriteInputTokens")


def _count(fields: Fields, *names: str) -> int | None:
    """Return the first of these fields with a whole number from 0 on; None without one."""
    values = map(fields.get, names)
    return next((value for value in values if type(value) is int and value >= 0), None)
