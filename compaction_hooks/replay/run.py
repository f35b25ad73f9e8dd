"""Replay of a recorded session, call by call, through a real controller."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from compaction_hooks import (
    CompactionController,
    CompactionFailed,
    CompactionFinished,
    CompactionSession,
    CompactionSettings,
    CompactionSkipped,
    CompactionStarted,
    ContextOverflowError,
    ExtractiveSummarizer,
    Message,
    MessageFormat,
    Summarizer,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.events import CompactionEvent, ContextPressure, HostCallFailed, PinMissing, StoreFailed
from compaction_hooks.replay.bills import ESTIMATOR
from compaction_hooks.replay.costs import Costs
from compaction_hooks.replay.needs import Needs, find_constraints, plain, text_of
from compaction_hooks.replay.probes import Haystack
from compaction_hooks.replay.recorded import Fields, RecordedSession
from compaction_hooks.replay.replayed import (
    CompactionDetails,
    FailedSummary,
    Replay,
    ReplayedCall,
    ReplayedCompaction,
    ReplayedProbe,
    UnfitCall,
)


def replay(
    session: RecordedSession,
    *,
    window: int,
    settings: CompactionSettings | None = None,
    summarizer: Summarizer | None = None,
    uses_recorded_usage: bool = False,
    details: bool = False,
    on_call: Callable[[], None] | None = None,
) -> Replay:
    """Return the calls and compactions of a controller that keeps this session inside a context window.

    Every answer of the model is one call, and its request is all messages before it. An answer with nothing before it is no call.

    Args:
        window: The context window, in tokens; `window_of` returns that of the recorded model.
        settings: The policy; None: the defaults.
        summarizer: None: the one that needs no model.
        uses_recorded_usage: Whether recorded token counts are reported to the controller until the first compaction; later
            counts are of lists that are no longer sent. They may include parts that are not recorded, such as a hidden system
            prompt.
        details: Whether each compaction gets `details`. The controller's log is read for them, so no other conversation may be
            compacted meanwhile in this process.
        on_call: Called after each call, for a progress bar.

    Raises:
        ContextOverflowError: the system prompt and tools alone are larger than the window.
        ConfigurationError: `window` is not above zero.
    """
    run = _Run(session, window, settings or CompactionSettings(), summarizer, uses_recorded_usage)
    run.check_prefix()
    with _read_log() if details else nullcontext() as reasons:
        for index in call_indexes(session):
            run.call(index, reasons)
            if on_call is not None:
                on_call()
    return run.finish()


@contextmanager
def _read_log() -> Generator[list[str]]:
    """Collect the lines of the controller's log in a list, without those of events, and show them nowhere else."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.addFilter(lambda record: record.msg != "%s")  # an event, which has the id of its session and a time
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]

    logger = logging.getLogger("compaction_hooks")
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
        logger.setLevel(level)


def call_indexes(session: RecordedSession) -> list[int]:
    """Return the indexes of the answers with something before them."""
    has_system = session.system is not None
    return [
        index
        for index, message in enumerate(session.messages)
        if (index or has_system) and any(piece.role == "assistant" for piece in session.format.read(message))
    ]


class _Run:
    """A session played to two controllers: one compacts, the other only measures."""

    def __init__(
        self,
        session: RecordedSession,
        window: int,
        settings: CompactionSettings,
        summarizer: Summarizer | None,
        uses_recorded_usage: bool,
    ) -> None:
        self._session = session
        self._window = window
        self._settings = settings
        self._events: list[CompactionEvent] = []

        format = _WithoutUsage(session.format)
        compacting = CompactionController(
            context_window=window,
            settings=settings,
            summarizer=summarizer or _PricedSummarizer(),
            format=format,
            on_event=self._events.append,
        )
        measuring = CompactionController(
            context_window=window, settings=replace(settings, auto_compact=False), format=format
        )
        self._compacting = compacting.session(session.id)
        self._measuring = measuring.session(session.id)
        self._prefix = measuring.session(f"{session.id}, system messages alone")

        self._usage = {
            call.index: call.usage for call in session.calls if uses_recorded_usage and not call.context_start
        }
        self._used_usage = False

        self._pieces = [tuple(format.read(message)) for message in session.messages]
        self._systems = {n for n, pieces in enumerate(self._pieces) if all(piece.role == "system" for piece in pieces)}
        self._texts: list[str] = []
        self._constraints: list[tuple[str, ...]] = []
        self._costs = Costs(session, self._pieces)

        self._calls: list[ReplayedCall] = []
        self._compactions: list[ReplayedCompaction] = []
        self._unfit: list[UnfitCall] = []
        self._failed: list[FailedSummary] = []
        self._put_off: Counter[str] = Counter()
        self._needs: Needs | None = None
        self._changed: list[set[int]] = []
        """For the details of each compaction, the messages that its view leaves out or changes."""
        self._view: list[Fields] = []
        self._seen = 0

    def check_prefix(self) -> None:
        """Check that system messages, system prompt and tools leave room in the window.

        Raises:
            ContextOverflowError: they do not.
        """
        systems = [self._session.messages[index] for index in sorted(self._systems)]
        self._transform(self._prefix, systems)
        tokens = self._prefix.state().context_tokens or 0

        if tokens >= self._window:
            part = "system prompt and tools take" if self._session.tools else "system prompt takes"
            raise ContextOverflowError(
                f"the {part} about {tokens:,} of {self._window:,} tokens",
                tokens=tokens,
                window=self._window,
                part="system prompt",
            )

    def call(self, index: int, reasons: list[str] | None) -> None:
        """Replay the call that produced one message.

        Args:
            reasons: Gets the lines of the controller's log, if there shall be details.
        """
        host = list(self._session.messages[:index])
        number = len(self._calls) + 1

        self._events.clear()
        if reasons is not None:
            reasons.clear()
        view = self._transform(self._compacting, host)
        why = None if reasons is None else tuple(reasons)

        self._transform(self._measuring, host)
        call = ReplayedCall(
            number=number,
            index=index,
            tokens_without=self._measuring.state().context_tokens or 0,
            tokens_sent=self._compacting.state().context_tokens or 0,
        )
        self._calls.append(call)

        self._read_texts(index)
        self._add_events(number, host, view, why)
        if self._needs is not None:
            self._needs.add_step("\n".join(self._texts[self._seen : index]), self._texts[index])
        self._costs.add_call(index, view, fits=call.tokens_sent <= self._window)

        self._view, self._seen = view, index
        self._report_usage(host, view, index)

    def _read_texts(self, index: int) -> None:
        """Read the texts and constraints of the messages up to an answer, the answer included."""
        for pieces in self._pieces[len(self._texts) : index + 1]:
            self._texts.append(text_of(pieces))
            found = (text for piece in pieces for text in find_constraints(piece))
            self._constraints.append(tuple(text for text in found if not text.endswith("?")))

    def _transform(self, conversation: CompactionSession[Fields], host: list[Fields]) -> list[Fields]:
        return conversation.transform_context_sync(host, system=self._session.system, tools=self._session.tools)

    def _report_usage(self, host: list[Fields], view: list[Fields], index: int) -> None:
        usage = self._usage.get(index)
        if usage is not None and view is host:
            self._used_usage = True
            self._compacting.report_usage(usage)
            self._measuring.report_usage(usage)

    # -- events

    def _add_events(self, number: int, host: list[Fields], view: list[Fields], reasons: tuple[str, ...] | None) -> None:
        for event in self._events:
            match event:
                case CompactionFinished():
                    self._close_needs()
                    self._costs.add_summary(event.usage)
                    self._compactions.append(self._describe(number, event, host, view, reasons))
                    if event.used_fallback:
                        self._failed.append(FailedSummary(call=number, error=event.fallback_reason))
                case CompactionFailed(is_over_window=True):
                    self._costs.add_summary(event.usage)
                    self._unfit.append(UnfitCall(call=number, tokens=event.tokens, error=event.error))
                case CompactionFailed():  # a view inside the window waits for a summary
                    self._costs.add_summary(event.usage)
                    self._failed.append(FailedSummary(call=number, error=event.error))
                case CompactionSkipped():
                    self._costs.add_summary(event.usage)
                    self._put_off[event.why.partition(":")[0]] += 1  # numbers may follow the colon
                case CompactionStarted() | ContextPressure() | StoreFailed() | PinMissing() | HostCallFailed():
                    pass

    def _describe(
        self,
        number: int,
        event: CompactionFinished,
        host: list[Fields],
        view: list[Fields],
        reasons: tuple[str, ...] | None,
    ) -> ReplayedCompaction:
        """Return what one compaction did, and begin to search the next calls for what it took away."""
        record = event.record
        covered = record.compacted_message_count
        in_view = {id(message) for message in view}
        own = [index for index in range(len(host)) if index not in self._systems]
        kept = [index for index in own if id(host[index]) in in_view]
        pinned = [index for index in kept if index < covered]
        cleared = sum(
            item.kind == "result" and not item.head_chars and not item.tail_chars for item in record.reductions
        )

        hosts = {id(message) for message in host}
        made = [text_of(self._session.format.read(message)) for message in view if id(message) not in hosts]
        summary = record.rendered
        is_hidden = {*own}.difference(kept).union(pinned)
        pins = [self._texts[index] for index in pinned]
        shown = [self._texts[index] for index in range(len(host)) if id(host[index]) in in_view]
        sent = [self._texts[index] for index in range(len(host)) if index not in is_hidden]
        sent += [text for text in made if text != summary]
        self._needs = Needs(
            hidden="\n".join(self._texts[index] for index in sorted(is_hidden)),
            kept="\n".join((summary, *pins)),
            sent="\n".join(sent),
        )
        self._seen = len(host)
        words = plain("\n".join((*shown, *made)))
        constraints = dict.fromkeys(text for each in self._constraints[:covered] for text in each)
        details = None
        if reasons is not None:
            self._changed.append({*own}.difference(kept))
            details = CompactionDetails(view=tuple(view), covered=(), reasons=reasons)  # see _add_covered
        return ReplayedCompaction(
            call=number,
            reason=event.reason,
            tokens_before=event.tokens_before,
            tokens_after=event.tokens_after,
            messages_before=event.messages_before,
            messages_after=event.messages_after,
            summarized_messages=covered,
            kept_messages=len(kept) - len(pinned),
            pinned_messages=len(pinned),
            cleared_results=cleared,
            shortened_parts=len(record.reductions) - cleared - event.left_out,
            summary=summary,
            read_files=record.read_files,
            modified_files=record.modified_files,
            used_fallback=event.used_fallback,
            constraints=tuple(constraints),
            lost_constraints=tuple(text for text in constraints if plain(text) not in words),
            details=details,
        )

    def _close_needs(self) -> None:
        if self._needs is not None:
            self._compactions[-1] = replace(self._compactions[-1], used_later=self._needs.figures())

    # -- the end

    def finish(self) -> Replay:
        """Return the whole replay."""
        self._close_needs()
        self._add_covered()
        budget = self._settings.budget(self._window)
        return Replay(
            session_id=self._session.id,
            window=self._window,
            trigger=budget.trigger,
            keep=budget.keep,
            calls=tuple(self._calls),
            compactions=tuple(self._compactions),
            unfit=tuple(self._unfit),
            put_off=dict(self._put_off),
            probes=tuple(self._check_probes()),
            used_recorded_usage=self._used_usage,
            costs=self._costs.figures(),
            hidden_tokens=self._costs.hidden_tokens,
            failed=tuple(self._failed),
        )

    def _add_covered(self) -> None:
        """Add the covered parts to the details: listed once, since each listing reads the whole list again."""
        if not self._changed:
            return
        parts = tuple(self._compacting.covered(self._session.messages[: self._calls[-1].index]))
        for number, (compaction, changed) in enumerate(zip(self._compactions, self._changed, strict=True)):
            assert compaction.details is not None
            covered = tuple(part for part in parts if part.message in changed)
            self._compactions[number] = replace(compaction, details=replace(compaction.details, covered=covered))

    def _check_probes(self) -> list[ReplayedProbe]:
        if not self._session.probes:
            return []

        read = self._session.format.read
        # Nothing is compacted after the last call, so the next call would begin from this list.
        last = [*self._view, *self._session.messages[self._seen :]]
        system = f"{self._session.system or ''}\n"
        kept = Haystack(system + text_of(piece for message in last for piece in read(message)))
        whole = Haystack(system + text_of(piece for pieces in self._pieces for piece in pieces))

        return [
            ReplayedProbe(
                kind=probe.kind,
                question=probe.question,
                is_kept=kept.holds(probe),
                is_in_session=whole.holds(probe),
            )
            for probe in self._session.probes
        ]


class _PricedSummarizer:
    """The default summarizer, with the tokens that a model would have read and written in its place."""

    def __init__(self) -> None:
        self._summarize = ExtractiveSummarizer()

    def __call__(self, request: SummaryRequest, /) -> Summary:
        asked = ESTIMATOR.estimate_tokens(request.system) + ESTIMATOR.estimate_tokens(request.prompt)
        summary = self._summarize(request)
        answered = ESTIMATOR.estimate_tokens(summary.text)
        return replace(summary, usage=Usage(input_tokens=asked, output_tokens=answered))


class _WithoutUsage:
    """A session's format without the usage in its messages, which is of the recorded requests, not of those sent now."""

    def __init__(self, format: MessageFormat[Fields]) -> None:
        self._format = format

    @property
    def name(self) -> str:
        return self._format.name

    def read(self, message: Fields, /) -> Sequence[Message]:
        return [replace(piece, usage=None) for piece in self._format.read(message)]

    def summary(self, text: str, /) -> Fields:
        return self._format.summary(text)

    def take(self, message: Fields, pieces: Sequence[int], /) -> Fields:
        return self._format.take(message, pieces)

    def rewrite(self, message: Fields, texts: Mapping[tuple[int, int], str], /) -> Fields:
        return self._format.rewrite(message, texts)
