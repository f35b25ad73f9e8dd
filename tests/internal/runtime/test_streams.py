"""A streamed answer is recovered up to its first chunk; from then on it is the caller's, error or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from compaction_hooks.runtime.guards import guard_stream, guard_stream_sync
from tests.conversations import Chat, Scripted, controller, steps, user
from tests.too_long import TooLongError

MESSAGES = [user("go"), *steps(30, 300)]


class Chunks:
    """A client's stream: fails after some chunks, knows its request id, and can be closed."""

    request_id = "req-1"

    def __init__(self, *chunks: object, fails: Exception | None = None) -> None:
        self._chunks = list(chunks)
        self._fails = fails
        self.is_closed = False

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        if self._chunks:
            return self._chunks.pop(0)
        if self._fails:
            raise self._fails
        raise StopIteration

    def close(self) -> None:
        self.is_closed = True


class AsyncChunks(Chunks):
    __iter__ = None  # type: ignore[assignment]  # an async stream is no iterator
    __next__ = None  # type: ignore[assignment]

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        try:
            return Chunks.__next__(self)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self.is_closed = True


async def test_a_stream_that_fails_before_its_first_chunk_is_recovered() -> None:
    streams = [AsyncChunks(fails=TooLongError()), AsyncChunks("a", "b")]

    async def send(view: list[Chat]) -> AsyncChunks:
        return streams.pop(0)

    stream: Any = await controller(None, summarizer=Scripted()).call(MESSAGES, send)
    assert [chunk async for chunk in stream] == ["a", "b"]
    assert not streams


async def test_after_the_first_chunk_the_error_surfaces() -> None:
    sent: list[list[Chat]] = []

    async def send(view: list[Chat]) -> AsyncChunks:
        sent.append(view)
        return AsyncChunks("a", fails=TooLongError())

    stream: Any = await controller(None, summarizer=Scripted()).call(MESSAGES, send)
    assert await anext(stream) == "a"
    with pytest.raises(TooLongError):
        await anext(stream)
    assert len(sent) == 1


async def test_an_empty_stream_ends_and_falsy_chunks_are_kept() -> None:
    assert [chunk async for chunk in await guard_stream(AsyncChunks())] == []  # type: ignore[attr-defined]
    assert list(guard_stream_sync(Chunks())) == []  # type: ignore[call-overload]
    assert list(guard_stream_sync(Chunks(0, "", None))) == [0, "", None]  # type: ignore[call-overload]


async def test_the_rest_of_a_stream_is_its_own() -> None:
    plain, later = Chunks("a"), AsyncChunks("a")
    with guard_stream_sync(plain) as stream:  # type: ignore[attr-defined]
        assert stream.request_id == "req-1"
    async with await guard_stream(later) as stream:  # type: ignore[attr-defined]
        assert stream.request_id == "req-1"
    assert plain.is_closed
    assert later.is_closed


async def test_a_stream_is_closed_as_its_client_closes_it_or_left_alone() -> None:
    """Some async clients close without waiting; a generator function's own iterator may not be closable at all."""

    class ClosedAtOnce(AsyncChunks):
        aclose = None  # type: ignore[assignment]

    at_once = ClosedAtOnce("a")
    async with await guard_stream(at_once) as stream:  # type: ignore[attr-defined]
        assert [chunk async for chunk in stream] == ["a"]
    assert at_once.is_closed

    class NeverClosed(AsyncChunks):
        aclose = close = None  # type: ignore[assignment]

    async with await guard_stream(NeverClosed("a")) as stream:  # type: ignore[attr-defined]
        assert [chunk async for chunk in stream] == ["a"]
    with guard_stream_sync(iter(["a"])) as plain:  # type: ignore[attr-defined]
        assert list(plain) == ["a"]


@pytest.mark.parametrize("response", ["text", ["a"], {"choices": []}, None])
async def test_an_answer_that_is_no_stream_is_handed_on_untouched(response: object) -> None:
    assert await guard_stream(response) is response
    assert guard_stream_sync(response) is response


async def test_usage_in_the_last_chunk_is_reported() -> None:
    usage = {"prompt_tokens": 7_777, "completion_tokens": 5}
    chunks = [{"choices": [{"delta": {"content": "hi"}}]}, {"choices": [], "usage": usage}]
    hooks = controller(200_000)

    async def send(view: list[Chat]) -> AsyncChunks:
        return AsyncChunks(*chunks)

    stream: Any = await hooks.call(MESSAGES, send)
    assert [chunk async for chunk in stream] == chunks
    assert hooks.state().context_tokens == 7_777
