"""The results of a replay, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compaction_hooks import CompactionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """One model call. Sizes are the controller's estimates, in tokens.

    Attributes:
        number: Counts the calls, from 1.
        index: Index of the message it produced.
        tokens_without: The request without compaction: the whole conversation so far.
        tokens_sent: The view that the controller returned.
    """

    number: int
    index: int
    tokens_without: int
    tokens_sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesUsedAgain:
    """Names in messages removed by one compaction, which the recorded agent used again before the next one.

    A name is a path, a URL, an e-mail address, an id or a number (`recall.names`); each counts once, at its first use.

    Attributes:
        in_messages: Names found in a message of the context at that moment.
        in_summary: Names found only in the summary.
        gone: Names missing from the context, in the order of their use.
    """

    in_messages: int = 0
    in_summary: int = 0
    gone: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Number of names used again."""
        return self.in_messages + self.in_summary + len(self.gone)

    @property
    def kept(self) -> int:
        """Number of names that were in the context."""
        return self.in_messages + self.in_summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCompaction:
    """One compaction of a replay.

    Attributes:
        call: Number of the call it was made for.
        tokens_before, tokens_after: Size of the context, in tokens.
        messages_before, messages_after: Messages in the list to send.
        summarized_messages: Messages from the start of the conversation that the summary replaces; 0 if results were only
            cleared.
        kept_messages: Later messages that are sent word for word; system messages are not counted.
        pinned_messages: Messages from the summarized part that are still sent word for word.
        cleared_results: Tool results replaced by a marker.
        shortened_parts: Tool results and arguments reduced to their head and tail.
        summary: The message that replaces the summarized ones, as the model reads it; empty if there is none.
        read_files, modified_files: Files listed in the summary.
        used_fallback: Whether the summarizer failed and a strategy without a model was used instead.
        names: Whether names the agent used again were still in the context.
    """

    call: int
    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    summarized_messages: int
    kept_messages: int
    pinned_messages: int
    cleared_results: int
    shortened_parts: int
    summary: str
    read_files: tuple[str, ...]
    modified_files: tuple[str, ...]
    used_fallback: bool
    names: NamesUsedAgain = NamesUsedAgain()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitCall:
    """A call whose request does not fit the window even after compaction; the error names the part that is too large."""

    call: int
    tokens: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedProbe:
    """A probe, and whether every text of its answer is in the context.

    Attributes:
        is_kept: In the context after the last message.
        is_in_session: In the whole conversation; if not, no context could contain it.
    """

    kind: str
    question: str
    is_kept: bool
    is_in_session: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One session, replayed call by call at one window.

    Attributes:
        session_id: The recording's id.
        window: The context window, in tokens.
        trigger: A context above this is compacted, in tokens.
        calls: Oldest first; empty if no answer of a model follows a message.
        unfit: Calls that do not fit the window even after compaction.
        put_off: Number of due compactions that were skipped, by the controller's reason ("no gain", "no progress", ...).
        used_recorded_usage: Whether recorded token counts were reported to the controller before the first compaction.
    """

    session_id: str
    window: int
    trigger: int
    calls: tuple[ReplayedCall, ...]
    compactions: tuple[ReplayedCompaction, ...]
    unfit: tuple[UnfitCall, ...]
    put_off: dict[str, int]
    probes: tuple[ReplayedProbe, ...]
    used_recorded_usage: bool

    @property
    def overflows_without(self) -> int:
        """Number of calls whose whole conversation is estimated to be larger than the window."""
        return sum(call.tokens_without > self.window for call in self.calls)

    @property
    def totals(self) -> Totals:
        """The sums over its calls, compactions and probes."""
        names = [compaction.names for compaction in self.compactions]
        return Totals(
            sessions=1,
            calls=len(self.calls),
            compactions=len(self.compactions),
            overflows_without=self.overflows_without,
            unfit_calls=len(self.unfit),
            tokens_without=sum(call.tokens_without for call in self.calls),
            tokens_sent=sum(call.tokens_sent for call in self.calls),
            probes=len(self.probes),
            probes_in_session=sum(probe.is_in_session for probe in self.probes),
            probes_kept=sum(probe.is_kept for probe in self.probes),
            names_used_again=sum(each.total for each in names),
            names_kept=sum(each.kept for each in names),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over one or many replays.

    Attributes:
        overflows_without: Calls larger than the window without compaction.
        unfit_calls: Calls larger than the window even with compaction.
        tokens_without, tokens_sent: Tokens of all requests, without and with compaction.
        probes_in_session: Probes whose answer is in the session word for word; other answers cannot be kept.
        probes_kept: Probes whose answer is in the context after the last message.
        names_kept: Of the names used again after a compaction removed their messages, those that were in the context.
    """

    sessions: int = 0
    calls: int = 0
    compactions: int = 0
    overflows_without: int = 0
    unfit_calls: int = 0
    tokens_without: int = 0
    tokens_sent: int = 0
    probes: int = 0
    probes_in_session: int = 0
    probes_kept: int = 0
    names_used_again: int = 0
    names_kept: int = 0

    @property
    def saving(self) -> float:
        """Share of tokens not sent, 0 to 1; below 0 if more were sent than without compaction."""
        return 1 - self.tokens_sent / self.tokens_without if self.tokens_without else 0.0

    def __add__(self, other: Totals) -> Totals:
        return Totals(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


def total(replays: Iterable[Replay]) -> Totals:
    """Return the sums over several replays; all zero when there are none."""
    return sum((replay.totals for replay in replays), start=Totals())
