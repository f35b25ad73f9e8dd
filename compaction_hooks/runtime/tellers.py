"""The host's functions that are asked for a compaction. Each is guarded: a failure adds no answer, and an event tells the error.

A lazy answer is read in the guard too: it may raise or hang as the function itself. Of controller and conversation both are asked;
the conversation is asked last, so that its text of a name wins.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, cast

from compaction_hooks.events import CompactionEvent, HostCallFailed
from compaction_hooks.foreign import describe_error
from compaction_hooks.runtime.effects import AskHost, Failure, Flow, RunningCompaction, Success, T
from compaction_hooks.telling import AdviceFunction, Carried, CarryFunction, CarryRequest, Told


class Tellers(NamedTuple):
    """The functions of a controller, or of one conversation; None: the host has no such function.

    Attributes:
        carry: Returns the texts that come back.
        before_compact: Advises before a compaction.
    """

    carry: CarryFunction | None = None
    before_compact: AdviceFunction | None = None

    def with_given(self, given: Tellers) -> Tellers:
        """Return these functions, with those that are given in their place."""
        return Tellers(given.carry or self.carry, given.before_compact or self.before_compact)


class Asking(NamedTuple):
    """What every question of one compaction has.

    Attributes:
        all_tellers: The functions of the controller, then those of the conversation.
        seconds: After this a function counts as failed.
        running: The compaction that asks: a call into the session from within waits for nothing.
    """

    session_id: str
    all_tellers: Sequence[Tellers]
    seconds: float
    running: RunningCompaction | None

    def ask(
        self,
        which: Literal["carry", "before_compact"],
        function: Callable[[Any], object],
        request: object,
        read: Callable[[object], T],
    ) -> Flow[T | HostCallFailed]:
        """Ask one function; return its answer as read, or the event of its failure."""
        asked = AskHost(_with_answer_read(function, read), request, self.seconds, self.running)
        answer: Success | Failure = yield asked
        if isinstance(answer, Failure):
            return HostCallFailed(session_id=self.session_id, which=which, error=describe_error(answer.error))
        return cast("T", answer.value)


def ask_carry(asking: Asking, request: CarryRequest) -> Flow[tuple[Told, list[CompactionEvent]]]:
    """Return the texts that come back, and an event for each function that failed: then the last texts stay."""
    carried: dict[str, Carried] = {}
    failures: list[CompactionEvent] = []
    functions = [tellers.carry for tellers in asking.all_tellers if tellers.carry is not None]
    for function in functions:
        answer = yield from asking.ask("carry", function, request, _read_carried)
        if isinstance(answer, HostCallFailed):
            failures.append(answer)
        else:
            carried |= {each.name: each for each in answer}
    return Told(tuple(carried.values()), keeps_last=not functions or bool(failures)), failures


def _with_answer_read(function: Callable[[Any], object], read: Callable[[object], T]) -> Callable[[Any], object]:
    async def read_later(answer: Awaitable[object]) -> T:
        return read(await answer)

    def ask(request: object) -> object:
        answer = function(request)
        return read_later(answer) if inspect.isawaitable(answer) else read(answer)

    return ask


def _read_carried(answer: object) -> Sequence[Carried]:
    """Return the texts in an answer of `carry`.

    Raises:
        TypeError: it is no iterable of `Carried`.
    """
    if answer is None:
        return ()
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise TypeError(f"carry answered {type(answer).__name__}: return a list of Carried(name, text), or None")

    carried = tuple(cast("Iterable[object]", answer))
    for each in carried:
        if not isinstance(each, Carried):
            raise TypeError(f"carry answered {type(each).__name__} in its list: write Carried(name, text)")
        for field in ("name", "text"):
            value: object = getattr(each, field)
            if not isinstance(value, str):
                raise TypeError(f"Carried.{field} is {type(value).__name__}, not text")
    return cast("Sequence[Carried]", carried)
