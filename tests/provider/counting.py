"""Token counts of requests as by a provider: with a real tokenizer if installed, and with a prompt cache."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from compaction_hooks.errors import MissingExtraError
from compaction_hooks.tiktoken_estimator import TiktokenEstimator

MESSAGE_TOKENS = 4
"""Overhead of a message, from OpenAI's cookbook."""
IMAGE_TOKENS = 765
"""One image, as OpenAI counts a 1024 x 1024 one in high detail."""
DOCUMENT_TOKENS = 20_000
"""A document such as a long report; its real size is not in the request."""
CACHE_BLOCK_TOKENS = 128
CACHE_MINIMUM_TOKENS = 1_024
"""OpenAI caches prefixes from 1024 tokens on, in steps of 128."""

_PIECE = re.compile(r"[A-Za-z]{1,7}|[0-9]{1,3}|[^\x00-\x7f]|[!-/:-@\[-`{-~]{1,3}|\n+|[ \t]{2,}")


@cache
def tokenizer() -> Callable[[str], int]:
    """Return the token count of cl100k_base, or of word pieces without tiktoken or its rank file.

    The pieces are 0.84 to 1.36 of its tokens, 1.10 in the median, on the 330 recorded conversations.
    """
    try:
        estimator = TiktokenEstimator("cl100k_base")
    except MissingExtraError:
        return count_pieces
    return count_pieces if estimator.name == "characters" else estimator.estimate_tokens


def count_pieces(text: str) -> int:
    """Return the number of word pieces in a text."""
    return sum(1 for _ in _PIECE.finditer(text))


@lru_cache(maxsize=50_000)
def text_tokens(text: str) -> int:
    """Return the tokens of one text."""
    return tokenizer()(text)


def pieces_of(tools: object, system: str, messages: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a request as texts in the order a model reads them: tools, system prompt, messages."""
    rendered = (f"{message.get('role')}\n{_render(message)}" for message in messages)
    return (json.dumps(tools) if tools else "", system, *rendered)


_OTHER_PIECES = 2
"""Number of pieces other than messages: tools and system prompt."""


def count(pieces: Sequence[str]) -> int:
    """Return the input tokens of a request."""
    images, documents = (sum(piece.count(mark) for piece in pieces) for mark in (_IMAGE, _DOCUMENT))
    media = IMAGE_TOKENS * images + DOCUMENT_TOKENS * documents
    return sum(map(text_tokens, pieces)) + MESSAGE_TOKENS * (len(pieces) - _OTHER_PIECES) + media


def count_cached(pieces: Sequence[str], earlier: Iterable[Sequence[str]]) -> int:
    """Return the tokens read from a prompt cache: the longest common prefix with an earlier request, in whole blocks."""
    whole, rest_chars = max((_common_prefix(pieces, other) for other in earlier), default=(0, 0))
    if whole < _OTHER_PIECES:
        return 0
    rest = pieces[whole][:rest_chars] if rest_chars else ""
    tokens = count(pieces[:whole]) + text_tokens(rest)
    return tokens // CACHE_BLOCK_TOKENS * CACHE_BLOCK_TOKENS if tokens >= CACHE_MINIMUM_TOKENS else 0


def _common_prefix(pieces: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Return the number of equal pieces at the start, and of equal characters in the next piece."""
    pairs = list(zip(pieces, other, strict=False))
    whole = next((index for index, (one, two) in enumerate(pairs) if one != two), len(pairs))
    return whole, _same_chars(*pairs[whole]) if whole < len(pairs) else 0


def _same_chars(one: str, two: str) -> int:
    return next(
        (at for at, (left, right) in enumerate(zip(one, two, strict=False)) if left != right), min(len(one), len(two))
    )


_IMAGE, _DOCUMENT = "\x00image\x00", "\x00document\x00"


def _render(message: Mapping[str, Any]) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    called = [f"{call['name']}({call['arguments']})" for call in calls]
    return "\n".join([*_texts(message.get("content")), *called])


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [text for block in content for text in _block_texts(block)] if isinstance(content, list) else []


def _block_texts(block: Mapping[str, Any]) -> list[str]:
    match block.get("type"):
        case "text":
            return [block["text"]]
        case "tool_use":
            return [f"{block['name']}({json.dumps(block['input'])})"]
        case "tool_result":
            return _texts(block.get("content"))
        case "compaction":
            return [block["content"]]
        case "image" | "image_url":
            return [_IMAGE]
        case "document" | "file":
            return [_DOCUMENT]
        case _:
            return [json.dumps(block)]
