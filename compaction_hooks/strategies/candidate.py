"""Candidates: the record of a compaction that is proposed, its view, and the size of that view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Protocol

from compaction_hooks.files import FileOperations
from compaction_hooks.history.digests import text_digest
from compaction_hooks.messages import M, ToolCall
from compaction_hooks.tokens.budget import Budget
from compaction_hooks.view.projection import Projection, apply_record
from compaction_hooks.view.reasoning import NOT_STALE, newest_reasoning, spare_open_turn
from compaction_hooks.view.record import CompactionReason, CompactionRecord, ParentSummary, StaleRuns, record_id
from compaction_hooks.view.reductions import Reducible, Reduction, ToolRule, reducible_parts
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.summary_message import PROMPT_VERSION


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate(Generic[M]):
    """A record that is not active yet, and the view that it would give. The view is computed at its first use.

    Attributes:
        snapshot: The conversation that it is for.
        record: The record, without the size of its view.
        made_here: Reductions of the record that were made of this snapshot.
        least_tokens: A lower bound of its view's size, in tokens of the model, known without computing the view.
        is_enough: Whether to send it although it is above the target, because only the agent's present step is left.
    """

    snapshot: Snapshot[M]
    record: CompactionRecord
    made_here: Sequence[Reduction] = ()
    least_tokens: int = 0
    is_enough: bool = False

    @cached_property
    def stale(self) -> StaleRuns:
        """The runs whose reasoning its view leaves out: no others than before if only messages behind all reasoning change."""
        now = self.snapshot
        if not now.binds_reasoning:
            return NOT_STALE
        if self.costs_no_reasoning:
            return now.projection.stale
        return spare_open_turn(StaleRuns(0, now.history.run_count), now.history, now.model)

    @cached_property
    def costs_no_reasoning(self) -> bool:
        """Whether it only reduces parts behind the newest reasoning of the active view."""
        now, record, active = self.snapshot, self.record, self.snapshot.record
        head = (active.rendered, active.covered_runs) if active else ("", now.history.base)
        newest = newest_reasoning(now.history, now.projection.stale)
        changed = {*record.reductions} ^ {*(active.reductions if active else ()), *now.projection.reductions}
        return head == (record.rendered, record.covered_runs) and all(item.run > newest for item in changed)

    @cached_property
    def projection(self) -> Projection[M]:
        """The record, applied to the history of the snapshot."""
        now = self.snapshot
        estimate = now.estimator.estimate_message_tokens
        return apply_record(
            now.history,
            self.record,
            now.format,
            estimate,
            now.projection,
            self.stale,
            self.made_here,
            now.issuer,
            now.key.start,
        )

    @cached_property
    def tokens(self) -> int:
        """Size of the view in tokens of the model, by estimate, which errs on the high side."""
        return self.snapshot.model_tokens(self.projection.tokens(self.snapshot.history))

    def record_with_size(self) -> CompactionRecord:
        """Return the record with the size of its view.

        The size is in proportion to the provider's count of the view before, so that the two numbers can be compared.
        """
        after = round(self.tokens * self.snapshot.tokens / self.snapshot.estimated_tokens)
        is_free = self.snapshot.binds_reasoning and self.costs_no_reasoning
        return replace(self.record, tokens_after=after, stale_runs=self.stale if is_free else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal(Generic[M]):
    """The aim of a compaction, and its starting point.

    Attributes:
        reason: The occasion.
        budget: The budget of the model's window; the view is to hold at most `budget.target` tokens.
        keep_tokens: Recent tokens of the model to keep word for word.
        at: When the compaction began: UTC, ISO 8601.
        start: The last candidate of the strategies before this one; None: the active view.
        may_send_start: Whether that candidate may be sent as it is.
        tool_rules: By tool name, the rule for its results.
        host_files: Files that the host itself keeps track of.
        limit_bytes: The provider's limit in bytes, if it refused a request for its bytes and named the limit.
    """

    reason: CompactionReason
    budget: Budget
    keep_tokens: int
    at: str
    start: Candidate[M] | None = None
    may_send_start: bool = False
    tool_rules: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    host_files: FileOperations = field(default_factory=FileOperations)
    limit_bytes: int | None = None


class Strategy(Protocol):
    """One way to make a view smaller. It may be asked at the same time for several conversations: it keeps no state."""

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        """Return a smaller view, made of `goal.start` or of the active view; None if there is nothing to gain.

        The candidate is checked afterwards: a strategy need not know whether it fits, or the rules of providers.
        """
        ...


def reduce(
    snapshot: Snapshot[M], goal: Goal[M], reductions: Iterable[Reduction], *, most_saved: int | None = None
) -> Candidate[M] | None:
    """Return the candidate so far, or the active view, with more of its parts shown smaller; None without reductions.

    Args:
        most_saved: An upper bound of the tokens that they save, by estimate before calibration; None: unknown.
    """
    chosen = [*reductions]
    if not chosen:
        return None
    record = with_reductions(start_record(snapshot, goal), chosen)
    least = 0
    if most_saved is not None and goal.start is None:
        least = snapshot.model_tokens(snapshot.estimated - most_saved)
    return Candidate(snapshot=snapshot, record=record, made_here=chosen, least_tokens=least)


def unpinned_parts(snapshot: Snapshot[M], goal: Goal[M], *, results_only: bool = False) -> list[Reducible]:
    """Return the tool results and call arguments that may be shown smaller, oldest first, as `goal.start` shows them.

    Parts that the host pinned are left out, and so are the signed calls of the turn under way, which Gemini checks.
    """
    record = start_record(snapshot, goal)
    projection = goal.start.projection if goal.start else snapshot.projection
    parts = reducible_parts(
        snapshot.history,
        max(record.covered_runs, snapshot.covered_runs),
        snapshot.estimator.estimate_message_tokens,
        record.reductions if goal.start else snapshot.reductions,
        results_only=results_only,
        rewritten=projection.rewritten,
        has_recall=snapshot.has_recall,
    )
    pinned = snapshot.user_pinned_pieces()
    parts = [part for part in parts if part.piece not in pinned]
    return parts if results_only else [part for part in parts if not _is_checked(snapshot, part)]


def _is_checked(snapshot: Snapshot[M], part: Reducible) -> bool:
    if part.kind != "arguments" or part.piece < (snapshot.history.request or 0):
        return False
    call = snapshot.history.piece(part.piece).message.parts[part.part]
    return isinstance(call, ToolCall) and call.opaque_chars > 0


def start_record(snapshot: Snapshot[M], goal: Goal[M]) -> CompactionRecord:
    """Return the record of the candidate so far; without one, a record that follows the active one and changes nothing yet."""
    return goal.start.record if goal.start else next_record(snapshot, goal)


def next_record(snapshot: Snapshot[M], goal: Goal[M]) -> CompactionRecord:
    """Return a record that follows the active one and changes nothing yet."""
    history, active = snapshot.history, snapshot.record
    if active is None:
        active = CompactionRecord(
            id="",
            prompt_version=PROMPT_VERSION,
            reason=goal.reason,
            summary="",
            rendered="",
            compacted_message_count=0,
            covered_runs=history.base,
            covered_digest=history.digest_before(history.base) or "",
            seen_runs=0,
            tokens_before=0,
            tokens_after=0,
            compaction_count=0,
            last_compacted_at=goal.at,
        )
    # Results that are large for the settings are shortened without a record; from now on the record says so.
    reductions = dict.fromkeys((*active.reductions, *snapshot.projection.reductions))
    pinned = find_pinned_results(snapshot)
    return replace(
        active,
        parent=active.id or None,
        reductions=tuple(item for item in reductions if item not in pinned),
        reason=goal.reason,
        base=_parent_summary(snapshot),
        seen_runs=history.run_count,
        tokens_before=snapshot.tokens,
        compaction_count=active.compaction_count + 1,
        last_compacted_at=goal.at,
        usage=None,
        calibration=snapshot.learned,
    )


def find_pinned_results(snapshot: Snapshot[M]) -> Set[Reduction]:
    """Return the reductions of results that the host has pinned since: from this compaction on they are whole."""
    pinned, pieces = snapshot.user_pinned_pieces(), snapshot.history.host_pieces
    hosts = (shown for host, shown in snapshot.projection.rewritten.items() if not pinned.isdisjoint(pieces(host)))
    return {item for shown in hosts for item in shown.reductions if item.kind == "result"}


def _parent_summary(snapshot: Snapshot[M]) -> ParentSummary | None:
    """Return the earlier summary at the head of the list, for a record that must be readable without its parent."""
    head, origin = snapshot.history.summary_piece, snapshot.history.origin
    if head is None or origin is None:
        return None
    name = text_digest(snapshot.history.piece(head).message.text)
    known = snapshot.record.base if snapshot.record else None
    # The active record may cover a result by now that the list has shortened: its own base still names it.
    covered = known.reductions if known and known.text_digest == name else ()
    kept = (item for item in snapshot.reductions if item.kind != "media")
    return ParentSummary(
        text_digest=name,
        runs=origin.runs,
        digest=origin.digest,
        pins=origin.pins,
        reductions=tuple(dict.fromkeys((*covered, *kept))),
    )


def with_reductions(record: CompactionRecord, reductions: Iterable[Reduction]) -> CompactionRecord:
    """Return a record with more reductions, named by its content."""
    merged = {(item.kind, item.run, item.ordinal): item for item in (*record.reductions, *reductions)}
    kept = tuple(merged.values())
    return replace(record, id=record_id(record.covered_digest, record.rendered, kept, record.parent), reductions=kept)
