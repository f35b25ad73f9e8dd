"""The results of a replay, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from compaction_hooks import CompactionReason
from compaction_hooks.recall import CoveredPart
from compaction_hooks.replay.bills import Bill
from compaction_hooks.replay.recorded import Fields


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
class UsedLater:
    """Identifiers of which only summarized messages told, and which the agent used in its next calls after a compaction.

    An identifier is a path, URL, e-mail address, id, hash, number, error code, symbol or file name (`needs.find_identifiers`).

    Attributes:
        kept: Those in the summary, or in a pinned message.
        lost: Those that are not.
    """

    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDetails:
    """What a report shows of one compaction.

    Attributes:
        view: The list sent by its call. Messages that are sent as they are, are the objects of `RecordedSession.messages`; the
            others are new: the summary, and messages of which parts are cleared or shortened.
        covered: The parts of the messages that the view leaves out or changes, as they are listed at the end of the session, with
            the handles by which the agent could recall them.
        reasons: The controller's log lines on its choices: where it cut, what it kept, what had no room.
    """

    view: tuple[Fields, ...]
    covered: tuple[CoveredPart, ...]
    reasons: tuple[str, ...]


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
        used_fallback: Whether the summarizer failed, in a later part of the summary too, so that code did the rest.
        used_later: What the agent needed of the summarized messages in its next five calls.
        constraints: Sentences of the user in summarized messages that begin as constraints do.
        lost_constraints: Those that are not in the view.
        details: More about it for a report; None unless the replay was asked for details.
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
    used_later: UsedLater = UsedLater()
    constraints: tuple[str, ...] = ()
    lost_constraints: tuple[str, ...] = ()
    details: CompactionDetails | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one replay by the prices of one model, in US dollars. Tokens are estimates.

    Attributes:
        model: The model whose prices and cache rules are used.
        is_recorded: Whether it is the recorded model; otherwise one of the examples in `prices.EXAMPLES`.
        calls: The cost of each call as sent, oldest first.
        calls_without: The cost of each call without compaction, in a window that would take any list. A call that does not fit
            even with compaction costs nothing in both.
        summaries: The cost of the summaries if this model had written them. The summaries of a replay are free, so it is not
            in `calls`.
        recorded: The cost of the recorded calls by the provider's own counts; None if there are none. Claude Code does not count
            the output, and a cache that lasts an hour costs more.
        sent, sent_without: The tokens of all calls, by price.
    """

    model: str
    is_recorded: bool
    calls: tuple[float, ...]
    calls_without: tuple[float, ...]
    summaries: float
    sent: Bill
    sent_without: Bill
    recorded: float | None = None

    @property
    def with_compaction(self) -> float:
        """The cost of all calls as sent."""
        return sum(self.calls)

    @property
    def without_compaction(self) -> float:
        """The cost of all calls without compaction."""
        return sum(self.calls_without)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitCall:
    """A call whose request does not fit the window even after compaction; the error names the part that is too large."""

    call: int
    tokens: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSummary:
    """A failure of the summarizer: its compaction was put off, or made without its summary."""

    call: int
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
        keep: Recent messages kept word for word at most, in tokens.
        calls: Oldest first; empty if no answer of a model follows a message.
        unfit: Calls that do not fit the window even after compaction.
        failed: Failures of the summarizer. After a few in a row it is not asked again for a while.
        put_off: Number of due compactions that were skipped, by the controller's reason ("no gain", "no progress", ...).
        used_recorded_usage: Whether recorded token counts were reported to the controller before the first compaction.
        costs: By the recorded model's prices; if they are unknown, by those of each example.
        hidden_tokens: How much more the provider counted in the first call than is estimated: a prompt and tools that are not
            recorded. They are in the costs, and in no other figure.
    """

    session_id: str
    window: int
    trigger: int
    keep: int
    calls: tuple[ReplayedCall, ...]
    compactions: tuple[ReplayedCompaction, ...]
    unfit: tuple[UnfitCall, ...]
    put_off: dict[str, int]
    probes: tuple[ReplayedProbe, ...]
    used_recorded_usage: bool
    costs: tuple[Cost, ...] = ()
    hidden_tokens: int = 0
    failed: tuple[FailedSummary, ...] = ()

    @property
    def overflows_without(self) -> int:
        """Number of calls whose whole conversation is estimated to be larger than the window."""
        return sum(call.tokens_without > self.window for call in self.calls)

    @property
    def totals(self) -> Totals:
        """The sums over its calls, compactions and probes."""
        later = [compaction.used_later for compaction in self.compactions]
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
            used_later=sum(len(each.kept) + len(each.lost) for each in later),
            kept=sum(len(each.kept) for each in later),
            put_off=sum(self.put_off.values()),
            constraints=len({text for each in self.compactions for text in each.constraints}),
            lost_constraints=len({text for each in self.compactions for text in each.lost_constraints}),
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
        used_later: Identifiers of summarized messages that the agent used in its next calls.
        kept: Those that the summary or a pinned message had.
        put_off: Due compactions that were skipped.
        constraints, lost_constraints: Constraints of the user in summarized messages, and those missing from a view.
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
    used_later: int = 0
    kept: int = 0
    put_off: int = 0
    constraints: int = 0
    lost_constraints: int = 0

    @property
    def saving(self) -> float:
        """Share of tokens not sent, 0 to 1; below 0 if more were sent than without compaction."""
        return 1 - self.tokens_sent / self.tokens_without if self.tokens_without else 0.0

    def __add__(self, other: Totals) -> Totals:
        return Totals(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


def total(replays: Iterable[Replay]) -> Totals:
    """Return the sums over several replays; all zero when there are none."""
    return sum((replay.totals for replay in replays), start=Totals())
