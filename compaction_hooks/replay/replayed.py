"""What a replay showed, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compaction_hooks import CompactionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCall:
    """One model call. Sizes are the controller's estimates, in tokens.

    Attributes:
        number: Its place among the calls, from 1.
        index: The message it produced.
        tokens_without: The whole conversation so far, as it would have been sent without compaction.
        tokens_sent: What the controller handed out.
    """

    number: int
    index: int
    tokens_without: int
    tokens_sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesUsedAgain:
    """Names from messages that one compaction took away, which the recorded agent used again before the next one.

    A name is a path, a URL, an e-mail address, an id or a number (`recall.names`); each counts once, at its first use.

    Attributes:
        in_messages: Stood in a message of the context at that moment.
        in_summary: Stood in the summary alone.
        gone: Stood nowhere in the context, in the order of their use.
    """

    in_messages: int = 0
    in_summary: int = 0
    gone: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """All of them."""
        return self.in_messages + self.in_summary + len(self.gone)

    @property
    def kept(self) -> int:
        """Those that were in the context."""
        return self.in_messages + self.in_summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedCompaction:
    """One compaction.

    Attributes:
        call: Number of the call it was made for.
        tokens_before, tokens_after: Size of the context, in tokens.
        messages_before, messages_after: Messages in the list to send.
        summarised_messages: Messages from the start of the conversation that the summary stands for; 0 when results were only
            cleared.
        kept_messages: Messages after those that are sent word for word, system messages left out.
        pinned_messages: Messages from the summarised part that are sent word for word all the same.
        cleared_results: Tool results that are replaced by a marker.
        shortened_parts: Tool results and arguments of which head and tail are left.
        summary: The message that stands for the summarised ones, as the model reads it; empty when there is none.
        read_files, modified_files: Files the summary lists.
        used_fallback: Whether the summariser failed and what needs no model was done instead.
        names: What became of names the agent used again.
    """

    call: int
    reason: CompactionReason
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    summarised_messages: int
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
    """A call whose request is larger than the window and could not be made to fit; the error says which part is too large."""

    call: int
    tokens: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedProbe:
    """A probe and whether every text of its answer stands in a context.

    Attributes:
        is_kept: In the context after the last message.
        is_in_session: In the whole conversation; where not, no context could hold it.
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
        calls: Oldest first; empty when no answer of a model has anything before it.
        unfit: Calls that compaction could not make fit.
        put_off: Compactions that were due and not made, by the controller's reason ("no gain", "no progress", ...).
        used_recorded_usage: Whether what the provider counted was reported to the controller before the first compaction.
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
        """Calls whose whole conversation is larger than the window by estimate."""
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
        overflows_without: Calls that are larger than the window without compaction.
        unfit_calls: Calls that are larger than the window even with it.
        tokens_without, tokens_sent: Tokens of all requests, without and with compaction.
        probes_in_session: Probes whose answer stands word for word in the session, so that it can be kept at all.
        probes_kept: Probes whose answer is in the context after the last message.
        names_kept: Of the names the agent used again after a compaction took them away, those that were in the context.
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
        """The part of the tokens that was not sent, 0 to 1; below 0 when more was sent than without."""
        return 1 - self.tokens_sent / self.tokens_without if self.tokens_without else 0.0

    def __add__(self, other: Totals) -> Totals:
        return Totals(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


def total(replays: Iterable[Replay]) -> Totals:
    """Return the sums over several replays; all zero when there are none."""
    return sum((replay.totals for replay in replays), start=Totals())
