"""Token counts of providers, as their clients report them."""

from __future__ import annotations

from collections.abc import Mapping

from compaction_hooks.formats._json import Fields, fields_of
from compaction_hooks.messages import ClientUsage, StopReason, Usage


def is_usable(usage: Usage, stop_reason: StopReason | None = None) -> bool:
    """Return whether a usage report can be trusted.

    False if the call failed or was aborted, if no input was counted (truncated streams report zeros), and if the numbers
    contradict one another: one is negative, one is no whole number, or the cached parts exceed the whole input.
    """
    if not is_counted(usage):
        return False
    if stop_reason in ("error", "aborted") or usage.input_tokens <= 0 or usage.output_tokens < 0:
        return False
    cached = (usage.cache_read_tokens, usage.cache_write_tokens)
    return min(cached) >= 0 and sum(cached) <= usage.input_tokens


def is_counted(usage: object) -> bool:
    """Return whether this is a usage report of plain whole numbers; one made by a host's own code may hold other values."""
    if not isinstance(usage, Usage):
        return False
    numbers = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    return {*map(type, numbers)} == {int}  # a boolean is no count


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
