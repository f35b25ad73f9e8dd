"""Measurements of a peer: one call when nothing is due, the times and the contexts of a whole conversation.

Times are processor time of the whole process, so that other work on the machine has little influence.
"""

import gc
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import mean, median
from time import process_time
from typing import Generic, TypeAlias, TypedDict

from tests.benchmarks.counting import Counter, broken_pairs
from tests.benchmarks.peers.peer import Asked, BasePeer, Chat, M, Reported

SUMMARY = "\n".join(
    f"- {number}. The user asked for a change; what was read, decided and written is kept in this line of the summary."
    for number in range(1, 31)
)
"""The instant answer of every summarizer: 30 lines, about 700 tokens."""
UNLIMITED = 1_000_000_000
"""In tokens; no compaction is ever due in this window."""
ROUND_SECONDS = 0.1
"""Duration of one round of calls; at least one call is made."""
TOKENS_PER_MESSAGE = 510
"""Mean of the generated history."""

Call: TypeAlias = Callable[[BasePeer[M]], Awaitable[None]]


def instant(_: Callable[[], Asked]) -> str:
    """Return the same summary for every request."""
    return SUMMARY


class Sent(TypedDict):
    """A peer's requests in one conversation, by a real tokenizer.

    Attributes:
        calls: Model calls whose contexts were counted.
        over: Contexts larger than the window.
        broken: Contexts with a call without its result, or a result without its call.
        mean_tokens: Mean size of a context.
        compactions: Calls whose context was smaller than the one before.
    """

    calls: int
    over: int
    broken: int
    mean_tokens: float
    compactions: int


class Spent(TypedDict):
    """Time of a conversation in the peer's code, in seconds.

    Attributes:
        total: Sum of all calls.
        compaction: Median of the calls that compacted; None without one.
    """

    total: float
    compaction: float | None


class Play(Generic[M]):
    """A conversation played by one peer: its host adds messages, with a call before each answer.

    Args:
        window: In tokens.
        usage: Whether answers have the provider's token counts.
    """

    def __init__(self, peer: type[BasePeer[M]], history: Sequence[Chat], *, window: int, usage: bool) -> None:
        self._peer = peer
        self._window = window
        self._usage = usage
        self._messages = peer.convert(history)
        self._inputs: list[int] = []
        self._outputs: list[int] = []

    async def count(self) -> Sent:
        """Play it and count every context. Call it first: later plays report these counts as usage."""
        reader = _Reader(self._peer)
        self._outputs = [reader.tokens([message]) for message in self._messages if self._peer.is_answer(message)]
        broken = 0

        async def call(conversation: BasePeer[M]) -> None:
            nonlocal broken
            view = await conversation.view()
            context = reader.chats([*conversation.head, *view])
            self._inputs.append(reader.counter.request_tokens(context))
            broken += broken_pairs(context) > 0

        await self._play(call)
        return Sent(
            calls=len(self._inputs),
            over=sum(tokens > self._window for tokens in self._inputs),
            broken=broken,
            mean_tokens=mean(self._inputs),
            compactions=len(self._compactions()),
        )

    async def clock(self) -> Spent:
        """Play it and measure the times."""
        seconds: list[float] = []
        overhead = _clock_seconds()

        async def call(conversation: BasePeer[M]) -> None:
            start = process_time()
            await conversation.view()
            seconds.append(max(process_time() - start - overhead, 0))

        with _freeze_objects():
            await self._play(call)
        compactions = [seconds[index] for index in self._compactions()]
        return Spent(
            total=sum(seconds),
            compaction=median(compactions) if compactions else None,
        )

    async def _play(self, call: Call[M]) -> None:
        conversation = self._peer(self._window, instant)
        number = 0
        for message in self._messages:
            reported = None
            if self._peer.is_answer(message):
                await call(conversation)
                if self._usage:
                    reported = Reported(self._inputs[number], self._outputs[number])
                number += 1
            conversation.append(message, reported)

    def _compactions(self) -> list[int]:
        return [index for index in range(1, len(self._inputs)) if self._inputs[index] < self._inputs[index - 1]]


async def idle_seconds(peer: type[BasePeer[M]], history: Sequence[Chat], size: int, *, usage: bool) -> float:
    """Return the median seconds of one call when nothing is due, with the messages that an agent adds from call to call.

    Args:
        history: More than `size` messages.
        size: The least number of live messages at the first call, in the history's count; a peer may join several.
        usage: Whether each answer from there on has the provider's token counts.
    """
    messages = peer.convert(history)
    least = size * len(messages) // len(history)
    first = next(number for number, message in enumerate(messages) if number >= least and peer.is_answer(message))
    conversation = peer(UNLIMITED, instant)
    for message in messages[:first]:
        conversation.append(message, None)
    await conversation.view()
    times: list[float] = []
    with _freeze_objects():
        for number, message in enumerate(messages[first:], first):
            is_answer = peer.is_answer(message)
            if is_answer and number > first:
                start = process_time()
                await conversation.view()
                times.append(process_time() - start)
            if sum(times) > ROUND_SECONDS:
                break
            reported = Reported(TOKENS_PER_MESSAGE * number, TOKENS_PER_MESSAGE)
            conversation.append(message, reported if usage and is_answer else None)
    return median(times) - _clock_seconds()


@contextmanager
def _freeze_objects() -> Iterator[None]:
    """Exclude all earlier objects from garbage collection, like objects that a host has kept for long."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _clock_seconds() -> float:
    """Return the time of reading the clock, which is subtracted from a peer's times."""
    times = [process_time() for _ in range(1_000)]
    return median(later - earlier for earlier, later in pairwise(times))


class _Reader(Generic[M]):
    """Reader of a peer's messages in the provider's form, each read once."""

    def __init__(self, peer: type[BasePeer[M]]) -> None:
        self.counter = Counter()
        self._read: dict[int, tuple[M, Sequence[Chat]]] = {}
        self._chats = peer.chats

    def chats(self, messages: Iterable[M]) -> list[Chat]:
        return [chat for message in messages for chat in self._once(message)]

    def tokens(self, messages: Iterable[M]) -> int:
        return sum(map(self.counter.message_tokens, self.chats(messages)))

    def _once(self, message: M) -> Sequence[Chat]:
        known = self._read.get(id(message))
        if known is None:
            known = self._read[id(message)] = (message, self._chats(message))
        return known[1]
