from __future__ import annotations

import tracemalloc
from typing import SupportsIndex

import pytest

from compaction_hooks.tokens.estimator import (
    CHARS_PER_STRETCH,
    LEAST_STRETCHES,
    MOST_CHARS_PER_TOKEN,
    STRETCH_CHARS,
    WHOLE_CHARS,
    text_tokens,
)
from tests.cases import folded
from tests.token_accuracy import CLASS_TEXTS


@pytest.mark.parametrize("times", [1, 40], ids=["short", "long"])
@folded("kind", [*CLASS_TEXTS])
def test_each_class_of_text_is_counted_between_90_and_125_percent_of_a_real_tokenizer(kind: str, times: int) -> None:
    text = CLASS_TEXTS[kind]
    count = text.larger_count * times
    assert 0.90 * count <= text_tokens(text.text * times) <= 1.25 * count


def test_a_fraction_counts_as_a_whole_token() -> None:
    """Rounded up, to as many tokens as bytes. A vowel that begins a line weighs five sixths, a line break after it eight."""
    assert text_tokens("a") == 1
    assert text_tokens("a\n") == 2


@pytest.mark.parametrize("character", [*" \t=*#~"])
def test_long_runs_of_one_blank_or_rule_character_take_few_tokens(character: str) -> None:
    assert text_tokens(character * 100 * MOST_CHARS_PER_TOKEN) == 100


@pytest.mark.parametrize("character", [*"-_./\n"])
def test_runs_of_a_rarely_single_character_take_at_most_a_third_of_a_token_each(character: str) -> None:
    assert text_tokens(character * 1_500) <= 501


def test_an_empty_line_costs_a_third_of_a_token() -> None:
    words = "word\n" * 48
    assert text_tokens(words.replace("\n", "\n\n")) == text_tokens(words) + 48 // 3


@pytest.mark.parametrize("kind", [kind for kind, text in CLASS_TEXTS.items() if "\n" in text.text])
def test_a_carriage_return_before_a_line_break_costs_next_to_nothing(kind: str) -> None:
    text = CLASS_TEXTS[kind].text
    assert text_tokens(text.replace("\n", "\r\n")) == pytest.approx(text_tokens(text), rel=0.03)


def test_a_carriage_return_alone_costs_a_token_more_than_a_line_break_after_punctuation() -> None:
    """A progress display goes back to the beginning of its line: tokenizers know ")" with a line break behind it as one token."""
    steps = [f"(step {number})" for number in range(48)]
    assert text_tokens("\r".join(steps)) >= text_tokens("\n".join(steps)) + 40


def test_every_character_outside_ascii_weighs_something() -> None:
    samples = "éñőΩЖשعहবதతഅไកあア中한Ａ—→∑│✓⠿𝐀🚀\ue000"
    assert all(text_tokens(sample * 100) >= 50 for sample in samples)


# -- long texts, of which a part is read


class Watched(str):
    """A text that notes how many characters were taken out of it."""

    read = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        taken = str.__getitem__(self, key)
        self.read += len(taken)
        return taken


PROSE = CLASS_TEXTS["English"].text * 40
BASE64 = CLASS_TEXTS["base64"].text * 20
LONG = {
    "half prose, half base64": PROSE + BASE64,
    "base64 in the middle of prose": PROSE[:20_000] + BASE64[:20_000] + PROSE[:20_000],
    "lines of prose and of base64 in turns": "".join(
        f"{PROSE[at : at + 80]}\n{BASE64[at : at + 120]}\n" for at in range(0, 50_000, 200)
    ),
    "a hash behind every word": "".join(f"word {BASE64[at : at + 43]}\n" for at in range(0, 50_000, 43)),
    "a table with lines of 100 characters": "".join(
        f"{number:>20}  {BASE64[number : number + 32]:<60}  {number % 7:>14}\n" for number in range(400)
    ),
    "a table with lines of 256 characters": "".join(
        f"{BASE64[number * 90 : number * 90 + 90]:<255}\n" for number in range(300)
    ),
    "prose and Chinese": PROSE[:20_000] + CLASS_TEXTS["Chinese"].text * 20,
    "emoji among code": "".join(f"{line}  # 🚀\n" for line in (CLASS_TEXTS["Python"].text * 10).splitlines()),
}


@pytest.mark.parametrize("kind", LONG)
def test_a_long_text_of_mixed_classes_is_near_the_sum_of_its_pieces(kind: str) -> None:
    """What is read of it stands for the rest: within a fifth of the sum of pieces that are read whole."""
    text = LONG[kind]
    pieces = [text[at : at + WHOLE_CHARS] for at in range(0, len(text), WHOLE_CHARS)]
    assert text_tokens(text) == pytest.approx(sum(map(text_tokens, pieces)), rel=0.2)


@pytest.mark.parametrize("size", [WHOLE_CHARS + 1, 2_000, 10_000, 100_000, 1_000_000])
def test_the_longer_a_text_the_smaller_the_part_that_is_read(size: int) -> None:
    text = Watched("x" * size)
    text_tokens(text)
    assert text.read == STRETCH_CHARS * (LEAST_STRETCHES + size // CHARS_PER_STRETCH)
    assert text.read <= size // 12 + STRETCH_CHARS * LEAST_STRETCHES


def test_reading_a_long_text_takes_little_memory() -> None:
    text = "the parser reads every line of the file\n" * 25_000
    text_tokens(text)
    tracemalloc.start()
    try:
        text_tokens(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < len(text) / 20
