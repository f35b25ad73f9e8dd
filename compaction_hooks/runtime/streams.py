"""Streamed answers, guarded up to their first chunk: a request that is rejected by then is compacted and sent again."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Final, Generic, Self, TypeVar, cast

Stream = TypeVar("Stream")

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


class GuardedStream(_Guarded[Iterator[object]]):
    """A stream of an ordinary client. Also a context manager, as the clients' own streams are."""

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        first = self._take_first()
        if first is _END:
            raise StopIteration
        return self._report_chunk(next(self._stream) if first is _CONSUMED else first)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        close = getattr(self._stream, "close", None)
        if callable(close):
            close()


class GuardedAsyncStream(_Guarded[AsyncIterator[object]]):
    """A stream of an async client. Also an async context manager, as the clients' own streams are."""

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        first = self._take_first()
        if first is _END:
            raise StopAsyncIteration
        return self._report_chunk(await anext(self._stream) if first is _CONSUMED else first)

    async def __aenter__(self) -> Self:
        return self

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
