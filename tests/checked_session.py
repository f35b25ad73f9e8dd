"""A session that checks every view against the promises of this library.

    checked = CheckedSession(controller.session("s1"), OpenAIChatFormat())
    view = checked.transform_context(messages)  # raises BrokenPromise if a promise is broken

It plays all calls twice, on copies and in another process, and counts what a summary costs.
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
from compaction_hooks.history.history import has_atoms
from compaction_hooks.messages import M, as_format
from compaction_hooks.recall import loss_of
from compaction_hooks.testing.promises import check_view, demand, is_native
from compaction_hooks.validity import RuleId, binds_reasoning, is_reasoning, problems, provider_of
from tests.list_copies import LastCompaction, ListCopy, find_difference
from tests.loss_check import check_loss
from tests.paid_summaries import AskedSummaries

R = TypeVar("R")

GAIN: Final = 0.9
"""A compaction leaves at most this share of the tokens before it, unless those did not fit the window."""
GROWTH: Final = 1.2
"""Between two threshold compactions, a conversation grows at least by this factor."""

REPAIRED: Final[frozenset[RuleId]] = frozenset(
    {"unanswered_call", "orphan_result", "duplicate_result", "detached_result", "split_step", "empty_content"}
)
"""Rules that a repaired view never breaks."""


@dataclass(slots=True)
class Figures:
    """Counts of a checked session. Sizes in tokens.

    Attributes:
        calls: Views that were returned and checked.
        compactions: Compactions that became active.
        largest_view: Size of the largest view that was said to fit.
        loud: Calls with an event that says that the list could not be made to fit.
    """

    calls: int = 0
    compactions: int = 0
    largest_view: int = 0
    loud: int = 0


class CheckedSession(Generic[M]):
    """A session of a real controller. Each method calls the session's method of the same name, and checks the outcome.

    Args:
        session: The session; use it only through this object.
        format: The format of its messages.
        apart: The same for a list to store, in which the user may speak twice in a row; None: `format`.
        size: Counts a list in tokens, independently of the session; None: the session's own count is used.
        asked: The controller's summarizer, to check that no summary is paid for twice.
        known: Returns records stored by other workers, whose summaries need not be paid for again.
        settings: The controller's.
        is_async: Whether to use the async methods, each in an event loop of its own.
        is_thorough: Whether to ask for each view twice, and to compute it from copies of messages and records too.
    """

    def __init__(
        self,
        session: CompactionSession[M],
        format: MessageFormat[M],
        *,
        apart: MessageFormat[M] | None = None,
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
        self._format, self._apart_format = format, apart or format
        self._size = size
        self._asked = asked
        self._known = known
        self._settings = settings or CompactionSettings()
        self._is_async = is_async
        self._is_thorough = is_thorough
        self._copies: dict[int, tuple[M, M]] = {}
        self._pinned: list[tuple[M, M, bool]] = []
        self._last: tuple[ListCopy[M], list[M], list[M]] | None = None
        self._last_compaction: LastCompaction[M] | None = None
        self._records_before: list[CompactionRecord] = []
        self._answers_before = 0
        self._active_id: str | None = None
        self._is_other_record = False
        self._is_stale = False
        self._is_stale_forever = False
        self._last_sent: list[M] = []
        self._model: str | None = None
        self._is_undone = False

    # -- the methods of a session

    def transform_context(self, messages: list[M], **options: Unpack[CallOptions]) -> list[M]:
        """Return the list to send."""
        original = self._start_call(messages)
        view = self._transform(messages, options)
        apart = self._apart(view)
        self._check_returned(original, messages, apart)
        is_failed = any(isinstance(event, CompactionFailed) for event in self.events)
        self._remember(original, apart)
        if self._is_thorough and not is_failed:
            self._check_again(messages, apart, options)
        return view

    def compact(
        self,
        messages: list[M],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[M]:
        """Compact now."""
        original = self._start_call(messages)
        session, options = self.session, self._with_handler(options)
        result = self._run(
            lambda: session.compact(messages, keep_recent_tokens, focus, **options),
            lambda: session.compact_sync(messages, keep_recent_tokens, focus, **options),
        )
        self._check_returned(original, messages, result.messages)
        is_told = any(isinstance(event, CompactionFinished) for event in self.events)
        is_new = result.outcome is CompactionOutcome.COMPACTED
        demand(is_told == is_new, "deterministic", f"the outcome is {result.outcome}, but the events differ")
        self._remember(original, result.messages)
        return result

    def recover(self, error: BaseException, messages: list[M], **options: Unpack[CallOptions]) -> list[M]:
        """Return a smaller list after an overflow."""
        original = self._start_call(messages)
        session, options = self.session, self._with_handler(options)
        view = self._run(
            lambda: session.recover(error, messages, **options),
            lambda: session.recover_sync(error, messages, **options),
        )
        apart = self._apart(view)
        self._check_returned(original, messages, apart)
        self._remember(original, apart)
        return view

    def call(self, messages: list[M], send: Callable[[list[M]], R], **options: Unpack[CallOptions]) -> R:
        """Transform, then send; recover from an overflow."""
        original = self._start_call(messages)
        sent: list[list[M]] = []

        def send_noted(view: list[M]) -> R:
            sent.append(self._apart(view))
            return send(view)

        async def send_noted_async(view: list[M]) -> R:
            return send_noted(view)

        session, options = self.session, self._with_handler(options)
        try:
            return self._run(
                lambda: session.call(messages, send_noted_async, **options),
                lambda: session.call_sync(messages, send_noted, **options),
            )
        finally:
            for view in sent:
                self._check_view(original, messages, view)
            demand(len(sent) <= 2, "calm", f"the list was sent {len(sent)} times")
            if sent:
                self._last_sent = sent[-1]
                self._remember(original, sent[-1])
            self._check_compactions(original)

    def undo(self) -> CompactionRecord | None:
        """Undo the newest compaction."""
        self._last_compaction = self._last = None
        self._is_undone = True
        return self.session.undo()

    def pin(self, message: M) -> None:
        """Pin a message; one without content, such as reasoning alone, has no name, so no view has to keep it."""
        self.session.pin(message)
        if any(map(has_atoms, self._format.read(message))):
            self._pinned.append((message, copy.deepcopy(message), False))

    def report_usage(self, usage: Usage) -> None:
        """Report the provider's token counts for the last view."""
        self.session.report_usage(usage)

    def changed_in_place(self, message: M) -> None:
        """Announce that the host has changed an old message in place.

        The session detects it when it plans the next compaction, or for a summarized message when it reads the list again.
        """
        self._is_stale = True
        if self._last_sent and not any(message is held for held in self._last_sent):
            self._is_stale_forever = True
        self._last = None

    def take_over(self, other: CheckedSession[M]) -> None:
        """Continue the conversation of another checked session, after a restart."""
        self._last_compaction, self.figures = other._last_compaction, other.figures

    # -- before a call

    def _start_call(self, messages: Sequence[M]) -> ListCopy[M]:
        self.events.clear()
        copies: dict[int, tuple[M, M]] = {}
        for message in messages:
            held = self._copies.get(id(message))
            is_held = held is not None and held[0] is message and held[1] == message
            copies[id(message)] = held if held is not None and is_held else (message, copy.deepcopy(message))
        self._copies = copies
        self._records_before = [*self.records(), *self._known()]
        self._answers_before = len(self._asked.answered) if self._asked is not None else 0
        return ListCopy(list(messages), [copies[id(message)][1] for message in messages])

    def _with_handler(self, options: CallOptions) -> CallOptions:
        others, self._model = options.get("on_event"), options.get("model")

        def on_event(event: CompactionEvent) -> None:
            self.events.append(event)
            if others is not None:
                others(event)

        return {**options, "on_event": on_event}

    def _transform(self, messages: list[M], options: CallOptions) -> list[M]:
        session, options = self.session, self._with_handler(options)
        return self._run(
            lambda: session.transform_context(messages, **options),
            lambda: session.transform_context_sync(messages, **options),
        )

    def _run(self, in_a_loop: Callable[[], Coroutine[object, object, R]], without: Callable[[], R]) -> R:
        if not self._is_async:
            return without()
        import asyncio

        return asyncio.run(in_a_loop())

    def _apart(self, view: list[M]) -> list[M]:
        """Return the view last handed out with its user messages apart: the promises are about messages of the host."""
        record = self.session.record
        if record is not None and record.native:
            return view
        apart = self.session.to_store(view)
        is_same = apart is view or as_format(self._format).merge(apart) == view
        demand(is_same, "valid", "the view is not the list to store with its messages joined")
        return apart

    # -- after a call

    def records(self) -> list[CompactionRecord]:
        """Return the records of the session's compactions; none before its store was read."""
        if not self.session.state().is_loaded:
            return []
        records = [CompactionRecord.from_dict(fields) for fields in self.session.export_records()]
        return [record for record in records if not record.is_note]

    def _compactions(self) -> list[CompactionFinished]:
        return [event for event in self.events if isinstance(event, CompactionFinished)]

    def _is_overflow_reported(self) -> bool:
        """Whether an event told the caller that the view does not fit."""
        return any(
            event.is_over_window if isinstance(event, CompactionFailed) else event.why == "aborted"
            for event in self.events
            if isinstance(event, CompactionFailed | CompactionSkipped)
        )

    def _check_returned(self, original: ListCopy[M], messages: Sequence[M], view: list[M]) -> None:
        self._update_active()
        self._last_sent = view
        self._check_view(original, messages, view)
        self._check_fits(view)
        self._check_compactions(original)
        if not self._settings.repair:  # a repair may change earlier messages and pins
            self._check_pins(original, view)
            if not self._has_natives(messages):  # a new one, or another model, begins another view
                self._check_prefix(original, view)

    def _check_view(self, original: ListCopy[M], messages: Sequence[M], view: list[M]) -> None:
        demand(original.is_unchanged(messages), "host list unchanged", "the list or a message in it was changed")
        records = self.records()
        shown = view
        if self._settings.repair:
            shown = self._view_elsewhere(messages, repair=False)
            left = [
                problem for problem in problems(self._read(view), provider_of(self._format)) if problem.rule in REPAIRED
            ]
            demand(not left, "valid", f"repaired, and still {left[:3]}")
        elif (
            not records
            and not self._settings.max_result_tokens
            and not (self._is_undone and binds_reasoning(self._model))
            and not self._has_natives(messages)
        ):
            demand(view is messages, "same objects", "nothing was ever compacted, but another list comes back")
        if not self._is_stale:
            summaries = [record.rendered for record in records]
            check_view(original.messages, shown, format=self._apart_format, summaries=summaries, model=self._model)
        self.figures.calls += 1

    def _has_natives(self, messages: Sequence[M]) -> bool:
        return any(is_native(message, self._format) for message in messages)

    def _check_fits(self, view: list[M]) -> None:
        state = self.session.state()
        window, told = state.context_window, state.context_tokens or 0
        if self._is_overflow_reported():
            self.figures.loud += 1
            demand(not self._compactions(), "fits", "a list that cannot be made to fit was compacted")
            return
        counted = self._size(view) if self._size is not None else told
        if window is not None:
            demand(
                told <= window, "fits", f"{told} tokens by its own estimate in a window of {window}, without an event"
            )
            demand(counted <= window, "fits", f"{counted} tokens in a window of {window}, without an event")
        if (
            self._last_compaction is not None and told < self._last_compaction.tokens_after
        ):  # a baseline since then was smaller
            self._last_compaction = replace(self._last_compaction, tokens_after=told)
        self.figures.largest_view = max(self.figures.largest_view, counted)

    def _check_compactions(self, original: ListCopy[M]) -> None:
        """Check the compactions of this call: smaller views, enough growth since the last one, new summaries."""
        window = self.session.state().context_window
        if self._compactions() and binds_reasoning(self._model):
            pairs = zip(self._last_sent, original.messages, strict=False)
            first = next((place for place, (sent, own) in enumerate(pairs) if sent is not own), len(original.messages))
            behind = self._read(self._last_sent[first:])
            stale = any(is_reasoning(part) for piece in behind for part in piece.parts)
            demand(not stale, "valid", "reasoning from before the compaction is shown to a model that binds it")
        for event in self._compactions():
            before, after = event.tokens_before, event.tokens_after
            is_rescue = window is not None and before > window
            demand(is_rescue or after <= before * GAIN, "smaller", f"{before} tokens before, {after} after")
            self._check_calm(original, event, is_rescue=is_rescue)
            self._last_compaction = LastCompaction(original, after, window)
            self._is_stale = self._is_stale_forever
            self.figures.compactions += 1
        if self._compactions():
            self._check_loss(original.messages, self._compactions()[-1])
        if self._asked is not None and len(self._asked.answered) > self._answers_before:
            known = [record for record in self._records_before if self._applies(record, original.messages)]
            twice = self._asked.find_repeated(self._answers_before, known)
            demand(not twice, "summarized once", f"a summary that is known was made again: {twice[:1]!r:.300}")

    def _check_loss(self, messages: Sequence[M], event: CompactionFinished) -> None:
        """Check the loss figures of a compaction, if its list and views can still be made."""
        record = event.record
        is_others = any(record.id == known.id for known in self._records_before)
        is_changed = self._is_stale or self._settings.repair or self._settings.merge_user_messages
        records = sorted(self.records(), key=lambda known: known.id == record.id)
        is_gone = not any(record.id == known.id for known in records)
        if is_others or is_changed or is_gone or record.native or self._has_natives(messages):
            return
        demand(records[-1] == record, "loss", "the event's record is another than the session's")
        form = self._apart_format
        loss = loss_of(messages, record, format=form)
        view = project(messages, record, format=form)
        check_loss(loss, messages, view, records, self.session.covered(messages), format=form)

    def _applies(self, record: CompactionRecord, messages: Sequence[M]) -> bool:
        view = project(messages, record, format=self._format)
        return any(one is not other for one, other in zip_longest(view, messages))

    def _check_calm(self, original: ListCopy[M], event: CompactionFinished, *, is_rescue: bool) -> None:
        last = self._last_compaction
        if last is None or is_rescue or event.reason is not CompactionReason.THRESHOLD:
            return
        if last.window != self.session.state().context_window or not last.original.equals_beginning_of(original.copies):
            return
        demand(
            event.tokens_before >= int(last.tokens_after * GROWTH),
            "calm",
            f"compacted at {event.tokens_before} tokens, when the last compaction had left {last.tokens_after}",
        )

    def _update_active(self) -> None:
        """Note whether another record became active without a compaction: an older one, or one of another worker."""
        ancestry = self.session.history()
        in_force = ancestry[-1].id if ancestry else None
        self._is_other_record, self._active_id = in_force != self._active_id and not self._compactions(), in_force

    def _check_pins(self, original: ListCopy[M], view: Sequence[M]) -> None:
        """Check that unchanged pins are in the view as the same objects, from this worker's next summary on."""
        shown = {id(message) for message in view}
        known = {(record.covered_digest, record.summary) for record in self._records_before}
        made = {(event.record.covered_digest, event.record.summary) for event in self._compactions()}
        for number, (pinned, held, was_shown) in enumerate(self._pinned):
            if pinned == held and any(message is pinned for message in original.messages):
                is_due = bool(made - known) if made else was_shown and not self._is_other_record
                demand(
                    not is_due or id(pinned) in shown, "pins", f"a pinned message is not in the view: {pinned!r:.200}"
                )
                self._pinned[number] = (pinned, held, id(pinned) in shown)

    def _check_prefix(self, original: ListCopy[M], view: list[M]) -> None:
        """Check that the view only grows between two compactions, as long as the list only grows."""
        if self._last is None or self._compactions() or self._is_other_record or self._is_overflow_reported():
            return
        earlier, last_view, copies = self._last
        if earlier.is_beginning_of(original.messages) and len(last_view) <= len(view):
            is_same = all(one == held for one, held in zip(view, copies, strict=False))
            demand(is_same or self._was_pinned_as_request(view, copies), "stable prefix", find_difference(view, copies))

    def _was_pinned_as_request(self, view: Sequence[M], copies: Sequence[M]) -> bool:
        """Whether a single user message is missing or changed, which was kept in full only as the current request."""
        at = next(n for n, (one, held) in enumerate(zip(view, copies, strict=False)) if one != held)
        pieces = self._format.read(copies[at])
        rest = copies[at + 1 :]
        is_user = any(piece.role == "user" for piece in pieces)
        return is_user and rest in (list(view[at : at + len(rest)]), list(view[at + 1 : at + 1 + len(rest)]))

    def _remember(self, original: ListCopy[M], view: list[M]) -> None:
        is_overflow_reported = self._is_overflow_reported()
        self._last = None if is_overflow_reported else (original, list(view), copy.deepcopy(view))

    # -- repeated, and in another process

    def _check_again(self, messages: list[M], view: list[M], options: CallOptions) -> None:
        self.events.clear()
        again = self._apart(self._transform(messages, options))
        demand(not self._compactions(), "idempotent", "the same list is compacted a second time")
        is_same = len(again) == len(view) and all(one == other for one, other in zip(again, view, strict=True))
        demand(is_same, "deterministic", "the same list gives another view the second time")
        self._check_elsewhere(messages, view)

    def _check_elsewhere(self, messages: list[M], view: list[M]) -> None:
        """Check that the records and equal messages give the same view in a new session."""
        # Another process does not know when a compaction was undone: the provider refuses its reasoning once.
        if self._is_stale or (self._is_undone and binds_reasoning(self._model)):
            return
        records = self.session.export_records()
        given_lists = [(copy.deepcopy(messages), "equal messages")]
        # The text of a summary identifies its record, unless two records have the same text.
        told = {(record["rendered"], record["covered_digest"]) for record in records}
        if len({text for text, _ in told}) == len(told):
            given_lists.append((copy.deepcopy(view), "the view itself"))
        for given, name in given_lists:
            made = self._view_elsewhere(given, repair=self._settings.repair)
            difference = find_difference(made, view)
            demand(made == list(view), "deterministic", f"{name} give another view elsewhere: {difference}")

    def _view_elsewhere(self, messages: Sequence[M], *, repair: bool) -> list[M]:
        """Return the view, with its user messages apart, in a process that has only the list and the records."""
        longest = self._settings.max_result_tokens
        elsewhere = CompactionController(
            format=self._format,
            context_window=1_000_000_000,
            settings=CompactionSettings(
                auto_compact=False, repair=repair, max_result_tokens=longest, tool_rules=self._settings.tool_rules
            ),
        ).session("elsewhere")
        elsewhere.import_records(self.session.export_records())
        return elsewhere.to_store(elsewhere.transform_context_sync(list(messages), model=self._model))

    def _read(self, messages: Sequence[M]) -> list[Message]:
        return [piece for message in messages for piece in self._format.read(message)]
