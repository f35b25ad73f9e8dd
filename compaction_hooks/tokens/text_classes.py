"""An estimate of the tokens of a text from the classes of its characters alone: no vocabulary, no dependency.

Byte-pair tokenizers cut a text at word starts, digit groups, punctuation and line breaks, and cut further where letters
are in an unusual order (base64, hashes, made-up names). All of that shows in pairs: each character belongs to one of 16
classes, and each pair of neighboring classes weighs 0 to 8 sixths of a token.

The whole text is one large integer: `bytes.translate` makes each character the number of its class, a shift puts the class
before it into the upper half of the same byte, a second `translate` makes each pair as many set bits as it weighs, and
`int.bit_count` adds them up. That is five passes in C for any text. Of a long text only stretches are read.

The weights were fitted together as docs/tokens.md describes. Change one and the others are no longer right.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterable
from itertools import islice
from operator import add
from typing import Final

MOST_CHARS_PER_TOKEN: Final = 16
"""No text is estimated at fewer tokens: vocabularies hold runs of one rule or blank character as single entries of this length."""
WHOLE_CHARS: Final = 768
"""A text of at most this length is read whole, which takes no longer than to pick stretches of it."""
STRETCH_CHARS: Final = 64
"""The length of a stretch: more than most lines have, so that few columns of a table go unseen."""
LEAST_STRETCHES: Final = 4
"""The fewest stretches of a text that is not read whole."""
CHARS_PER_STRETCH: Final = 768
"""One more stretch for this many characters: a twelfth of a long text. The error falls with their number, not with their share."""
MOST_STRETCHES: Final = 2_000
"""The most stretches: a text of 100 million characters takes as long as one of 1.5 million, some milliseconds."""
STRETCHES_AT_ONCE: Final = 48
"""Stretches held at a time: all of a long text at once would take a quarter of its memory."""

_CLASSES: Final = (
    "\n",
    " \t",
    "aeiou",
    "cdhlmnrst",
    "bfgkpvwy",
    "jqxz",
    string.ascii_uppercase,
    string.digits,
    "\"'()[]{}<>`",
    ",:;!?",
    ".-_/",
)
"""The first classes, by their members. The text itself begins like a line, with the class before it 0."""
_OTHER_ASCII: Final = 11
"""Operators, other symbols and control characters."""
_COMMON_LEAD, _TWO_BYTE_LEAD, _RARE_LEAD, _CONTINUATION = range(12, 16)
"""Outside ASCII, the bytes of UTF-8: a character's first byte, by script, and those that follow it."""
_CARRIAGE_RETURN: Final = _TWO_BYTE_LEAD
"""Alone it is a token, as in a display that writes its progress over one line; with a line break behind it the two are one.

Only a continuation follows a byte that leads: all other weights of the row of this class are the carriage return's alone. The
column is shared, so that a Greek or Arabic word right behind a Latin letter, which is rare, weighs a little more than it should.
"""

_SIXTHS: Final = (
    "2653 5808 3161 0050"
    "8011 6628 7641 4000"
    "8801 0057 0110 0550"
    "8001 2848 1301 5550"
    "8301 8886 1480 8550"
    "5078 8888 1111 1550"
    "0020 8728 2018 0550"
    "5888 8870 8880 7750"
    "0066 7868 4083 1050"
    "4376 6868 2304 1150"
    "1077 1868 7313 1150"
    "0568 6855 3230 0350"
    "0000 0000 0000 0003"
    "1888 8886 8878 6380"
    "0000 0000 0000 0002"
    "0088 8358 0323 0784"
).replace(" ", "")
"""Sixths of a token for each pair: a row for the class before, a column for the class of the character itself."""
_SIXTHS_PER_TOKEN: Final = 6


def _class_of_bytes() -> bytes:
    class_of = bytearray([_OTHER_ASCII] * 0x80 + [_CONTINUATION] * 0x40 + [_COMMON_LEAD] * 0x40)
    for number, members in enumerate(_CLASSES):
        for character in members:
            class_of[ord(character)] = number
    class_of[ord("\r")] = _CARRIAGE_RETURN
    # Greek; Armenian, Hebrew, Arabic and their neighbors: two bytes, each nearly a token of its own.
    for lead in (0xCE, 0xCF, *range(0xD4, 0xE0)):
        class_of[lead] = _TWO_BYTE_LEAD
    # The scripts of India and Thai; emoji and everything else beyond the basic plane.
    for lead in (0xE0, *range(0xF0, 0x100)):
        class_of[lead] = _RARE_LEAD
    return bytes(class_of)


_CLASS_OF: Final = _class_of_bytes()
_BITS_OF_PAIR: Final = bytes((1 << int(sixths)) - 1 for sixths in _SIXTHS)
"""For each pair of classes a byte with as many bits set as it weighs sixths of a token."""
_SHIFTS: Final = tuple(
    tuple(room * (number * number % 61) // 61 for number in range(61))
    for room in range(0, CHARS_PER_STRETCH, STRETCH_CHARS)
)
"""Offsets of the stretches in their parts of a text, by the room there: equal offsets could show the same columns of a table.

Squares modulo a prime scatter like chance and are always the same.
"""
_integer: Final = int.from_bytes


def text_tokens(text: str) -> int:
    """Return about how many tokens a text takes, rounded up; 0 for an empty text only. It depends on the text alone.

    >>> text_tokens(""), text_tokens(" "), text_tokens("=" * 1600)
    (0, 1, 100)
    """
    length = len(text)
    sixths = _sixths(text) if length <= WHOLE_CHARS else _sixths_by_stretches(text, length)
    # A tokenizer of bytes makes no more tokens than there are bytes.
    tokens = min((sixths + _SIXTHS_PER_TOKEN - 1) // _SIXTHS_PER_TOKEN, length if text.isascii() else 4 * length)
    return tokens if tokens * MOST_CHARS_PER_TOKEN >= length else math.ceil(length / MOST_CHARS_PER_TOKEN)


def _sixths(text: str) -> int:
    """Return the sixths of a token that a short text weighs."""
    encoded = text.encode() if text.isascii() else text.encode("utf-8", "surrogatepass")
    classes = _integer(encoded.translate(_CLASS_OF))
    pairs = (classes | classes >> 4).to_bytes(len(encoded))
    return _integer(pairs.translate(_BITS_OF_PAIR)).bit_count()


def _sixths_by_stretches(text: str, length: int) -> int:
    """Return the sixths of a token of a long text, from one stretch of each of its equal parts."""
    count = min(LEAST_STRETCHES + length // CHARS_PER_STRETCH, MOST_STRETCHES)
    part = length // count
    shifts = _SHIFTS[min(part // STRETCH_CHARS, len(_SHIFTS)) - 1]
    if count > len(shifts):
        shifts *= count // len(shifts) + 1
    starts = map(add, range(0, count * part, part), shifts)
    if count <= STRETCHES_AT_ONCE:
        sixths = _sixths_of_stretches(text, starts)
    else:
        parts = range(0, count, STRETCHES_AT_ONCE)
        sixths = sum([_sixths_of_stretches(text, islice(starts, STRETCHES_AT_ONCE)) for _ in parts])
    return sixths * length // (count * STRETCH_CHARS)


def _sixths_of_stretches(text: str, starts: Iterable[int]) -> int:
    """Return the sixths of a token that the stretches at these indexes weigh."""
    read = "".join([text[start : start + STRETCH_CHARS] for start in starts])
    if len(read) <= WHOLE_CHARS:
        return _sixths(read)
    # Not at once: the memory for a few hundred bytes is allocated faster.
    return sum([_sixths(read[first : first + WHOLE_CHARS]) for first in range(0, len(read), WHOLE_CHARS)])
