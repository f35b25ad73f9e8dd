"""Estimates of the size of a message that no provider has counted yet.

`CharacterEstimator` needs nothing but the text; `compaction_hooks.tiktoken_estimator` needs the rank files of a tokenizer.
`compaction_hooks.tokens.calibration` corrects the next estimate by a usage report.

Byte-pair tokenizers cut a text at word starts, digit groups, punctuation and line breaks, and cut further where letters
are in an unusual order (base64, hashes, made-up names). All of that shows in pairs: each character belongs to one of 16
classes, and each pair of neighboring classes weighs 0 to 8 sixths of a token.

The whole text is one large integer: `bytes.translate` makes each character the number of its class, a shift puts the class
before it into the upper half of the same byte, a second `translate` makes each pair as many set bits as it weighs, and
`int.bit_count` adds them up. That is five passes in C for any text. Of a long text only stretches are read.

The weights were fitted together as docs/tokens.md describes. Change one and the others are no longer right.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Callable, Iterable
from itertools import islice
from operator import add
from typing import Final, Protocol

from compaction_hooks.messages import (
    Media,
    Message,
    NativeSummary,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

MESSAGE_TOKENS: Final = 4
"""Role and separators of one message: OpenAI's cookbook counts 3 and the role."""
TOOL_CALL_TOKENS: Final = 24
"""The frame of the name and arguments of one tool call. Fitted, with `TOOL_RESULT_TOKENS`, to recorded requests to Claude."""
TOOL_RESULT_TOKENS: Final = 8
"""The frame of one result, its call id included."""
IMAGE_TOKENS: Final = 1_600
"""One image of any size: the most Anthropic takes after scaling down (width * height / 750); GPT-4.1 stops at 1,536."""
LOW_DETAIL_IMAGE_TOKENS: Final = 85
"""One image sent with `detail: low` (OpenAI, GPT-4o; independent of its size)."""
OTHER_MEDIA_TOKENS: Final = 4_600
"""A document or sound, whose length a host's message does not tell: one dense PDF page at Anthropic, 3,000 of text and an image."""
MOST_TOKENS: Final = 1_000_000_000_000_000
"""No message has more: an estimator that says so is not counting tokens."""
OPAQUE_CHARS_PER_TOKEN: Final = 4
"""Encrypted reasoning or summaries are base64 of a text: 4/3 characters for one of about 3.5 per token, rounded down."""


class TokenEstimator(Protocol):
    """An estimate of the tokens of a text and of a message. It should rather say too many than too few."""

    @property
    def name(self) -> str:
        """A short stable name, for events."""
        ...

    def estimate_tokens(self, text: str, /) -> int:
        """Return the tokens of a bare text; 0 when it is empty."""
        ...

    def estimate_message_tokens(self, message: Message, /) -> int:
        """Return the tokens of a message, all its parts and their frames included; never 0."""
        ...


class CharacterEstimator:
    """An estimator by classes of characters, without a vocabulary. Reads stretches of long texts; docs/tokens.md has the error."""

    @property
    def name(self) -> str:
        """Return "characters"."""
        return "characters"

    def estimate_tokens(self, text: str, /) -> int:
        """Return the tokens of a bare text, rounded up."""
        return text_tokens(text)

    def estimate_message_tokens(self, message: Message, /) -> int:
        """Return the tokens of a message with its frame."""
        return message_tokens(message, text_tokens)


def message_tokens(message: Message, count: Callable[[str], int]) -> int:
    """Return the tokens of a message when `count` counts its texts; for writing an estimator of your own."""
    tokens = MESSAGE_TOKENS
    for part in message.parts:
        # By how often they occur; a `match` or a function for each part would cost as much as counting a short text.
        if isinstance(part, Text):
            tokens += count(part.text)
        elif isinstance(part, ToolResult):
            tokens += TOOL_RESULT_TOKENS + count(part.text)
            for media in part.media:
                tokens += _media_tokens(media)
        elif isinstance(part, ToolCall):
            tokens += TOOL_CALL_TOKENS + count(part.name) + count(part.arguments)
        elif isinstance(part, Thinking):
            # The signature is the same reasoning once more, encrypted; a provider reads one of the two.
            tokens += max(count(part.text), math.ceil(part.opaque_chars / OPAQUE_CHARS_PER_TOKEN))
        elif isinstance(part, NativeSummary):
            tokens += count(part.content) + math.ceil(len(part.sealed) / OPAQUE_CHARS_PER_TOKEN)
        elif isinstance(part, Opaque):
            tokens += count(part.text)
        else:
            tokens += _media_tokens(part)
    return tokens


def _media_tokens(media: Media) -> int:
    if not media.media_type.startswith("image"):
        return OTHER_MEDIA_TOKENS
    return LOW_DETAIL_IMAGE_TOKENS if media.low_detail else IMAGE_TOKENS


def estimate_messages_tokens(messages: Iterable[Message], estimator: TokenEstimator) -> int:
    """Return the tokens of a list of messages: the sum, for nothing is counted between messages."""
    return sum(map(estimator.estimate_message_tokens, messages))


# -- the tokens of a text, from the classes of its characters

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
STRETCHES_AT_ONCE: Final = WHOLE_CHARS // STRETCH_CHARS
"""Stretches read at a time: the memory for a few hundred bytes is allocated faster than for all of a long text at once."""

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

    sixths = 0
    for _ in range(0, count, STRETCHES_AT_ONCE):
        chosen = [text[start : start + STRETCH_CHARS] for start in islice(starts, STRETCHES_AT_ONCE)]
        sixths += _sixths("".join(chosen))
    return sixths * length // (count * STRETCH_CHARS)


# -- media: their learned sizes, and the line that takes their place in a view

PLACEHOLDER_NAME_CHARS: Final = 80
"""The most that a placeholder shows of a file's name, id or URL."""


def find_media(part: Part) -> tuple[Media, ...]:
    """Return the media that a part is or holds."""
    if isinstance(part, ToolResult):
        return part.media
    return (part,) if isinstance(part, Media) else ()


_LEFT_OUT: Final = "[Left out, the request was too large with it: "


def is_left_out(part: Part) -> bool:
    """Return whether a part is the text in place of a user's media."""
    return isinstance(part, Text) and part.text.startswith(_LEFT_OUT)


def describe_left_out(part: Part) -> str:
    """Return the text in place of a user's media, or of a result that holds media: it names the media left out.

    >>> describe_left_out(Media("application/pdf", "file-123", is_reference=True, name="report.pdf"))
    '[Left out, the request was too large with it: application/pdf "report.pdf"]'
    """
    text = part.text if isinstance(part, ToolResult) else ""
    return "\n".join(filter(None, (text, *map(_placeholder, find_media(part)))))


def _placeholder(media: Media) -> str:
    name = f"sha256 {media.identity[:12]}" if not media.name and not media.is_reference else ""
    return f"{_LEFT_OUT}{name_media(media)}{name and ' ' + name}]"


def name_media(media: Media) -> str:
    """Return the type of media, with the name of their file, or its id or address, on one line and cut."""
    if media.name:
        name = json.dumps(" ".join(media.name.split())[:PLACEHOLDER_NAME_CHARS], ensure_ascii=False)
    else:
        name = media.identity[:PLACEHOLDER_NAME_CHARS] if media.is_reference else ""
    return f"{media.media_type} {name}".strip()


class LearnedMedia:
    """An estimator that has learned the size of some media, which no message tells.

    Args:
        estimator: Sizes everything else.
    """

    def __init__(self, estimator: TokenEstimator) -> None:
        self._estimator = estimator
        self._unseen: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The estimator's name."""
        return self._estimator.name

    def learn(self, media: Media, tokens: int) -> None:
        """Add `tokens` to the size that the estimator gives these media."""
        self._unseen[media.identity] = self._unseen.get(media.identity, 0) + tokens

    def estimate_tokens(self, text: str, /) -> int:
        """Return the tokens of a bare text."""
        return self._estimator.estimate_tokens(text)

    def estimate_message_tokens(self, message: Message, /) -> int:
        """Return the tokens of a message."""
        tokens = self._estimator.estimate_message_tokens(message)
        if not self._unseen:
            return tokens
        return tokens + sum(self._unseen.get(media.identity, 0) for part in message.parts for media in find_media(part))
