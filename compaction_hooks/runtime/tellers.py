"""The host's functions that are asked for a compaction. Each is guarded: a failure adds no answer, and an event tells the error.

A lazy answer is read in the guard too: it may raise or hang as the function itself. Of controller and conversation both are asked;
the conversation is asked last, so that its text of a name wins.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, cast

from compaction_hooks.arguments import TOKENS, check
from compaction_hooks.events import CompactionEvent, HostCallFailed
from compaction_hooks.foreign import describe_error
from compaction_hooks.runtime.effects import AskHost, Failure, Flow, RunningCompaction, Success, T
from compaction_hooks.telling import Advice, AdviceFunction, Carried, CarryFunction, CarryRequest, CompactionPlan, Told
from compaction_hooks.text.escaping import remove_noise

VETO_CHARS: Final = 200
"""The most characters of a veto in events and in the log."""

MOST_CARRIED: Final = 1_000
"""The most texts that are read: an answer without end would take all memory, in a thread that no time limit ends."""


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
        return Tellers(
            self.carry if given.carry is None else given.carry,
            self.before_compact if given.before_compact is None else given.before_compact,
        )


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


def ask_advice(asking: Asking, plan: CompactionPlan) -> Flow[tuple[Advice, list[CompactionEvent]]]:
    """Return the advice of all functions, and an event for each one that failed: that one has none."""
    answers: list[Advice] = []
    failures: list[CompactionEvent] = []
    for function in [tellers.before_compact for tellers in asking.all_tellers if tellers.before_compact is not None]:
        answer = yield from asking.ask("before_compact", function, plan, _read_advice)
        if isinstance(answer, HostCallFailed):
            failures.append(answer)
        else:
            answers.append(answer)

    vetoes = [" ".join(remove_noise(each.veto).split())[:VETO_CHARS] for each in answers if each.veto]
    focuses = [remove_noise(each.focus) for each in answers if each.focus]
    facts = tuple(fact for each in answers for fact in each.facts)
    return Advice(veto="; ".join(vetoes) or None, focus=focuses[-1] if focuses else None, facts=facts), failures


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
        TypeError: it is no iterable of `Carried`, or one of these has no text in its fields.
        ValueError: there are too many, or a field has a value that is of no use.
    """
    if answer is None:
        return ()
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise TypeError(f"carry answered {type(answer).__name__}: return a list of Carried(name, text), or None")

    carried = tuple(islice(cast("Iterable[object]", answer), MOST_CARRIED + 1))
    if len(carried) > MOST_CARRIED:
        raise ValueError(f"carry answered more than {MOST_CARRIED:,} texts")
    for each in carried:
        _check_carried(each)
    return cast("Sequence[Carried]", carried)


def _read_advice(answer: object) -> Advice:
    """Return an answer of `before_compact`.

    Raises:
        TypeError: it is no `Advice`, or one of its fields has another type.
    """
    if answer is None:
        return Advice()
    if not isinstance(answer, Advice):
        raise TypeError(
            f"before_compact answered {type(answer).__name__}: return Advice(veto=..., focus=..., facts=[...]) or None"
        )

    texts: dict[str, object] = {"veto": answer.veto, "focus": answer.focus}
    for field, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"Advice.{field} is {type(value).__name__}, neither text nor None")
    facts: object = answer.facts
    if not isinstance(facts, list | tuple):
        raise TypeError(f"Advice.facts is {type(facts).__name__}: write a list of texts")
    for fact in cast("Sequence[object]", facts):
        if not isinstance(fact, str):
            raise TypeError(f"Advice.facts has {type(fact).__name__} in its list, not text")
    return replace(answer, facts=tuple(cast("Sequence[str]", facts)))


def _check_carried(each: object) -> None:
    if not isinstance(each, Carried):
        raise TypeError(f"carry answered {type(each).__name__} in its list: write Carried(name, text)")
    for field in ("name", "text"):
        value: object = getattr(each, field)
        if not isinstance(value, str):
            raise TypeError(f"Carried.{field} is {type(value).__name__}, not text")
        value.encode()  # halves of surrogate pairs are an error here: no provider accepts them
    if not each.name.strip():
        raise ValueError("Carried.name is empty")
    check({"Carried.max_tokens": TOKENS}, {"Carried.max_tokens": each.max_tokens}, ["Carried.max_tokens"])
