"""Guards around the host's functions, so that none of them fails a call: a substitute answers, and a warning says why."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, SupportsFloat, TypeVar, cast

from compaction_hooks.errors import describe_error
from compaction_hooks.foreign import read_attribute
from compaction_hooks.formats.usage import is_counted
from compaction_hooks.messages import Message
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.tokens.estimator import MOST_TOKENS, CharacterEstimator, TokenEstimator

R = TypeVar("R")
T = TypeVar("T")

logger = logging.getLogger("compaction_hooks")


class FirstWarning:
    """A warning that is logged once.

    Args:
        text: As `logging` takes it.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_given = False

    def __call__(self, *arguments: object) -> None:
        """Log the warning, the first time only."""
        if not self._is_given:
            self._is_given = True
            logger.warning(self._text, *arguments)


class Signal(Protocol):
    """Tells that the caller gave up: `asyncio.Event`, `threading.Event`, or anything else with `is_set`."""

    def is_set(self) -> bool:
        """Whether the caller gave up."""
        ...


class GuardedSignal:
    """A signal of the host; its errors count as "not set"."""

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self._warn = FirstWarning("a signal failed (%s)")

    def is_set(self) -> bool:
        """Whether the caller gave up, as far as the signal can tell."""
        try:
            return bool(self.signal.is_set())
        except Exception as error:  # noqa: BLE001 - a host's signal may raise anything
            self._warn(describe_error(error))
            return False


class GuardedEstimator:
    """An estimator of the host that cannot fail a call.

    If it raises or returns an impossible number of tokens (negative, not a number, above `MOST_TOKENS`, zero for a message),
    `CharacterEstimator` counts in its place, and a warning is logged once.
    """

    def __init__(self, estimator: TokenEstimator) -> None:
        self._estimator = estimator
        self._instead = CharacterEstimator()
        self._warn = FirstWarning("the token estimator %s: characters are counted instead")

    @property
    def name(self) -> str:
        """The name of the host's estimator, or an empty text."""
        return str(read_attribute(self._estimator, "name") or "")

    def estimate_tokens(self, text: str, /) -> int:
        """Return the tokens of a bare text, rounded up."""
        return self._tokens(self._estimator.estimate_tokens, self._instead.estimate_tokens, text, least=0)

    def estimate_message_tokens(self, message: Message, /) -> int:
        """Return the tokens of a message, rounded up."""
        instead = self._instead.estimate_message_tokens
        return self._tokens(self._estimator.estimate_message_tokens, instead, message, least=1)

    @property
    def upper_bound(self) -> Callable[[str], int] | None:
        """The estimator's upper bound of a text in tokens; None if it has none."""
        bound: Callable[[str], object] | None = getattr(self._estimator, "upper_bound", None)
        if bound is None:
            return None
        return lambda text: self._tokens(bound, self._instead.upper_bound, text, least=0)

    def _tokens(self, estimate: Callable[[T], object], instead: Callable[[T], int], content: T, *, least: int) -> int:
        try:
            tokens = estimate(content)
            number = float(tokens) if isinstance(tokens, SupportsFloat) else math.nan
            if 0 <= number <= MOST_TOKENS and math.ceil(number) >= least:
                return math.ceil(number)
            self._warn(f"gave {tokens if isinstance(tokens, SupportsFloat) else type(tokens).__name__}")
        except Exception as error:  # noqa: BLE001 - a host's estimator may raise anything
            self._warn(f"raised {describe_error(error)}")
        return instead(content)


class GuardedClock:
    """A clock of the host that cannot fail a call. Its monotonic seconds never go back: a step back counts as no time.

    If it raises or returns no `Instant`, the system's clock is used from then on.
    """

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = -math.inf
        self._behind = 0.0

    def __call__(self) -> Instant:
        with self._lock:
            now = self._read()
            self._behind += max(0.0, self._last - now.monotonic)
            self._last = now.monotonic
            return now._replace(monotonic=now.monotonic + self._behind)

    def _read(self) -> Instant:
        try:
            now = cast(object, self._clock())
            if isinstance(now, Instant) and math.isfinite(now.monotonic):
                return now
            why = f"it gave {now!r:.100}"
        except Exception as error:  # noqa: BLE001 - a host's clock may raise anything
            why = describe_error(error)
        logger.warning("the clock failed (%s): the system's is used", why)
        self._clock = system_clock
        return system_clock()


def system_clock() -> Instant:
    """Return the time of this machine."""
    from datetime import UTC, datetime  # needed only when something is due

    return Instant(datetime.now(UTC), time.monotonic())


def guard_reader(read: Callable[[R], object]) -> Callable[[R], Message | None]:
    """Return a guard of a reader of responses: None if it fails or reads no message; no usage if its counts are impossible."""

    def read_answer(response: R) -> Message | None:
        try:
            answer = read(response)
        except Exception as error:  # noqa: BLE001 - a host's function may raise anything
            logger.warning("an answer could not be read (%s)", type(error).__name__)
            return None
        if not isinstance(answer, Message):
            if answer is not None:
                logger.warning("an answer was read, but not into a Message (%s)", type(answer).__name__)
            return None
        model: object = answer.model
        return replace(
            answer,
            usage=answer.usage if is_counted(answer.usage) else None,
            model=model if isinstance(model, str) else None,
        )

    return read_answer
