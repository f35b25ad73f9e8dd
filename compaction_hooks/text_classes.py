"""How many tokens a text takes, from the classes of its characters alone: no vocabulary, no dependency, linear time.

Byte-pair tokenizers cut a text at word starts, digit groups, punctuation and line breaks, and cut further where letters
stand in an unusual order (base64, hashes, made-up names). So each character becomes one byte that names its class, and what
is counted are the classes and the places where they meet. `bytes.translate` and `bytes.count` do all the work.

The weights, in tokens, were fitted together as docs/tokens.md describes. Change one and the others are no longer right.
"""

from __future__ import annotations

import math
import string
from typing import Final

RUN_CHARS: Final = 16
"""So many of one rule or blank character in a row count as one token; vocabularies hold such runs as single entries."""

_RUNS: Final = tuple(character * RUN_CHARS for character in "-=*_#.~/ \t\n")


def _class_of_bytes() -> bytes:
    """The class of each byte of UTF-8: the first one of a character outside ASCII stands for the whole character."""
    members = {
        "v": "aeiouyAEIOUY",
        "x": "jqxzJQXZ",
        "0": string.digits,
        " ": " \t",
        "n": "\r\n",
        ".": string.punctuation,
    }
    class_of = dict.fromkeys(string.ascii_letters, "c")
    class_of |= {character: name for name, characters in members.items() for character in characters}
    ascii_classes = "".join(class_of.get(chr(code), "^") for code in range(0x80))
    return ascii_classes.encode() + b"w" * 0x80


_CLASSES: Final = _class_of_bytes()
"""v vowel, x rare consonant, c other consonant, 0 digit, blank, n line break, . punctuation, ^ control, w wide."""
_CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))


def _merge(**members: str) -> bytes:
    """A translation that gives some classes a common name and calls every other class "_"."""
    name_of = {ord(member): ord(name) for name, classes in members.items() for member in classes}
    return bytes(name_of.get(code, ord("_")) for code in range(0x100))


_WEIGHTS: Final = (
    # A rare consonant; punctuation alone, in pairs and after a blank; a number after a blank; a control character;
    # line breaks, where the pairs are taken off again because breaks in a row go together.
    (
        _merge(x="x", p=".", b=" ", o="0", k="^", n="n"),
        (
            (b"x", 0.48),
            (b"p", 0.216),
            (b"pp", 0.287),
            (b"bp", 0.99),
            (b"bo", 0.32),
            (b"k", 1.0),
            (b"n", 1.04),
            (b"nn", -1.04),
        ),
    ),
    # Letters and word starts, digits and number starts; "oa" is a word start inside a hash or the like.
    (
        _merge(a="vcx", o="0"),
        ((b"a", 0.112), (b"_a", 0.975), (b"oa", 1.635), (b"o", 0.435), (b"_o", 1.15), (b"ao", 1.15)),
    ),
    # Consonants in a row: few in words, many in what no vocabulary holds.
    (_merge(c="cx"), ((b"ccc", 0.875), (b"cccc", 1.9))),
)
"""By view of the classes, what is counted in it and the tokens for each."""


def _tenths_of_pages() -> bytes:
    """Tenths of a token per character outside Latin-1, by its Unicode page (code point over 256).

    Measured on translations of one set of guides into 40 languages and, for symbols, on single characters; the larger number of
    cl100k_base and o200k_base, rounded up. That is cl100k_base nearly always, by two to four times in the scripts of India.
    """
    tenths = {
        0: (0x00, *range(0xDC, 0xE0)),  # ASCII and Latin-1, counted elsewhere; second halves of surrogate pairs
        7: (0x04,),  # Cyrillic
        # Latin, Greek, Arabic, Thai, Vietnamese; dashes, quotes, arrows; kana; full-width forms.
        11: (0x01, 0x02, 0x03, 0x06, 0x0E, 0x1E, 0x20, 0x21, 0x30, 0xFE, 0xFF),
        13: (0x05, 0x25, *range(0x4E, 0xA0), *range(0xAC, 0xD8)),  # Hebrew, box drawing, Han, Hangul
        17: (0x09, 0x0B, 0x17),  # Devanagari and Bengali, Tamil, Khmer
        22: (0x07, 0x0A, 0x0C, 0x0D, 0x22, 0x23, 0x24, 0x26, 0x27),  # other scripts of India, mathematics, dingbats
    }
    table = bytearray([31] * 0x100)  # emoji, rare scripts, private use: nearly one token for each byte of UTF-8
    for weight, pages in tenths.items():
        for page in pages:
            table[page] = weight
    return bytes(table)


_PAGE_TENTHS: Final = _tenths_of_pages()
_LATIN_1_LEADS: Final = (0xC2, 0xC3)
_LATIN_1_TOKENS: Final = 1.1
"""Tokens per character from U+0080 to U+00FF."""


def text_tokens(text: str) -> int:
    """Return about how many tokens a text takes, rounded up; 0 for an empty text only.

    >>> text_tokens(""), text_tokens(" "), text_tokens("=" * 1600)
    (0, 1, 100)
    """
    if not text:
        return 0
    shortened = text
    for run in _RUNS:
        shortened = shortened.replace(run, "")
    encoded = shortened.encode("utf-8", "surrogatepass")
    classes = b"_" + encoded.translate(_CLASSES, _CONTINUATION_BYTES)
    tokens = (len(text) - len(shortened)) / RUN_CHARS
    for view, weights in _WEIGHTS:
        seen = classes.translate(view)
        tokens += sum(weight * seen.count(pattern) for pattern, weight in weights)
    if not text.isascii():
        tokens += _LATIN_1_TOKENS * sum(map(encoded.count, _LATIN_1_LEADS))
        tokens += sum(shortened.encode("utf-16-be", "surrogatepass")[::2].translate(_PAGE_TENTHS)) / 10
    return max(1, math.ceil(tokens))
