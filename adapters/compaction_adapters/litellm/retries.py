"""How a request goes out, so that an overflow comes back before anything resends it.

litellm itself resends whatever failed: `num_retries` an overflow as often as any other error, fallbacks the same messages to
another model. Here an overflow is compacted first; everything else is retried, and falls back, as litellm does it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, cast

from compaction_adapters.kit import Flow, Twin, is_curable, run, run_async
from compaction_adapters.litellm.answers import Ending, answer_of
from compaction_adapters.litellm.calls import Arguments, Callee
from compaction_hooks import ContextOverflowError, Message, is_context_overflow

logger = logging.getLogger("compaction_hooks")

LONGEST_WAIT_SECONDS: Final = 10.0
"""Between two attempts after a rate limit (litellm's `exponential_backoff_retry`)."""
_FALLBACKS: Final = ("fallbacks", "context_window_fallback_dict")


class Sender:
    """Sends the views of one call, and reads what they are answered.

    Args:
        patterns: Texts of the user's that mark an overflow.
    """

    def __init__(self, callee: Callee, arguments: Arguments, patterns: Sequence[str]) -> None:
        self._callee = callee
        self._patterns = patterns
        self._is_first = True
        self._ending = Ending(arguments.get("logger_fn"))
        self._is_litellms = callee.is_sdk or callee.router is not None
        self._arguments = _without(arguments, *_FALLBACKS) if callee.is_sdk else arguments
        if self._is_litellms:
            self._arguments = {**self._arguments, "logger_fn": self._ending}

    @property
    def reader(self) -> Callable[[object], Message | None] | None:
        """What reads an answer's usage and how it ended; None: the core, for a function that is not litellm's."""
        return self._read if self._is_litellms else None

    def _read(self, response: object) -> Message | None:
        # A router's answer may be that of another model it fell back to, which its name tells.
        answer = answer_of(response, names_model=not self._callee.is_sdk)
        return answer and self._ending.mended(answer)

    def send(self, view: object) -> object:
        """Send a view and return the response."""
        return run(self._sending(view))

    async def send_async(self, view: object) -> object:
        """As `send`, for an async function."""
        return await run_async(self._sending(view))

    def _sending(self, view: object) -> Flow[object]:
        retries = self._retries(view)
        while True:
            try:
                return (yield Twin(self._callee.send, self._callee.send_async, retries.arguments))
            except Exception as error:
                if not retries.has_more(error):
                    raise
            yield Twin(time.sleep, asyncio.sleep, retries.wait_seconds)

    def _retries(self, view: object) -> _Retries:
        is_first, self._is_first = self._is_first, False
        arguments = {**self._arguments, "messages": view}
        if self._callee.is_sdk:
            return _Retries.of_litellm(arguments, self._patterns)
        if is_first and self._callee.router is not None:
            arguments["context_window_fallbacks"] = []
        return _Retries(arguments=arguments, again=arguments)


@dataclass(slots=True, kw_only=True)
class _Retries:
    """The attempts to send one view: one, and as many more as litellm would make, but for an overflow.

    litellm waits not at all between attempts, and after a rate limit 0, 1, 2, 4 ... up to `LONGEST_WAIT_SECONDS`. It leaves
    that to tenacity, which it does not install.

    Attributes:
        arguments: Those of the next attempt.
        again: Those of every attempt but the first.
        number: How many more there are; `policy`, litellm's `retry_policy`, may have another number for an error.
        wait_seconds: How long to wait before the next attempt.
        left: Attempts that are left; None before the first failed.
    """

    arguments: Arguments
    again: Arguments
    number: int = 0
    policy: object = None
    patterns: Sequence[str] = ()
    wait_seconds: float = 0.0
    left: int | None = None

    @classmethod
    def of_litellm(cls, arguments: Arguments, patterns: Sequence[str]) -> _Retries:
        """Take the retries of litellm's own functions out of its hands."""
        given, policy = cast("int | None", arguments.get("num_retries")), arguments.get("retry_policy")
        everywhere: int | None = sys.modules["litellm"].num_retries if given is None else None
        if not (given or policy or everywhere):
            return cls(arguments=arguments, again=arguments)
        bare = _without(arguments, "num_retries", "retry_policy", "retry_strategy")
        # Against the number of the process a sync call is helped by an empty policy only, an async one by a zero only.
        again = {**bare, "num_retries": 0, "retry_policy": _litellm("types.router").RetryPolicy(), "max_retries": 0}
        # In the first attempt litellm makes `num_retries` the `max_retries` of the provider's client, which waits as long as the
        # server says, and repeats only what failed with 408, 409, 429 or a server error.
        first = again if everywhere else bare if given is None else {**bare, "max_retries": given}
        return cls(arguments=first, again=again, number=given or everywhere or 0, policy=policy, patterns=patterns)

    def has_more(self, error: Exception) -> bool:
        """Whether to send again after this error; how often is settled by the first."""
        openai = sys.modules.get("openai")  # of whose errors all of litellm's are
        if openai is None or not isinstance(error, openai.APIError):
            return False
        if is_curable(error, self.patterns):
            return False
        if self.left is None:
            self.left = self._number_after(error)
        elif isinstance(error, openai.RateLimitError):
            self.wait_seconds = min(max(1.0, 2 * self.wait_seconds), LONGEST_WAIT_SECONDS)
        self.left -= 1
        self.arguments = self.again
        return self.left >= 0

    def _number_after(self, error: Exception) -> int:
        if not self.policy:
            return self.number
        policies = _litellm("router_utils.get_retry_from_policy")
        number: int | None = policies.get_num_retries_from_retry_policy(exception=error, retry_policy=self.policy)
        return self.number if number is None else number


def _litellm(module: str) -> Any:
    return import_module(f"litellm.{module}")


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
