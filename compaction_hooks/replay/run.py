"""Replay of a recorded session, call by call, through a real controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    Message,
    MessageFormat,
    Summarizer,
)
from compaction_hooks.events import CompactionEvent, HostFilesFailed, PinMissing, StoreFailed
from compaction_hooks.replay.recall import Haystack, Reuse, names, spoken_text, visible_text
from compaction_hooks.replay.recorded import Fields, RecordedSession
from compaction_hooks.replay.replayed import Replay, ReplayedCall, ReplayedCompaction, ReplayedProbe, UnfitCall


def replay(
    session: RecordedSession,
    *,
    window: int,
    settings: CompactionSettings | None = None,
    summarizer: Summarizer | None = None,
    uses_recorded_usage: bool = False,
    on_call: Callable[[], None] | None = None,
) -> Replay:
    """Return the calls and compactions of a controller that keeps this session inside a context window.

    Every answer of the model is one call, and its request is all messages before it. An answer with nothing before it is no call.

    Args:
        window: The context window, in tokens.
        settings: The policy; None: the defaults.
        summarizer: None: the one that needs no model.
        uses_recorded_usage: Whether recorded token counts are reported to the controller until the first compaction; later
            counts are of lists that are no longer sent. They may include parts that are not recorded, such as a hidden system
            prompt.
        on_call: Called after each call, for a progress bar.

    Raises:
        ContextOverflowError: the system prompt and tools alone are larger than the window.
        ConfigurationError: `window` is not above zero.
    """
    run = _Run(session, window, settings or CompactionSettings(), summarizer, uses_recorded_usage)
    run.check_prefix()
    for index in call_indexes(session):
        run.call(index)
        if on_call is not None:
            on_call()
    return run.finish()


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
            context_window=window, settings=settings, summarizer=summarizer, format=format, on_event=self._events.append
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
        self._names: list[frozenset[str]] = []
        self._calls: list[ReplayedCall] = []
        self._compactions: list[ReplayedCompaction] = []
        self._unfit: list[UnfitCall] = []
        self._put_off: Counter[str] = Counter()
        self._reuse: Reuse | None = None
        self._view: list[Fields] = []
        self._seen = 0

    def check_prefix(self) -> None:
        """Check that system messages, system prompt and tools leave room in the window.

        Raises:
            ContextOverflowError: they do not.
        """
        systems = [
            message
            for message, pieces in zip(self._session.messages, self._pieces, strict=True)
            if all(piece.role == "system" for piece in pieces)
        ]
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

    def call(self, index: int) -> None:
        """Replay the call that produced one message."""
        host = list(self._session.messages[:index])
        number = len(self._calls) + 1
        self._events.clear()
        view = self._transform(self._compacting, host)
        self._transform(self._measuring, host)
        self._calls.append(
            ReplayedCall(
                number=number,
                index=index,
                tokens_without=self._measuring.state().context_tokens or 0,
                tokens_sent=self._compacting.state().context_tokens or 0,
            )
        )
        self._add_events(number, host, view)
        if self._reuse is not None:
            self._reuse.add_sent(visible_text(piece for pieces in self._pieces[self._seen : index] for piece in pieces))
            self._reuse.add_answer(spoken_text(self._pieces[index]))
        self._view, self._seen = view, index
        self._report_usage(host, view, index)

    def _transform(self, conversation: CompactionSession[Fields], host: list[Fields]) -> list[Fields]:
        return conversation.transform_context_sync(host, system=self._session.system, tools=self._session.tools)

    def _report_usage(self, host: list[Fields], view: list[Fields], index: int) -> None:
        usage = self._usage.get(index)
        if usage is not None and view is host:
            self._used_usage = True
            self._compacting.report_usage(usage)
            self._measuring.report_usage(usage)

    # -- events

    def _add_events(self, number: int, host: list[Fields], view: list[Fields]) -> None:
        for event in self._events:
            match event:
                case CompactionFinished():
                    self._close_reuse()
                    self._compactions.append(self._describe(number, event, host, view))
                    self._open_reuse(event.record.rendered, host, view)
                case CompactionFailed(is_over_window=True):
                    self._unfit.append(UnfitCall(call=number, tokens=event.tokens, error=event.error))
                case CompactionSkipped():
                    self._put_off[event.why.partition(":")[0]] += 1  # numbers may follow the colon
                case CompactionStarted() | CompactionFailed() | StoreFailed() | PinMissing() | HostFilesFailed():
                    pass

    def _describe(
        self, number: int, event: CompactionFinished, host: list[Fields], view: list[Fields]
    ) -> ReplayedCompaction:
        record = event.record
        in_view = {id(message) for message in view}
        kept = [
            index
            for index, message in enumerate(host)
            if id(message) in in_view and any(piece.role != "system" for piece in self._pieces[index])
        ]
        pinned = sum(index < record.compacted_message_count for index in kept)
        cleared = sum(
            item.kind == "result" and not item.head_chars and not item.tail_chars for item in record.reductions
        )
        return ReplayedCompaction(
            call=number,
            reason=event.reason,
            tokens_before=event.tokens_before,
            tokens_after=event.tokens_after,
            messages_before=event.messages_before,
            messages_after=event.messages_after,
            summarized_messages=record.compacted_message_count,
            kept_messages=len(kept) - pinned,
            pinned_messages=pinned,
            cleared_results=cleared,
            shortened_parts=len(record.reductions) - cleared - event.left_out,
            summary=record.rendered,
            read_files=record.read_files,
            modified_files=record.modified_files,
            used_fallback=event.used_fallback,
        )

    # -- names used again

    def _open_reuse(self, summary: str, host: list[Fields], view: list[Fields]) -> None:
        while len(self._names) < len(host):
            self._names.append(frozenset(names(visible_text(self._pieces[len(self._names)]))))
        in_view = {id(message) for message in view}
        hidden = frozenset[str]().union(
            *(found for message, found in zip(host, self._names, strict=False) if id(message) not in in_view)
        )
        pieces = [piece for message in view for piece in self._session.format.read(message)]
        shown = [piece for piece in pieces if not summary or piece.text != summary]
        self._reuse = Reuse(hidden, summary, visible_text(shown))

    def _close_reuse(self) -> None:
        if self._reuse is not None:
            self._compactions[-1] = replace(self._compactions[-1], names=self._reuse.figures())

    # -- the end

    def finish(self) -> Replay:
        """Return the whole replay."""
        self._close_reuse()
        return Replay(
            session_id=self._session.id,
            window=self._window,
            trigger=self._settings.budget(self._window).trigger,
            calls=tuple(self._calls),
            compactions=tuple(self._compactions),
            unfit=tuple(self._unfit),
            put_off=dict(self._put_off),
            probes=tuple(self._check_probes()),
            used_recorded_usage=self._used_usage,
        )

    def _check_probes(self) -> list[ReplayedProbe]:
        if not self._session.probes:
            return []
        read = self._session.format.read
        # Nothing is compacted after the last call, so the next call would begin from this list.
        last = [*self._view, *self._session.messages[self._seen :]]
        system = f"{self._session.system or ''}\n"
        kept = Haystack(system + visible_text(piece for message in last for piece in read(message)))
        whole = Haystack(system + visible_text(piece for pieces in self._pieces for piece in pieces))
        return [
            ReplayedProbe(
                kind=probe.kind,
                question=probe.question,
                is_kept=kept.holds(probe),
                is_in_session=whole.holds(probe),
            )
            for probe in self._session.probes
        ]


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
