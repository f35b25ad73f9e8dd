"""Token counts as by a provider: a real tokenizer over every request, each message counted once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from compaction_hooks.tiktoken_estimator import TiktokenEstimator

Chat: TypeAlias = Mapping[str, Any]

MESSAGE_TOKENS = 3
REPLY_TOKENS = 3
"""Overhead of each message, and of the answer's start: OpenAI's cookbook, "How to count tokens with tiktoken"."""


class Counter:
    """Exact token counts of chat messages in cl100k, cached by message object.

    It keeps the messages alive, and they must not change while it counts.

    Raises:
        LookupError: the tokenizer's rank file is not on this machine.
    """

    def __init__(self) -> None:
        self._tokenizer = TiktokenEstimator("cl100k_base")
        if self._tokenizer.name == "characters":
            raise LookupError("no rank file of cl100k_base: pip install litellm, or set TIKTOKEN_CACHE_DIR")
        self._counted: dict[int, tuple[Chat, int]] = {}

    def message_tokens(self, message: Chat) -> int:
        """Return the tokens of one message, including its overhead."""
        known = self._counted.get(id(message))
        if known is None:
            tokens = MESSAGE_TOKENS + sum(map(self._tokenizer.estimate_tokens, _texts(message)))
            known = self._counted[id(message)] = (message, tokens)
        return known[1]

    def request_tokens(self, view: Sequence[Chat]) -> int:
        """Return the input tokens that a provider would report for this list."""
        return REPLY_TOKENS + sum(map(self.message_tokens, view))


def broken_pairs(view: Sequence[Chat]) -> int:
    """Return the number of tool calls without a result right after them, and of results without a tool call right before."""
    broken = 0
    open_calls: set[str] = set()
    for message in view:
        if message["role"] == "tool":
            broken += message["tool_call_id"] not in open_calls
            open_calls.discard(message["tool_call_id"])
        else:
            broken += len(open_calls)
            open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    return broken + len(open_calls)


def _texts(message: Chat) -> Iterator[str]:
    yield message["role"]
    content = message.get("content") or ""
    if isinstance(content, str):
        yield content
    else:
        yield from (str(part.get("text", "")) for part in cast("Sequence[Chat]", content))
    for call in message.get("tool_calls") or ():
        yield call["function"]["name"]
        yield call["function"]["arguments"]
