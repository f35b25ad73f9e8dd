"""A session whose every answer is held against what must always hold.

    checked = CheckedSession(controller.session("s1"), OpenAIChatFormat())
    view = checked.transform_context(messages)  # raises BrokenPromise where something does not hold

The tests, the soak and the rehearsal use it, and so may whoever writes a format, a store or a summariser.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, Generic, TypeVar, Unpack

from compaction_hooks import (
    CallOptions,
    CompactionController,
    CompactionFailed,
    CompactionFinished,
    CompactionOutcome,
    CompactionReason,
    CompactionRecord,
    CompactionResult,
    CompactionSession,
    CompactionSettings,
    CompactionSkipped,
    Message,
    MessageFormat,
    Usage,
    project,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.messages import M
from compaction_hooks.testing.asked import AskedSummaries
from compaction_hooks.testing.promises import BrokenPromise, check_view, demand
from compaction_hooks.testing.taken import Settled, Taken
from compaction_hooks.validity import RuleId, binds_reasoning, problems, provider_of

R = TypeVar("R")

GAIN: Final = 0.9
"""What a compaction leaves is at most this part of what was there, unless that did not fit the window."""
GROWTH: Final = 1.2
"""Two threshold compactions of one conversation are at least so far apart."""

MENDED: Final[frozenset[RuleId]] = frozenset(
    {"unanswered_call", "orphan_result", "duplicate_result", "detached_result", "split_step", "empty_content"}
)
"""What is never left in a view that is handed out repaired."""


@dataclass(slots=True)
class Figures:
    """What a checked session did. Sizes in tokens.

    Attributes:
        calls: Views that were handed out and checked.
        compactions: Compactions that were put in force.
        largest_view: The largest view that was handed out as one that fits.
        loud: Calls whose list could not be made to fit, and were told so.
        over_target: Compactions that left more than the target.
    """

    calls: int = 0
    compactions: int = 0
    largest_view: int = 0
    loud: int = 0
    over_target: int = 0


class CheckedSession(Generic[M]):
    """A session of a real controller. Each method does what the session's own does, and checks the outcome.

    Args:
        session: The session; it must be used through this object only.
        format: How its messages are written.
        size: Counts a list in tokens, independently of the session; None: the session's own count is believed.
        asked: The controller's summariser, where it is to be seen that nothing is paid for twice.
        known: Records that other workers have stored: what they paid for need not be paid for again.
        settings: The controller's.
        is_async: Whether the async methods are used, each in an event loop of its own.
        is_thorough: Whether each view is also made from copies of messages and records, and asked for a second time.
    """

    def __init__(
        self,
        session: CompactionSession[M],
        format: MessageFormat[M],
        *,
        size: Callable[[Sequence[M]], int] | None = None,
        asked: AskedSummaries | None = None,
        known: Callable[[], Sequence[CompactionRecord]] = list,
        settings: CompactionSettings | None = None,
        is_async: bool = False,
        is_thorough: bool = True,
    ) -> None:
        self.session = session
        self.figures = Figures()
        self.events: list[CompactionEvent] = []
        self._format = format
        self._size = size
        self._asked = asked
        self._known = known
        self._settings = settings or CompactionSettings()
        self._is_async = is_async
        self._is_thorough = is_thorough
        self._copies: dict[int, tuple[M, M]] = {}
        self._pinned: list[tuple[M, M, bool]] = []
        self._last: tuple[Taken[M], list[M], list[M]] | None = None
        self._settled: Settled[M] | None = None
        self._records_before: list[CompactionRecord] = []
        self._answers_before = 0
        self._in_force: str | None = None
        self._is_replaced = False
        self._is_stale = False
        self._is_stale_for_good = False
        self._shown: list[M] = []
        self._model: str | None = None
        self._is_undone = False

    # -- what a session does

    def transform_context(self, messages: list[M], **options: Unpack[CallOptions]) -> list[M]:
        """Return the list to send.

        Raises:
            BrokenPromise: something does not hold.
        """
        taken = self._take(messages)
        view = self._transform(messages, options)
        self._check_handed_out(taken, messages, view)
        is_failed = any(isinstance(event, CompactionFailed) for event in self.events)
        self._remember(taken, view)
        if self._is_thorough and not is_failed:
            self._check_again(messages, view, options)
        return view

    def compact(
        self,
        messages: list[M],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[M]:
        """Compact now.

        Raises:
            BrokenPromise: something does not hold.
            ContextOverflowError: the list does not fit the window and cannot be made to.
        """
        taken = self._take(messages)
        session, hearing = self.session, self._hearing(options)
        result = self._run(
            lambda: session.compact(messages, keep_recent_tokens, focus, **hearing),
            lambda: session.compact_sync(messages, keep_recent_tokens, focus, **hearing),
        )
        self._check_handed_out(taken, messages, result.messages)
        is_told = any(isinstance(event, CompactionFinished) for event in self.events)
        is_new = result.outcome is CompactionOutcome.COMPACTED
        demand(is_told == is_new, "deterministic", f"the outcome is {result.outcome}, and the events say otherwise")
        self._remember(taken, result.messages)
        return result

    def recover(self, error: BaseException, messages: list[M], **options: Unpack[CallOptions]) -> list[M]:
        """Return a smaller list after an overflow.

        Raises:
            BrokenPromise: something does not hold.
            BaseException: what the session raises: `error` itself, or a `ContextOverflowError`.
        """
        taken = self._take(messages)
        session, hearing = self.session, self._hearing(options)
        view = self._run(
            lambda: session.recover(error, messages, **hearing),
            lambda: session.recover_sync(error, messages, **hearing),
        )
        self._check_handed_out(taken, messages, view)
        self._remember(taken, view)
        return view

    def call(self, messages: list[M], send: Callable[[list[M]], R], **options: Unpack[CallOptions]) -> R:
        """Transform, then send; recover from an overflow.

        Raises:
            BrokenPromise: something does not hold of a list that was sent.
            BaseException: what the session raises.
        """
        taken = self._take(messages)
        sent: list[list[M]] = []

        def noting(view: list[M]) -> R:
            sent.append(view)
            return send(view)

        async def noting_async(view: list[M]) -> R:
            return noting(view)

        session, hearing = self.session, self._hearing(options)
        try:
            return self._run(
                lambda: session.call(messages, noting_async, **hearing),
                lambda: session.call_sync(messages, noting, **hearing),
            )
        finally:
            for view in sent:
                self._check_view(taken, messages, view)
            demand(len(sent) <= 2, "calm", f"the list was sent {len(sent)} times")
            if sent:
                self._shown = sent[-1]
                self._remember(taken, sent[-1])
            self._check_finished(taken)

    def undo(self) -> CompactionRecord | None:
        """Take back the newest compaction."""
        self._settled = self._last = None
        self._is_undone = True
        return self.session.undo()

    def pin(self, message: M) -> None:
        """Keep a message for good."""
        self.session.pin(message)
        self._pinned.append((message, copy.deepcopy(message), False))

    def report_usage(self, usage: Usage) -> None:
        """Tell what the provider counted for the view last handed out."""
        self.session.report_usage(usage)

    def changed_in_place(self, message: M) -> None:
        """Tell that the host has written into an old message.

        That is noticed when the next compaction is planned; of one that is covered already, where the list is read anew.
        """
        self._is_stale = True
        if self._shown and not any(message is held for held in self._shown):
            self._is_stale_for_good = True
        self._last = None

    def take_over(self, other: CheckedSession[M]) -> None:
        """Go on where another one stopped: the same conversation, after a restart."""
        self._settled, self.figures = other._settled, other.figures

    # -- before a call

    def _take(self, messages: Sequence[M]) -> Taken[M]:
        self.events.clear()
        copies: dict[int, tuple[M, M]] = {}
        for message in messages:
            held = self._copies.get(id(message))
            is_held = held is not None and held[0] is message and held[1] == message
            copies[id(message)] = held if held is not None and is_held else (message, copy.deepcopy(message))
        self._copies = copies
        self._records_before = [*self.records(), *self._known()]
        self._answers_before = len(self._asked.answered) if self._asked is not None else 0
        return Taken(list(messages), [copies[id(message)][1] for message in messages])

    def _hearing(self, options: CallOptions) -> CallOptions:
        others, self._model = options.get("on_event"), options.get("model")

        def on_event(event: CompactionEvent) -> None:
            self.events.append(event)
            if others is not None:
                others(event)

        return {**options, "on_event": on_event}

    def _transform(self, messages: list[M], options: CallOptions) -> list[M]:
        session, hearing = self.session, self._hearing(options)
        return self._run(
            lambda: session.transform_context(messages, **hearing),
            lambda: session.transform_context_sync(messages, **hearing),
        )

    def _run(self, in_a_loop: Callable[[], Coroutine[object, object, R]], without: Callable[[], R]) -> R:
        if not self._is_async:
            return without()
        import asyncio

        return asyncio.run(in_a_loop())

    # -- after a call

    def records(self) -> list[CompactionRecord]:
        """Return the records of the session's compactions; none before its store was read."""
        if not self.session.state().is_loaded:
            return []
        records = [CompactionRecord.from_dict(fields) for fields in self.session.export_records()]
        return [record for record in records if not record.is_note]

    def _finished(self) -> list[CompactionFinished]:
        return [event for event in self.events if isinstance(event, CompactionFinished)]

    def _is_loud(self) -> bool:
        """Whether the caller was told that what is handed out does not fit."""
        return any(
            event.is_over_window if isinstance(event, CompactionFailed) else event.why == "aborted"
            for event in self.events
            if isinstance(event, CompactionFailed | CompactionSkipped)
        )

    def _check_handed_out(self, taken: Taken[M], messages: Sequence[M], view: list[M]) -> None:
        self._note_in_force()
        self._shown = view
        self._check_view(taken, messages, view)
        self._check_fits(view)
        self._check_finished(taken)
        if not self._settings.repair:  # what is mended may move what stood before, and mends what was pinned
            self._check_pins(taken, view)
            self._check_prefix(taken, view)

    def _check_view(self, taken: Taken[M], messages: Sequence[M], view: list[M]) -> None:
        demand(taken.is_unchanged(messages), "host list unchanged", "the list or a message in it was changed")
        records = self.records()
        shown = view
        if self._settings.repair:
            shown = self._made_elsewhere(messages, repair=False)
            left = [
                problem for problem in problems(self._read(view), provider_of(self._format)) if problem.rule in MENDED
            ]
            demand(not left, "valid", f"repaired, and still {left[:3]}")
        elif not records and not (self._is_undone and binds_reasoning(self._model)):
            demand(view is messages, "same objects", "nothing was ever compacted, and another list comes back")
        if not self._is_stale:
            summaries = [record.rendered for record in records]
            check_view(taken.messages, shown, format=self._format, summaries=summaries, model=self._model)
        self.figures.calls += 1

    def _check_fits(self, view: list[M]) -> None:
        state = self.session.state()
        window, told = state.context_window, state.context_tokens or 0
        if self._is_loud():
            self.figures.loud += 1
            demand(not self._finished(), "fits", "what cannot be made to fit does not come back as it was")
            return
        counted = self._size(view) if self._size is not None else told
        if window is not None:
            demand(
                told <= window, "fits", f"{told} tokens by its own estimate in a window of {window}, and nobody is told"
            )
            demand(counted <= window, "fits", f"{counted} tokens in a window of {window}, and nobody is told")
        if self._settled is not None and told < self._settled.tokens_after:  # counted since, and found to be smaller
            self._settled = replace(self._settled, tokens_after=told)
        self.figures.largest_view = max(self.figures.largest_view, counted)

    def _check_finished(self, taken: Taken[M]) -> None:
        """Check the compactions of this call: how much smaller, how long after the last, with a summary of their own."""
        window = self.session.state().context_window
        if self._finished() and binds_reasoning(self._model):
            shown = self._read(self._shown)
            stale = [one for one in problems(shown, stale_until=len(shown)) if one.rule == "stale_reasoning"]
            demand(not stale, "valid", "reasoning from before the compaction is shown to a model that binds it")
        for event in self._finished():
            before, after = event.tokens_before, event.tokens_after
            is_rescue = window is not None and before > window
            demand(is_rescue or after <= before * GAIN, "smaller", f"{before} tokens before, {after} after")
            self._check_calm(taken, event, is_rescue=is_rescue)
            self._settled = Settled(taken, after, window)
            self._is_stale = self._is_stale_for_good
            self.figures.compactions += 1
            if window is not None:
                self.figures.over_target += after > self._settings.budget(window).target
        if self._asked is not None and len(self._asked.answered) > self._answers_before:
            known = [record for record in self._records_before if self._applies(record, taken.messages)]
            twice = self._asked.paid_twice(self._answers_before, known)
            demand(not twice, "summarised once", f"a summary that is known was made again: {twice[:1]!r:.300}")

    def _applies(self, record: CompactionRecord, messages: Sequence[M]) -> bool:
        view = project(messages, record, format=self._format)
        return any(one is not other for one, other in zip_longest(view, messages))

    def _check_calm(self, taken: Taken[M], event: CompactionFinished, *, is_rescue: bool) -> None:
        last = self._settled
        if last is None or is_rescue or event.reason is not CompactionReason.THRESHOLD:
            return
        if last.window != self.session.state().context_window or not last.taken.equals_beginning_of(taken.copies):
            return
        demand(
            event.tokens_before >= int(last.tokens_after * GROWTH),
            "calm",
            f"compacted at {event.tokens_before} tokens, when the last compaction had left {last.tokens_after}",
        )

    def _note_in_force(self) -> None:
        """Notice when another record took over without a compaction: an older one is true again, or one came from elsewhere."""
        ancestry = self.session.history()
        in_force = ancestry[-1].id if ancestry else None
        self._is_replaced, self._in_force = in_force != self._in_force and not self._finished(), in_force

    def _check_pins(self, taken: Taken[M], view: Sequence[M]) -> None:
        """What the host pinned and did not change since is shown, the very object: from this worker's next summary on."""
        shown = {id(message) for message in view}
        known = {(record.covered_digest, record.rendered) for record in self._records_before}
        made = {(event.record.covered_digest, event.record.rendered) for event in self._finished()}
        for number, (pinned, held, was_shown) in enumerate(self._pinned):
            if pinned == held and any(message is pinned for message in taken.messages):
                is_due = bool(made - known) if made else was_shown and not self._is_replaced
                demand(
                    not is_due or id(pinned) in shown, "pins", f"a pinned message is not in the view: {pinned!r:.200}"
                )
                self._pinned[number] = (pinned, held, id(pinned) in shown)

    def _check_prefix(self, taken: Taken[M], view: list[M]) -> None:
        """Between two compactions what was sent stays: the list only grew, and so did the view."""
        if self._last is None or self._finished() or self._is_replaced or self._is_loud():
            return
        earlier, last_view, copies = self._last
        if earlier.is_beginning_of(taken.messages) and len(last_view) <= len(view):
            is_same = all(one == held for one, held in zip(view, copies, strict=False))
            demand(is_same or self._lost_favour(view, copies), "stable prefix", _difference(view, copies))

    def _lost_favour(self, view: Sequence[M], copies: Sequence[M]) -> bool:
        """Whether one message alone is gone or changed: what was shown, or shown in full, only while it was the current request."""
        at = next(n for n, (one, held) in enumerate(zip(view, copies, strict=False)) if one != held)
        pieces = self._format.read(copies[at])
        rest = copies[at + 1 :]
        is_user = any(piece.role == "user" for piece in pieces)
        return is_user and rest in (list(view[at : at + len(rest)]), list(view[at + 1 : at + 1 + len(rest)]))

    def _remember(self, taken: Taken[M], view: list[M]) -> None:
        is_loud = self._is_loud()
        self._last = None if is_loud else (taken, list(view), copy.deepcopy(view))

    # -- once more, and elsewhere

    def _check_again(self, messages: list[M], view: list[M], options: CallOptions) -> None:
        self.events.clear()
        again = self._transform(messages, options)
        demand(not self._finished(), "idempotent", "the same list again is compacted again")
        is_same = len(again) == len(view) and all(one == other for one, other in zip(again, view, strict=True))
        demand(is_same, "deterministic", "the same list again gives another view")
        self._check_elsewhere(messages, view)

    def _check_elsewhere(self, messages: list[M], view: list[M]) -> None:
        """Check that the records and equal messages give the same view in a session that has seen nothing."""
        # Another process does not know when a compaction was undone: what it shows of reasoning is refused once.
        if self._is_stale or (self._is_undone and binds_reasoning(self._model)):
            return
        records = self.session.export_records()
        given_lists = [(copy.deepcopy(messages), "equal messages")]
        # A summary's text tells what it stands for, unless two histories were given the very same words.
        told = {(record["rendered"], record["covered_digest"]) for record in records}
        if len({text for text, _ in told}) == len(told):
            given_lists.append((copy.deepcopy(view), "the view itself"))
        for given, name in given_lists:
            made = self._made_elsewhere(given, repair=self._settings.repair)
            demand(
                made == list(view), "deterministic", f"{name} give another view elsewhere: {_difference(made, view)}"
            )

    def _made_elsewhere(self, messages: Sequence[M], *, repair: bool) -> list[M]:
        """The view that a process makes of a list which has nothing but the records."""
        elsewhere = CompactionController(
            format=self._format,
            context_window=1_000_000_000,
            settings=CompactionSettings(auto_compact=False, repair=repair),
        ).session("elsewhere")
        elsewhere.import_records(self.session.export_records())
        return list(elsewhere.transform_context_sync(list(messages), model=self._model))

    def _read(self, messages: Sequence[M]) -> list[Message]:
        return [piece for message in messages for piece in self._format.read(message)]


def _difference(made: Sequence[object], wanted: Sequence[object]) -> str:
    at = next((n for n, (one, other) in enumerate(zip_longest(made, wanted)) if one != other), 0)
    one, other = (repr(several[at])[:200] if at < len(several) else "nothing" for several in (made, wanted))
    return f"message {at} is {one} instead of {other}"


__all__ = ["GAIN", "GROWTH", "BrokenPromise", "CheckedSession", "Figures"]
