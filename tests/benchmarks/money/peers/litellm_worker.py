"""LiteLLM's `trim_messages` before each call, to its default of three quarters of the window."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import litellm
import litellm.utils
from litellm.constants import DEFAULT_TRIM_RATIO
from litellm.litellm_core_utils import token_counter

from tests.benchmarks.money.peers.serving import Chat, Notes, serve

_trim: Any = cast("Any", litellm.utils).trim_messages
"""It has no types."""


class Trimming:
    """The function, which has no state."""

    def __init__(self, window: int, notes: Notes) -> None:
        self._messages: list[Chat] = []
        self._room = int(window * DEFAULT_TRIM_RATIO)

    def send(self, new: Sequence[Chat], usage: tuple[int, int] | None) -> Sequence[int | Chat]:
        self._messages += new
        trimmed: list[Chat] = _trim(self._messages, model="gpt-4o", max_tokens=self._room)
        return [self._index(message) for message in trimmed]

    def _index(self, message: Chat) -> int | Chat:
        return next((i for i, known in enumerate(self._messages) if known == message), message)


if __name__ == "__main__":
    # It counts every message again for every message it adds; a cache gives the same numbers faster.
    counter = cast("Any", token_counter)
    counter._encoding_count = lru_cache(maxsize=None)(counter._encoding_count)
    litellm.suppress_debug_info = True
    logging.disable(logging.CRITICAL)
    serve(Trimming)
