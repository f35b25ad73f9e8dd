"""Requests in the form of prompt caches: content blocks with their text and their tokens by a real tokenizer."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from compaction_hooks.replay.bills import Block
from compaction_hooks.tiktoken_estimator import TiktokenEstimator

Chat: TypeAlias = Mapping[str, Any]
"""One OpenAI chat message."""

TOKENIZER = TiktokenEstimator("o200k_base")
MESSAGE_TOKENS = 4
"""Overhead of a message (OpenAI's cookbook: 3, and 1 for the role)."""
IMAGE_TOKENS = 1_200
"""Tokens of an image; providers charge between 258 and 1,600 for a screenshot."""


@lru_cache(maxsize=200_000)
def tokens_of(text: str) -> int:
    """Return the tokens of a text."""
    return TOKENIZER.estimate_tokens(text)


class Reader:
    """Converter of messages to blocks, with a cache by message object."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Chat, tuple[Block, ...]]] = {}

    def blocks(self, messages: Iterable[Chat]) -> list[Block]:
        """Return the blocks of a request, in order."""
        return [block for message in messages for block in self.of(message)]

    def of(self, message: Chat) -> tuple[Block, ...]:
        """Return the blocks of one message; at least one."""
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            known = self._known[id(message)] = (message, tuple(_blocks(message)))
        return known[1]

    def tokens(self, messages: Iterable[Chat]) -> int:
        """Return the size of a request."""
        return sum(block.tokens for block in self.blocks(messages))


def _blocks(message: Chat) -> Iterator[Block]:
    role = str(message["role"])
    head = f"{role} {message.get('tool_call_id') or message.get('name') or ''}\n"
    texts = list(_texts(message)) or [("", 0)]
    for number, (text, extra) in enumerate(texts):
        frame = MESSAGE_TOKENS if number == 0 else 0
        yield Block(f"{head}{text}", tokens_of(text) + extra + frame, role in ("system", "developer"))


def _texts(message: Chat) -> Iterator[tuple[str, int]]:
    """Yield the text of each block, with its tokens that are not text."""
    content = message.get("content")
    if isinstance(content, str):
        if content:
            yield content, 0
    else:
        for part in content or ():
            yield _part(part)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = function["arguments"]
        yield f"{function['name']} {arguments if isinstance(arguments, str) else json.dumps(arguments)}", MESSAGE_TOKENS


def _part(part: Chat) -> tuple[str, int]:
    if part.get("type") == "text":
        return str(part["text"]), 0
    if "image" in str(part.get("type")):
        # The data identifies the image, but does not count as text.
        return f"<image {hash(json.dumps(part, sort_keys=True))}>", IMAGE_TOKENS
    return json.dumps(part, sort_keys=True), 0
