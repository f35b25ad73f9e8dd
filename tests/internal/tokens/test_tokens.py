from __future__ import annotations

import json

import pytest

from compaction_hooks.messages import (
    Media,
    Message,
    Opaque,
    Part,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from compaction_hooks.tokens import CharacterEstimator, is_usable, usage_from_anthropic, usage_from_openai
from compaction_hooks.tokens.estimator import (
    IMAGE_TOKENS,
    LOW_DETAIL_IMAGE_TOKENS,
    MESSAGE_TOKENS,
    OPAQUE_CHARS_PER_TOKEN,
    OTHER_MEDIA_TOKENS,
    TOOL_CALL_TOKENS,
    TOOL_RESULT_TOKENS,
    text_tokens,
)
from tests.cases import folded
from tests.data import needs_data, sessions
from tests.token_accuracy import (
    PERCENTS,
    projections,
    projections_after_compaction,
    quantiles,
    read,
    real_tokenizer,
    text_ratio,
)

ESTIMATOR = CharacterEstimator()
FIFTH, MEDIAN, NINETY_FIFTH = map(PERCENTS.index, (5, 50, 95))
LONG = "The answer is in the third file, line 40. " * 50


def message(*parts: Part, role: Role = "assistant") -> Message:
    return Message(role=role, parts=parts)


def size(*parts: Part) -> int:
    return ESTIMATOR.estimate_message_tokens(message(*parts))


def test_a_message_without_parts_still_takes_its_frame() -> None:
    assert size() == MESSAGE_TOKENS


@folded(
    "part, tokens",
    {
        "text": (Text(LONG), text_tokens(LONG)),
        "a block nobody knows": (Opaque("unknown", LONG), text_tokens(LONG)),
        "thinking": (Thinking(LONG), text_tokens(LONG)),
        "encrypted thinking": (Thinking("", opaque_chars=4000), 4000 // OPAQUE_CHARS_PER_TOKEN),
        "the name and arguments of a call": (
            ToolCall("1", "read_file", json.dumps({"path": LONG})),
            TOOL_CALL_TOKENS + text_tokens("read_file") + text_tokens(json.dumps({"path": LONG})),
        ),
        "a result": (ToolResult("1", LONG), TOOL_RESULT_TOKENS + text_tokens(LONG)),
        "an image": (Media("image/png", "00"), IMAGE_TOKENS),
        "an image of unknown kind": (Media("image", "00"), IMAGE_TOKENS),
        "an image in low detail": (Media("image/png", "00", low_detail=True), LOW_DETAIL_IMAGE_TOKENS),
        "a document": (Media("application/pdf", "00"), OTHER_MEDIA_TOKENS),
    },
)
def test_every_kind_of_part_is_counted(part: Part, tokens: int) -> None:
    assert size(part) == MESSAGE_TOKENS + tokens


def test_media_in_a_result_count() -> None:
    images = (Media("image/png", "00"), Media("image/png", "11"))
    assert size(ToolResult("1", "", media=images)) == MESSAGE_TOKENS + TOOL_RESULT_TOKENS + 2 * IMAGE_TOKENS


def test_a_signature_is_the_same_thinking_once_more() -> None:
    """Providers read the text or what is encrypted, so the larger of the two counts, not both."""
    assert size(Thinking(LONG, opaque_chars=8)) == size(Thinking(LONG))
    assert size(Thinking(LONG, opaque_chars=40_000)) == MESSAGE_TOKENS + 10_000


# -- what a provider counted


@folded(
    "usage, stop_reason, expected",
    {
        "sound": (Usage(input_tokens=120, output_tokens=4, cache_read_tokens=100), None, True),
        "without an answer": (Usage(input_tokens=120), "complete", True),
        "cut off by the output limit": (Usage(input_tokens=120, output_tokens=4), "length", True),
        "all zero, after a truncated stream": (Usage(input_tokens=0), None, False),
        "no input counted": (Usage(input_tokens=0, output_tokens=9), None, False),
        "negative input": (Usage(input_tokens=-1, output_tokens=9), None, False),
        "negative output": (Usage(input_tokens=9, output_tokens=-1), None, False),
        "negative cache": (Usage(input_tokens=9, cache_read_tokens=-1), None, False),
        "more cached than there is": (Usage(input_tokens=10, cache_read_tokens=9_000), None, False),
        "of a failed call": (Usage(input_tokens=120, output_tokens=4), "error", False),
        "of an aborted call": (Usage(input_tokens=120, output_tokens=4), "aborted", False),
    },
)
def test_only_sound_usage_is_believed(usage: Usage, stop_reason: StopReason | None, expected: bool) -> None:
    assert is_usable(usage, stop_reason) is expected


@folded(
    "fields, expected",
    {
        "chat": (
            {"prompt_tokens": 120, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 100}},
            Usage(input_tokens=120, output_tokens=4, cache_read_tokens=100),
        ),
        "Responses": (
            {"input_tokens": 120, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 100}},
            Usage(input_tokens=120, output_tokens=4, cache_read_tokens=100),
        ),
        "DeepSeek": (
            {"prompt_tokens": 120, "completion_tokens": 4, "prompt_cache_hit_tokens": 64},
            Usage(input_tokens=120, output_tokens=4, cache_read_tokens=64),
        ),
        "Anthropic behind LiteLLM": (
            {"prompt_tokens": 120, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 32},
            Usage(input_tokens=120, cache_read_tokens=64, cache_write_tokens=32),
        ),
        "fields that are null": (
            {"prompt_tokens": 120, "completion_tokens": None, "prompt_tokens_details": None},
            Usage(input_tokens=120),
        ),
        "fields that are no numbers": (
            {"prompt_tokens": 120, "completion_tokens": "4", "prompt_tokens_details": {"cached_tokens": True}},
            Usage(input_tokens=120),
        ),
        "no input": ({"completion_tokens": 4}, None),
        "nothing": ({}, None),
    },
)
def test_openai_counts_the_cached_part_within_the_input(fields: dict[str, object], expected: Usage | None) -> None:
    assert usage_from_openai(fields) == expected


@folded(
    "fields, expected",
    {
        "cached": (
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_read_input_tokens": 16_141,
                "cache_creation_input_tokens": 11_840,
            },
            Usage(input_tokens=27_991, output_tokens=5, cache_read_tokens=16_141, cache_write_tokens=11_840),
        ),
        "not cached": ({"input_tokens": 10, "output_tokens": 5}, Usage(input_tokens=10, output_tokens=5)),
        "only cached": ({"cache_read_input_tokens": 9}, Usage(input_tokens=9, cache_read_tokens=9)),
        "null": ({"input_tokens": 10, "cache_read_input_tokens": None}, Usage(input_tokens=10)),
        "no input": ({"output_tokens": 5}, None),
    },
)
def test_anthropic_counts_the_cached_part_apart_from_the_input(
    fields: dict[str, object], expected: Usage | None
) -> None:
    assert usage_from_anthropic(fields) == expected


# -- on recorded conversations; tests/benchmarks/estimates.py measures all of them and prints those of docs/figures/tokens.md


@needs_data
@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base"])
def test_recorded_conversations_are_not_counted_below_a_real_tokenizer(encoding: str) -> None:
    count = real_tokenizer(encoding).estimate_tokens
    ratios = [text_ratio(read(session), ESTIMATOR.estimate_tokens, count) for session in list(sessions("tau*"))[::9]]
    assert min(ratios) >= 1.0
    assert max(ratios) <= 1.25


EXACT = [pytest.param("openhands*", id="Claude"), pytest.param("miniswe*", id="DeepSeek", marks=pytest.mark.full)]
"""Recordings whose requests are known whole: system prompt, tools and messages."""


@needs_data
@pytest.mark.parametrize("pattern", EXACT)
def test_requests_are_estimated_near_the_providers_counts_before_any_report(pattern: str) -> None:
    recorded = list(sessions(pattern))[::3]
    ratios = [found.ratio for session in recorded for found in projections(session, reporting=False)]
    assert quantiles(abs(ratio - 1) for ratio in ratios)[MEDIAN] <= 0.12
    assert quantiles(ratios)[FIFTH] >= 0.90


@needs_data
@pytest.mark.parametrize("pattern", EXACT)
def test_after_three_reports_the_next_request_is_known_within_a_third_of_a_percent(pattern: str) -> None:
    recorded = list(sessions(pattern))[::3]
    off = [abs(found.ratio - 1) for one in recorded for found in projections(one) if found.reports >= 3]
    assert quantiles(off)[MEDIAN] <= 0.003
    assert quantiles(off)[NINETY_FIFTH] <= 0.03


@needs_data
@pytest.mark.parametrize("pattern", EXACT)
def test_the_first_request_after_a_compaction_is_known_within_five_percent(pattern: str) -> None:
    tokenizer = real_tokenizer("cl100k_base")
    recorded = list(sessions(pattern))[:20:4]
    off = [
        abs(ratio - 1) for one in recorded for ratio in projections_after_compaction(one, tokenizer, keep_tokens=8_000)
    ]
    assert quantiles(off)[MEDIAN] <= 0.05
    assert quantiles(off)[NINETY_FIFTH] <= 0.12
