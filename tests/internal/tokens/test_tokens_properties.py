"""What holds for every text and for every history of usage reports."""

from __future__ import annotations

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from compaction_hooks.messages import Message, Opaque, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.tokens import CharacterEstimator, is_usable, usage_from_anthropic, usage_from_openai
from compaction_hooks.tokens.calibration import MAXIMUM_RATIO, MINIMUM_RATIO, Calibration
from compaction_hooks.tokens.estimator import MESSAGE_TOKENS, text_tokens

ANY_TEXT = st.text(st.characters())  # surrogates included
CODE_LIKE = st.text("abcxyzAZ019 \n\t.,;:(){}=-_#→é中🚀")
TEXTS = ANY_TEXT | CODE_LIKE


@given(TEXTS)
def test_only_an_empty_text_takes_nothing_and_no_character_more_than_four(text: str) -> None:
    assert (text_tokens(text) == 0) == (text == "")
    assert text_tokens(text) <= 4 * len(text)


@given(TEXTS, TEXTS)
def test_parts_of_a_text_add_up_to_about_the_whole(one: str, other: str) -> None:
    """So that sizes may be summed per message and per piece of a transcript."""
    assert abs(text_tokens(one) + text_tokens(other) - text_tokens(one + other)) <= 12


@given(TEXTS.filter(bool), st.integers(20, 60))
def test_repetition_multiplies(text: str, times: int) -> None:
    """Nothing saturates: a long text is not cheaper per character than its parts, rules and blanks aside."""
    wordy = f"{text} word"
    assert text_tokens(wordy * times) >= 0.5 * times * (text_tokens(wordy) - 4)


@given(TEXTS)
def test_wrapping_a_text_in_a_message_adds_at_least_the_frame(text: str) -> None:
    estimator = CharacterEstimator()
    for part in (Text(text), Thinking(text), Opaque("other", text), ToolCall("1", "tool", text), ToolResult("1", text)):
        tokens = estimator.estimate_message_tokens(Message(role="assistant", parts=(part,)))
        assert tokens >= MESSAGE_TOKENS + text_tokens(text)


RATIOS = st.floats(0.6, 2.5)
GROWTHS = st.lists(st.integers(1, 30_000), min_size=1, max_size=30)


@given(st.lists(st.tuples(st.booleans(), st.integers(-5_000, 400_000), st.integers(-5_000, 400_000))))
def test_whatever_is_reported_the_calibration_keeps_its_bounds(reports: list[tuple[bool, int, int]]) -> None:
    learned = Calibration()
    for is_growth, estimated, counted in reports:
        if is_growth:
            learned = learned.observe_growth(estimated=estimated, counted=counted)
        elif estimated >= 0:
            learned = learned.observe(estimated=estimated, counted=counted)
            assert learned.predict(estimated) >= counted
        assert MINIMUM_RATIO <= learned.ratio <= MAXIMUM_RATIO
        assert learned.overhead_tokens >= 0


@given(RATIOS, st.integers(0, 50_000), st.integers(0, 50_000), GROWTHS, st.floats(0, 1))
def test_a_smaller_view_is_never_undercounted(
    ratio: float, hidden: int, start: int, growths: list[int], share: float
) -> None:
    """A view that grew by a steady law is compacted to anything it has been before, and estimated with what was learned."""
    size = start
    learned = Calibration().observe(estimated=size, counted=hidden + round(ratio * size))
    for growth in growths:
        size += growth
        learned = learned.observe_growth(estimated=growth, counted=round(ratio * growth))
        learned = learned.observe(estimated=size, counted=hidden + round(ratio * size))
    smaller = start + round(share * (size - start))
    assert learned.predict(smaller) >= hidden + ratio * smaller - len(growths) - 2


JSON_NUMBERS = st.none() | st.booleans() | st.integers(-10, 10**6) | st.floats() | st.text(max_size=3)
FIELDS = st.dictionaries(
    st.sampled_from(
        [
            "prompt_tokens",
            "completion_tokens",
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "prompt_tokens_details",
        ]
    ),
    JSON_NUMBERS | st.dictionaries(st.just("cached_tokens"), JSON_NUMBERS),
)


@given(FIELDS)
def test_no_report_is_too_broken_to_read_and_believed_usage_is_sound(fields: dict[str, object]) -> None:
    for usage in (usage_from_openai(fields), usage_from_anthropic(fields)):
        if usage is not None and is_usable(usage):
            assert usage.input_tokens > 0
            assert 0 <= usage.cache_read_tokens + usage.cache_write_tokens <= usage.input_tokens
