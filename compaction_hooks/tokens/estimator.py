"""Estimates of the size of a message that no provider has counted yet.

`CharacterEstimator` needs nothing but the text; `compaction_hooks.tiktoken_estimator` needs the rank files of a tokenizer.
`compaction_hooks.tokens.calibration` corrects the next estimate by a usage report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from compaction_hooks.messages import (
    Media,
    Message,
    NativeSummary,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compaction_hooks.tokens.text_classes import text_tokens

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
    """An estimate of the tokens of a text and of a message. It should rather say too many than too few.

    It may also have `upper_bound(text)`: no fewer tokens than it gives the text, in whatever pieces. Then a call in which nothing
    can be due estimates nothing.
    """

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

    def upper_bound(self, text: str, /) -> int:
        """Return as many tokens as a text has bytes, or more: no text is estimated at more, in whatever pieces."""
        return len(text) if text.isascii() else 4 * len(text)


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
