"""Retries and fallbacks of a request, in litellm's order but with overflows compacted first.

litellm itself sends every failed request again: `num_retries` repeats an overflow like any other error, and fallbacks send the
same messages to another model. Here an overflow is compacted first; all other errors are retried, and fall back, as in litellm.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, cast

from compaction_adapters.kit import Flow, Twin
from compaction_adapters.litellm.answers import AnswerReader
from compaction_adapters.litellm.calls import Arguments, Callee, as_mapping
from compaction_hooks import ContextOverflowError, is_context_overflow

logger = logging.getLogger("compaction_hooks")

LONGEST_WAIT_SECONDS: Final = 10.0
"""Longest wait between two attempts after a rate limit (litellm's `exponential_backoff_retry`)."""
_RETRIES: Final = ("num_retries", "retry_policy", "retry_strategy")
_FALLBACKS: Final = ("fallbacks", "context_window_fallback_dict")


class Sender:
    """Sends the views of one call, and retries as litellm does after errors that another view cannot cure.

    litellm does not wait between attempts, except after a rate limit: 0, 1, 2, 4 ... seconds up to `LONGEST_WAIT_SECONDS`. It
    leaves the waiting to tenacity, which it does not install.

    Attributes:
        read: Reads an answer. None for a function that is not litellm's: the core reads it.

    Args:
        is_curable: Whether another view may cure an error.
    """

    def __init__(self, callee: Callee, arguments: Arguments, is_curable: Callable[[Exception], bool]) -> None:
        self._callee, self._is_curable, self._is_first = callee, is_curable, True
        self._retries, self._policy = arguments.get("num_retries"), arguments.get("retry_policy")
        reader = AnswerReader(arguments.get("logger_fn"), names_model=not callee.is_sdk)
        self.read = reader.read if callee.is_litellms else None
        own = {"logger_fn": reader} if callee.is_litellms else {}
        self._arguments = {**(_without(arguments, *_RETRIES, *_FALLBACKS) if callee.is_sdk else arguments), **own}

    def send(self, view: object) -> Flow[object]:
        """Send a view and return the response."""
        arguments, left, wait_seconds = {**self._first_arguments(), "messages": view}, None, 0.0
        while True:
            try:
                return (yield Twin(self._callee.call, self._callee.call, arguments))
            except Exception as error:
                if not self._is_retried(error):
                    raise
                if left is None:
                    left = self._retries_after(error)
                elif isinstance(error, sys.modules["openai"].RateLimitError):
                    wait_seconds = min(max(1.0, 2 * wait_seconds), LONGEST_WAIT_SECONDS)
                if left <= 0:
                    raise
            left -= 1
            yield Twin(time.sleep, asyncio.sleep, wait_seconds)
            arguments |= _no_retries()

    def _first_arguments(self) -> Arguments:
        """Return the arguments of the first attempt to send a view."""
        is_first, self._is_first = self._is_first, False
        if self._callee.router is not None and is_first:
            return {**self._arguments, "context_window_fallbacks": []}
        default: int | None = sys.modules["litellm"].num_retries if self._callee.is_sdk else None
        if default:  # read once: litellm resets it when a call fails
            self._retries = default if self._retries is None else self._retries
            return {**self._arguments, **_no_retries()}
        if not self._callee.is_sdk or self._retries is None:
            return self._arguments
        # litellm gives the number to the provider's client too, which waits as long as the server says, and repeats only
        # requests that failed with 408, 409, 429 or a server error.
        return {**self._arguments, "max_retries": self._retries}

    def _is_retried(self, error: Exception) -> bool:
        # All errors of litellm derive from openai's.
        return self._callee.is_sdk and isinstance(error, sys.modules["openai"].APIError) and not self._is_curable(error)

    def _retries_after(self, error: Exception) -> int:
        """Return how often litellm repeats a request that first failed with this error."""
        policies = import_module("litellm.router_utils.get_retry_from_policy")
        by_policy = policies.get_num_retries_from_retry_policy(exception=error, retry_policy=self._policy)
        return cast("int", (self._retries or 0) if by_policy is None else by_policy)


def _no_retries() -> Arguments:
    """Return the arguments that switch retries off.

    To override `litellm.num_retries`, a sync call needs an empty policy and an async call a zero.
    """
    policy = import_module("litellm.types.router").RetryPolicy()
    return {"num_retries": 0, "retry_policy": policy, "max_retries": 0}


def _without(arguments: Arguments, *names: str) -> Arguments:
    return {name: value for name, value in arguments.items() if name not in names}


def next_request(arguments: Arguments, error: Exception, patterns: Sequence[str]) -> Arguments | None:
    """Return the arguments of a call to the next fallback model, after all retries failed; None if there is no other model.

    After an overflow that compaction could not cure, `context_window_fallback_dict` comes first. The messages are the caller's, to
    be fitted to the window of the fallback model.

    Args:
        patterns: The user's own error texts that mark an overflow.
    """
    is_overflow = isinstance(error, ContextOverflowError) or is_context_overflow(error, patterns=patterns)
    model, fallbacks = str(arguments.get("model")), arguments.get("fallbacks")
    larger = as_mapping(arguments.get("context_window_fallback_dict"))
    if is_overflow and model in larger:
        changes: Arguments = {"model": larger[model], "context_window_fallback_dict": _without(larger, model)}
    elif isinstance(fallbacks, list | tuple) and fallbacks:
        first, *rest = cast("Sequence[object]", fallbacks)
        changes = {**(as_mapping(first) or {"model": first}), "fallbacks": rest}
    else:
        return None
    logger.warning("falling back to %s (%s)", changes.get("model", model), type(error).__name__)
    return {**arguments, **changes}
