"""How a request goes out, so that an overflow comes back before anything resends it.

litellm itself resends whatever failed: `num_retries` an overflow as often as any other error, fallbacks the same messages to
another model. Here an overflow is compacted first; everything else is retried, and falls back, as litellm does it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, cast

from compaction_adapters.litellm.calls import Arguments, Callee
from compaction_hooks import ContextOverflowError, is_context_overflow

logger = logging.getLogger("compaction_hooks")

_RETRIES: Final = ("num_retries", "retry_policy", "retry_strategy")
_FALLBACKS: Final = ("fallbacks", "context_window_fallback_dict")


class Sender:
    """Sends the views of one call.

    Args:
        patterns: Texts of the user's that mark an overflow.
    """

    def __init__(self, callee: Callee, arguments: Arguments, patterns: Sequence[str]) -> None:
        self._callee = callee
        self._patterns = patterns
        self._is_first = True
        self._arguments = _without(arguments, *_FALLBACKS) if callee.is_sdk else arguments
        self._retries = _Retries.of(self._arguments) if callee.is_sdk else None

    def send(self, view: object) -> object:
        """Send a view and return the response."""
        arguments, retries = self._next(view), self._retries
        if retries is None:
            return self._callee.send(arguments)
        try:
            return self._callee.send(retries.single(arguments))
        except Exception as error:
            count = self._count(retries, error)
            if not count:
                raise
            strategy = _strategy(error)
        retry = _litellm().completion_with_retries
        return _taken(
            retry(**_without(arguments, *_RETRIES), **strategy, num_retries=count, original_function=self._once)
        )

    async def send_async(self, view: object) -> object:
        """As `send`, for an async function."""
        arguments, retries = self._next(view), self._retries
        if retries is None:
            return await self._callee.send_async(arguments)
        try:
            return await self._callee.send_async(retries.single(arguments))
        except Exception as error:
            count = self._count(retries, error)
            if not count:
                raise
            strategy = _strategy(error)
        retry = cast("Callable[..., Awaitable[object]]", _litellm().acompletion_with_retries)
        again = retry(
            **_without(arguments, *_RETRIES), **strategy, num_retries=count, original_function=self._once_async
        )
        return _taken(await again)

    def _next(self, view: object) -> Arguments:
        """The arguments to send a view with: the first time a router keeps its context window fallbacks back."""
        is_first, self._is_first = self._is_first, False
        held_back: Arguments = {"context_window_fallbacks": ()} if is_first and self._callee.router is not None else {}
        return {**self._arguments, **held_back, "messages": view}

    def _count(self, retries: _Retries, error: Exception) -> int:
        """How often to send again after an error."""
        return 0 if self._is_overflow(error) else retries.count(error)

    def _is_overflow(self, error: Exception) -> bool:
        return is_context_overflow(error, patterns=self._patterns)

    def _once(self, **arguments: object) -> object:
        """One attempt of litellm's retry loop. An overflow is returned, not raised, which ends the loop."""
        try:
            return self._callee.send(arguments)
        except Exception as error:
            if not self._is_overflow(error):
                raise
            return _Overflow(error)

    async def _once_async(self, **arguments: object) -> object:
        try:
            return await self._callee.send_async(arguments)
        except Exception as error:
            if not self._is_overflow(error):
                raise
            return _Overflow(error)


@dataclass(frozen=True, slots=True)
class _Overflow:
    error: Exception


def _taken(response: object) -> object:
    if isinstance(response, _Overflow):
        raise response.error
    return response


@dataclass(frozen=True, slots=True)
class _Retries:
    """The retries a call asks litellm for.

    Attributes:
        number: `num_retries` of the call or of the process.
        policy: `retry_policy` of the call, by which some errors have a number of their own.
        instead: The arguments by which litellm leaves the retries to us.
    """

    number: int
    policy: object
    instead: Arguments

    @classmethod
    def of(cls, arguments: Arguments) -> _Retries | None:
        """Return None when litellm would not retry."""
        given, policy = cast("int | None", arguments.get("num_retries")), arguments.get("retry_policy")
        if given is None and (everywhere := _litellm().num_retries):
            # Against the number of the process a sync call is helped by an empty policy only, an async one by a zero only.
            return cls(everywhere, policy, {"num_retries": 0, "retry_policy": _retry_types().RetryPolicy()})
        # litellm makes `num_retries` the `max_retries` of the provider's client, which waits as long as the server says and repeats
        # only what failed with 408, 409, 429 or a server error.
        return cls(given or 0, policy, {} if given is None else {"max_retries": given}) if given or policy else None

    def single(self, arguments: Arguments) -> Arguments:
        """The arguments for one attempt, which litellm does not repeat."""
        return {**_without(arguments, *_RETRIES), **self.instead}

    def count(self, error: Exception) -> int:
        """How often litellm sends again after this error."""
        if not isinstance(error, sys.modules["openai"].APIError):  # what litellm's own errors all are
            return 0
        by_policy: int | None = None
        if self.policy:
            by_policy = _retry_policies().get_num_retries_from_retry_policy(exception=error, retry_policy=self.policy)
        return self.number if by_policy is None else by_policy


def _litellm() -> Any:
    # It is there: the function that is called is its own.
    return sys.modules["litellm"]


def _retry_types() -> Any:
    return import_module("litellm.types.router")


def _retry_policies() -> Any:
    return import_module("litellm.router_utils.get_retry_from_policy")


def _strategy(error: Exception) -> Arguments:
    """How long litellm's retry loop waits, as its async functions choose: after a rate limit longer each time."""
    is_rate_limit = isinstance(error, sys.modules["openai"].RateLimitError)
    return {"retry_strategy": "exponential_backoff_retry" if is_rate_limit else "constant_retry"}


def _without(arguments: Arguments, *names: str) -> Arguments:
    return {name: value for name, value in arguments.items() if name not in names}


# -- falling back


def next_request(arguments: Arguments, error: Exception, patterns: Sequence[str]) -> Arguments | None:
    """Return the call to make after one that failed for good, to the next model of `fallbacks`; None when there is none.

    After an overflow that compaction could not cure, `context_window_fallback_dict` comes first. What is returned is a call of its
    own, whose messages are made to fit the window of its model.
    """
    model, larger = arguments.get("model"), arguments.get("context_window_fallback_dict")
    if isinstance(larger, Mapping) and model in larger and _is_too_long(error, patterns):
        table = cast("Arguments", larger)
        others = {name: other for name, other in table.items() if name != model}
        return _fallen_back(error, {**arguments, "model": table[str(model)], "context_window_fallback_dict": others})
    fallbacks = arguments.get("fallbacks")
    if not isinstance(fallbacks, list | tuple) or not fallbacks:
        return None
    first, *rest = cast("Sequence[object]", fallbacks)
    own = cast("Arguments", first) if isinstance(first, Mapping) else {"model": first}
    return _fallen_back(error, {**arguments, **own, "fallbacks": rest})


def _is_too_long(error: Exception, patterns: Sequence[str]) -> bool:
    return isinstance(error, ContextOverflowError) or is_context_overflow(error, patterns=patterns)


def _fallen_back(error: Exception, arguments: Arguments) -> Arguments:
    logger.warning("falling back to %s (%s)", arguments.get("model"), type(error).__name__)
    return arguments
