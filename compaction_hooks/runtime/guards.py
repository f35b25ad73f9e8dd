"""Guards around the host's functions, so that none of them fails a call: a substitute answers, and a warning says why."""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Generic, Protocol, SupportsFloat, TypeVar, cast

from compaction_hooks.foreign import describe_error, read_attribute
from compaction_hooks.formats.answers import is_counted
from compaction_hooks.messages import Message
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.tokens.estimator import MOST_CHARS_PER_TOKEN, MOST_TOKENS, CharacterEstimator, TokenEstimator
from compaction_hooks.triggers import (
    AnyTrigger,
    Due,
    ReserveTrigger,
    SnapshotFigures,
    ThresholdTrigger,
    Trigger,
    parts_of,
)

R = TypeVar("R")
Stream = TypeVar("Stream")
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
        self._signal = signal
        self._warn = FirstWarning("a signal failed (%s)")

    def is_set(self) -> bool:
        """Whether the caller gave up, as far as the signal can tell."""
        try:
            return bool(self._signal.is_set())
        except Exception as error:  # noqa: BLE001 - a host's signal may raise anything
            self._warn(describe_error(error))
            return False


class GuardedEstimator:
    """An estimator of the host that cannot fail a call.

    If it raises or returns an impossible number of tokens (negative, not a number, above `MOST_TOKENS`, zero for a message or
    a text of more than a few characters), `CharacterEstimator` counts in its place, and a warning is logged once.
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
        least = min(len(text) // MOST_CHARS_PER_TOKEN, 1)
        return self._tokens(self._estimator.estimate_tokens, self._instead.estimate_tokens, text, least=least)

    def estimate_message_tokens(self, message: Message, /) -> int:
        """Return the tokens of a message, rounded up."""
        instead = self._instead.estimate_message_tokens
        return self._tokens(self._estimator.estimate_message_tokens, instead, message, least=1)

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


def system_clock() -> Instant:
    """Return the time of this machine."""
    return Instant(datetime.now(UTC), time.monotonic())


def guard_reader(read: Callable[[R], object], session_id: str) -> Callable[[R], Message | None]:
    """Return a guard of a reader of responses: None if it fails or reads no message; no usage if its counts are impossible."""

    def read_answer(response: R) -> Message | None:
        try:
            answer = read(response)
        except Exception as error:  # noqa: BLE001 - a host's function may raise anything
            logger.warning("session %s: an answer could not be read (%s)", session_id, type(error).__name__)
            return None

        if not isinstance(answer, Message):
            if answer is not None:
                told = session_id, type(answer).__name__
                logger.warning("session %s: an answer was read, but not into a Message (%s)", *told)
            return None

        model: object = answer.model
        return replace(
            answer,
            usage=answer.usage if is_counted(answer.usage) else None,
            model=model if isinstance(model, str) else None,
        )

    return read_answer


class GuardedTrigger:
    """A trigger of the host that never fails a call: `ReserveTrigger` answers if it raises or answers something else."""

    def __init__(self, trigger: Trigger) -> None:
        self._trigger = trigger
        self._warn = FirstWarning("trigger %s failed (%s): ReserveTrigger() decides")

    def due(self, snapshot: SnapshotFigures, /) -> Due | None:
        """Return the answer of the host's trigger, or that of `ReserveTrigger`; the first failure is logged."""
        try:
            due = cast("object", self._trigger.due(snapshot))
            if due is None or isinstance(due, Due):
                return due
            why = f"due() answered {type(due).__name__}, neither Due(...) nor None"
        except Exception as error:  # noqa: BLE001 - a host's trigger may raise anything
            why = describe_error(error)

        self._warn(type(self._trigger).__name__, why)
        return ReserveTrigger().due(snapshot)


def guard_trigger(trigger: Trigger) -> Trigger:
    """Return a trigger with a guard around each part of the host; the parts of this package need none."""
    parts = (part if isinstance(part, ThresholdTrigger) else GuardedTrigger(part) for part in parts_of(trigger))
    return AnyTrigger(tuple(parts))


# -- streamed answers, guarded up to their first chunk: a request that is rejected by then is compacted and sent again

_END: Final = object()
_CONSUMED: Final = object()


class _Guarded(Generic[Stream]):
    """A stream whose first chunk was read ahead. All attributes that do not iterate are those of the stream.

    Attributes:
        on_chunk: Called with every chunk that the host reads.
    """

    def __init__(self, stream: Stream, first: object) -> None:
        self._stream = stream
        self._first = first
        self.on_chunk: Callable[[object], None] | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def _take_first(self) -> object:
        first, self._first = self._first, _CONSUMED
        return first

    def _report_chunk(self, chunk: object) -> object:
        if self.on_chunk is not None:
            self.on_chunk(chunk)
        return chunk


class GuardedStream(_Guarded[Iterator[object]], Iterator[object], AbstractContextManager["GuardedStream"]):
    """A stream of an ordinary client. Also a context manager, as the clients' own streams are."""

    def __next__(self) -> object:
        first = self._take_first()
        if first is _END:
            raise StopIteration
        return self._report_chunk(next(self._stream) if first is _CONSUMED else first)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        close = getattr(self._stream, "close", None)
        if callable(close):
            close()


class GuardedAsyncStream(
    _Guarded[AsyncIterator[object]], AsyncIterator[object], AbstractAsyncContextManager["GuardedAsyncStream"]
):
    """A stream of an async client. Also an async context manager, as the clients' own streams are."""

    async def __anext__(self) -> object:
        first = self._take_first()
        if first is _END:
            raise StopAsyncIteration
        return self._report_chunk(await anext(self._stream) if first is _CONSUMED else first)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        close = getattr(self._stream, "aclose", None) or getattr(self._stream, "close", None)
        if callable(close):
            closing: object = close()
            if inspect.isawaitable(closing):
                await closing


async def guard_stream(response: object) -> object:
    """Return a guard of an async stream, with its first chunk read; return any other response as it is.

    An error before the first chunk is raised here.
    """
    if hasattr(response, "__anext__") and hasattr(response, "__aiter__"):
        stream = cast("AsyncIterator[object]", response)
        return GuardedAsyncStream(stream, await anext(stream, _END))
    return response


def guard_stream_sync(response: object) -> object:
    """Return a guard of a stream, with its first chunk read; return any other response as it is.

    An error before the first chunk is raised here.
    """
    if hasattr(response, "__next__") and hasattr(response, "__iter__"):
        stream = cast("Iterator[object]", response)
        return GuardedStream(stream, next(stream, _END))
    return response
