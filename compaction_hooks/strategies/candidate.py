"""Candidates: the record of a compaction that is proposed, its view, the size of that view, and whether it may be sent."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, NoReturn, Protocol, runtime_checkable

from compaction_hooks.history import History, Origin
from compaction_hooks.history.digests import text_digest
from compaction_hooks.messages import M, ToolResult, Value
from compaction_hooks.telling import Told
from compaction_hooks.tokens.budget import MINIMUM_GAIN_RATIO, Budget
from compaction_hooks.validity import is_alike, needs_merging, problems, worsened
from compaction_hooks.view import CompactionReason, ToolRule
from compaction_hooks.view.parts import (
    OF_TOOLS,
    RESULTS,
    PartKind,
    Reducible,
    Reduction,
    by_name,
    list_parts,
    measure,
)
from compaction_hooks.view.reasoning import newest_reasoning
from compaction_hooks.view.record import CompactionRecord, ParentSummary, StaleRuns, record_id
from compaction_hooks.view.references import Made, View
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import PROMPT_VERSION
from compaction_hooks.view.view_of import view_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate(Generic[M]):
    """A record that is not active yet, and the view that it would give. The view is computed at its first use.

    Attributes:
        snapshot: The conversation that it is for.
        record: The record, without the size of its view.
        least_tokens: A lower bound of its view's size, in tokens of the model, known without computing the view.
        is_enough: Whether to send it although it is above the target, because only the agent's present step is left.
    """

    snapshot: Snapshot[M]
    record: CompactionRecord
    least_tokens: int = 0
    is_enough: bool = False

    @cached_property
    def stale(self) -> StaleRuns:
        """The runs whose reasoning its view leaves out: no others than before if only messages behind all reasoning change."""
        now = self.snapshot
        if now.binds_reasoning and self.costs_no_reasoning:
            return now.view.stale
        return now.reading.find_stale()

    @cached_property
    def costs_no_reasoning(self) -> bool:
        """Whether it only changes what is behind the newest reasoning of the active view: parts, and texts of ours."""
        now, record, active = self.snapshot, self.record, self.snapshot.record
        head = (active.rendered, active.covered_runs) if active else ("", now.history.runs_before_list)
        newest = newest_reasoning(now.history, now.view.stale)
        changed = [item.run for item in {*record.reductions} ^ {*now.reductions}]
        if now.view.inserted:  # a notice goes with its record
            stays = now.dress(self.plain, record, now.view.stale).inserted
            changed += [now.history.run_of(each.before) for each in {*now.view.inserted} - {*stays}]
        return head == (record.rendered, record.covered_runs) and all(run > newest for run in changed)

    @cached_property
    def plain(self) -> View[M]:
        """The record, applied to the history of the snapshot."""
        now = self.snapshot
        return view_of(now.history, self.record, now.estimator.estimate_message_tokens, now.view, (), now.format)

    @cached_property
    def view(self) -> View[M]:
        """The same, as the request shows it."""
        return self.snapshot.dress(self.plain, self.record, self.stale)

    @property
    def projection(self) -> NoReturn:
        """The former name of `view`."""
        raise AttributeError("`projection` has a new name: `candidate.view`")

    @cached_property
    def tokens(self) -> int:
        """Size of the view in tokens of the model, by estimate, which errs on the high side."""
        return self.snapshot.model_tokens(self.view.tokens(self.snapshot.history))

    def complete_record(self, calibration: Mapping[str, object]) -> CompactionRecord:
        """Return the record with the size of its view, and the calibration learned from usage.

        The size is in proportion to the provider's count of the view before, so that the two numbers can be compared.
        """
        after = round(self.tokens * self.snapshot.tokens / self.snapshot.estimated_tokens)
        is_free = self.snapshot.binds_reasoning and self.costs_no_reasoning
        stale = self.stale if is_free else None
        return replace(self.record, tokens_after=after, stale_runs=stale, calibration=calibration)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Goal(Value, Generic[M]):
    """The aim of a compaction, and its starting point.

    Attributes:
        reason: The occasion.
        budget: The budget of the model's window; the view is to hold at most `budget.target` tokens.
        keep_tokens: Recent tokens of the model to keep word for word.
        at: When the compaction began: UTC, ISO 8601.
        start: The last candidate of the strategies before this one; None: the active view.
        may_send_start: Whether that candidate may be sent as it is.
        tool_rules: By tool name, the rule for its results.
        told: The answers of the host's functions, for the plan of a summary: for no other strategy the host is asked.
        limit_bytes: The provider's limit in bytes, if it refused a request for its bytes and named the limit.
        end: The first run that stays as it is, with all behind it; None: any may be covered or shown smaller.
    """

    reason: CompactionReason
    budget: Budget
    keep_tokens: int
    at: str
    start: Candidate[M] | None = None
    may_send_start: bool = False
    tool_rules: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    told: Told = field(default_factory=Told)
    limit_bytes: int | None = None
    end: int | None = None


@runtime_checkable
class Strategy(Protocol):
    """One way to make a view smaller. It may be asked at the same time for several conversations: it keeps no state."""

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        """Return a smaller view, made of `goal.start` or of the active view; None if there is nothing to gain.

        The candidate is checked afterwards: a strategy need not know whether it fits, or the rules of providers.
        """
        ...


def shrink(
    snapshot: Snapshot[M], goal: Goal[M], reductions: Iterable[Reduction], *, most_saved: int | None = None
) -> Candidate[M] | None:
    """Return the candidate so far, or the active view, with more of its parts shown smaller; None without reductions.

    Args:
        most_saved: An upper bound of the tokens that they save, by estimate before calibration; None: unknown.
    """
    chosen = [*reductions]
    if not chosen:
        return None

    record = with_reductions(goal.start.record if goal.start else next_record(snapshot, goal), chosen)
    least = 0
    if most_saved is not None and goal.start is None:
        least = snapshot.model_tokens(snapshot.estimated - most_saved)
    return Candidate(snapshot=snapshot, record=record, least_tokens=least)


def shrinkable_parts(snapshot: Snapshot[M], goal: Goal[M], *, results_only: bool = False) -> list[Reducible]:
    """Return the tool results and call arguments that may be shown smaller, oldest first, as `goal.start` shows them.

    Parts that the host pinned are left out, and so are results that made tools known to the model, and the signed calls of the turn
    under way, which Gemini checks.
    """
    return find_parts(snapshot, goal, RESULTS if results_only else OF_TOOLS)


def find_parts(snapshot: Snapshot[M], goal: Goal[M], kinds: Collection[PartKind]) -> list[Reducible]:
    """Return the parts of these kinds that may be shown smaller, as `shrinkable_parts` does; of media those of users and tools.

    Texts and media of the current request's newest message are left out too.
    """
    start = goal.start
    first = max(start.record.covered_runs if start else 0, snapshot.covered_runs)
    end = snapshot.history.run_count if goal.end is None else goal.end
    able = list_able(snapshot, range(first, end), kinds)
    view = start.view if start else snapshot.view
    return [*measure(snapshot.history, able, snapshot.estimator.estimate_message_tokens, view.reduced)]


def list_able(snapshot: Snapshot[M], runs: Iterable[int], kinds: Collection[PartKind]) -> list[Reducible]:
    """Return the parts of some runs that `find_parts` finds, without their sizes."""
    history, pinned = snapshot.history, snapshot.user_pinned_pieces()
    listed = list_parts(history, runs, kinds, has_recall=snapshot.has_recall)
    return [part for part in listed if part.piece not in pinned and _may_shrink(history, part)]


def list_whole(snapshot: Snapshot[M], first_run: int) -> list[Reducible]:
    """Return the tool results and call arguments from a run on, with their sizes in full."""
    history = snapshot.history
    parts = list_parts(history, range(first_run, history.run_count), OF_TOOLS)
    return [*measure(history, parts, snapshot.estimator.estimate_message_tokens)]


def _may_shrink(history: History[M], part: Reducible) -> bool:
    if isinstance(part.content, ToolResult) and part.content.finds:
        return False
    match part.kind:
        case "result":
            return True
        case "arguments":
            is_signed = part.call is not None and part.call.opaque_chars > 0
            return not is_signed or part.piece < (history.request or 0)
        case _:
            role = history.piece(part.piece).message.role
            able = ("user", "assistant") if part.kind == "text" else ("user", "tool")
            return part.piece != history.request and role in able


def next_record(snapshot: Snapshot[M], goal: Goal[M]) -> CompactionRecord:
    """Return a record that follows the active one and changes nothing yet."""
    history, active = snapshot.history, snapshot.record or _make_first_record(snapshot.history, goal)

    # Results that the host has pinned since are whole from this compaction on.
    pinned = snapshot.user_pinned_pieces()
    messages = [kept for kept in snapshot.view.kept if not pinned.isdisjoint(history.host_pieces(kept.host))]
    whole = {item for kept in messages for item in kept.reductions.values() if item.kind == "result"}

    return replace(
        active,
        parent=active.id or None,
        # Results that are large for the settings are shortened without a record; from now on the record says so.
        reductions=tuple(item for item in snapshot.reductions if item not in whole),
        reason=goal.reason,
        base=_parent_summary(snapshot),
        seen_runs=history.run_count,
        tokens_before=snapshot.tokens,
        compaction_count=active.compaction_count + 1,
        last_compacted_at=goal.at,
        usage=None,
    )


def _make_first_record(history: History[M], goal: Goal[M]) -> CompactionRecord:
    """Return a record that covers and reduces nothing, for a conversation that has no active one."""
    return CompactionRecord(
        id="",
        prompt_version=PROMPT_VERSION,
        reason=goal.reason,
        summary="",
        rendered="",
        compacted_message_count=0,
        covered_runs=history.runs_before_list,
        covered_digest=history.digest_before(history.runs_before_list) or "",
        seen_runs=0,
        tokens_before=0,
        tokens_after=0,
        compaction_count=0,
        last_compacted_at=goal.at,
    )


def _parent_summary(snapshot: Snapshot[M]) -> ParentSummary | None:
    """Return what the list has from an earlier view, for a record that must be readable without its parent; None without any."""
    history, known = snapshot.history, snapshot.record.base if snapshot.record else None
    head, origin = history.summary_piece, history.origin
    kept = [item for item in snapshot.reductions if item.kind != "media"]

    if head is None or origin is None:
        # The host may have stored a view without a summary, in which results were cleared.
        parts = list_parts(history, {item.run for item in kept})
        listed = {part.name for part in parts}
        kept = [item for item in kept if item.shown_name in listed]
        head, origin = None, Origin(0, "", ())
    name = "" if head is None else text_digest(history.piece(head).message.text)

    # The active record may cover a result by now that the list has shortened: its own base still names it.
    covered = known.reductions if known and known.text_digest == name else ()
    reductions = tuple(dict.fromkeys((*covered, *kept)))
    if not name and not reductions:
        return None
    return ParentSummary(name, origin.runs, origin.digest, origin.pins, reductions, origin.optional)


def with_reductions(record: CompactionRecord, reductions: Iterable[Reduction]) -> CompactionRecord:
    """Return a record with more reductions, named by its content."""
    merged = by_name((*record.reductions, *reductions))
    kept = tuple(merged.values())
    return replace(
        record, id=record_id(record.covered_digest, record.rendered, kept, record.parent, record.pins), reductions=kept
    )


def rejection(snapshot: Snapshot[M], candidate: Candidate[M], *, limit: int, window: int) -> str | None:
    """Return why a candidate may not be sent; None if it fits `limit`, is smaller by 10 % and breaks no rule of the provider.

    The 10 % are waived if the present view does not fit the window and the candidate does. All sizes in tokens of the model.
    """
    if candidate.tokens > limit:
        return "too large"
    is_rescue = snapshot.most_tokens > window
    if candidate.tokens > snapshot.estimated_tokens * (1 - MINIMUM_GAIN_RATIO) and not is_rescue:
        return "no gain"
    return broken_rule(snapshot, candidate)


def broken_rule(snapshot: Snapshot[M], candidate: Candidate[M]) -> str | None:
    """Return the rule of the provider that a candidate breaks and the active view does not, or None."""
    if _only_shortens(snapshot, candidate.view) and not snapshot.binds_reasoning:
        return None

    provider, after = snapshot.format.provider, snapshot.neutral_view(candidate.view)
    # The model has not answered this view yet: all reasoning in it was made after other messages.
    is_bare = candidate.view.stale.end >= snapshot.history.run_count
    stale = range(len(after) if is_bare else 0)
    if not problems(after, provider, stale=stale):
        return None

    broken = worsened(snapshot.neutral_view(_without_inserted(snapshot.view)), after, provider, stale=stale)
    if needs_merging(snapshot.format):  # messages of one speaker in a row are sent as one
        broken = [one for one in broken if one.rule != "role_repeated"]
    return f"invalid: {broken[0].rule}" if broken else None


def _without_inserted(view: View[M]) -> View[M]:
    """Return a view without texts of ours behind a run: a candidate has none, and they begin a turn for the provider."""
    kept = (each for each in view.references if not isinstance(each, Made) or each.only != "request")
    return view.change(references=tuple(kept))


def _only_shortens(snapshot: Snapshot[M], view: View[M]) -> bool:
    """Return whether a view is the active one with other texts in some parts: a provider that accepts one accepts the other.

    Only newly shortened messages are compared.
    """
    history, active = snapshot.history, snapshot.view
    if (view.cut, view.pinned) != (active.cut, active.pinned):
        return False

    known = {kept.host: kept.reductions for kept in active.kept}
    fresh = [kept for kept in view.kept if kept.reductions and known.get(kept.host) != kept.reductions]
    return all(is_alike([history.piece(index).message for index in kept.pieces], kept.shown) for kept in fresh)


def largest_fixed_part(snapshot: Snapshot[M]) -> tuple[str, int]:
    """Return the name and size (tokens of the model) of the largest part that cannot shrink."""
    history = snapshot.history
    later = reversed(range(snapshot.covered_runs + 1, history.run_count))
    last = history.run_start(next(filter(history.is_boundary, later), snapshot.covered_runs))
    request = history.request

    sizes = {
        "system prompt": sum(history.piece(i).tokens for i in history.systems()) + snapshot.reading.system_tokens,
        "tools": snapshot.reading.tools_tokens,
        "current request": history.piece(request).tokens if request is not None else 0,
        "pins": sum(history.piece(i).tokens for i in snapshot.pinned_pieces(last) if i != request),
        "last step": sum(p.tokens for i, p in enumerate(history.pieces(last), last) if i != request),
    }

    counted = {name: math.ceil(size * snapshot.ratio) for name, size in sizes.items()}
    counted["hidden prefix"] = snapshot.calibration.overhead_tokens
    part = max(counted, key=lambda name: counted[name])
    return part, counted[part]
