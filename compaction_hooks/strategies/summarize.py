"""Keep the recent messages; a summary of the older ones, or an extract by rule, takes their place.

The facts that a summary lacks or contradicts are put back, in the room that it has (`complete`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from compaction_hooks import arguments
from compaction_hooks.digest import complete
from compaction_hooks.messages import M, Value
from compaction_hooks.strategies.candidate import Candidate, Goal, next_record, with_reductions
from compaction_hooks.strategies.summary_plan import (
    Summarized,
    SummaryPlan,
    plan_summary,
)
from compaction_hooks.strategies.summary_room import SummaryRoom
from compaction_hooks.tokens.budget import SMALL_SUMMARY_TOKENS
from compaction_hooks.view.parts import OF_A_REQUEST
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import PROMPT_VERSION


@runtime_checkable
class SummaryStrategy(Protocol):
    """A strategy whose candidate needs a summary: it is asked twice."""

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        """Return the plan of a summary; None if there is nothing to summarize."""
        ...

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M] | None:
        """Return the candidate that a summary of its plan gives; None if the summary is of no use."""
        ...


@arguments.validate(
    {
        "add_continuation": arguments.SWITCH,
        "identifier_tokens": arguments.whole("tokens", least=0),  # None too: it is the default
    }
)
@dataclass(frozen=True, eq=False, repr=False)
class Summarize(Value):
    """Ask the summarizer for a summary that takes the place of all but the recent messages.

    It begins at the active view: messages that it covers need not be cleared or shortened before.

    Attributes:
        identifier_tokens: The most tokens of identifiers that are added to a summary which lacks them; 0: none. None: what a
            summary leaves of its allowance is filled with the user's requests, steps, findings and identifiers; with
            `summary_prompt`, 200 tokens of identifiers.
        add_continuation: Whether the summary ends with a line telling the model to go on, if no user message follows.
    """

    add_continuation: bool = True
    identifier_tokens: int | None = None

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        """Return the plan of a summary; None if no message before the recent ones may be left out."""
        plan = plan_summary(snapshot, goal)
        return plan and replace(plan, identifier_tokens=self.identifier_tokens)

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M]:
        """Return the view in which the summary takes the place of the messages that the plan covers."""
        return summary_candidate(snapshot, goal, plan, summary, add_continuation=self.add_continuation)


def summary_candidate(
    snapshot: Snapshot[M],
    goal: Goal[M],
    plan: SummaryPlan,
    summary: Summarized,
    *,
    add_continuation: bool,
) -> Candidate[M]:
    """Return the candidate of a summary, with those reductions of the active view that lie in the kept messages."""
    covered_digest = snapshot.history.digest_before(plan.cut)
    assert covered_digest is not None  # a cut lies between runs of this history
    unseen = plan.host_count(summary.unseen) + (snapshot.record.unseen_message_count if snapshot.record else 0)

    frame = plan.frame._replace(
        covered=plan.host_messages,
        unseen=unseen,
        continuation=add_continuation and not plan.ends_with_user,
        is_short=plan.allowance < SMALL_SUMMARY_TOKENS,
    )
    text = summary.text
    if summary.native is None and not summary.is_placeholder:
        text = complete(summary, plan.facts, SummaryRoom(snapshot, goal, plan, frame))

    draft = next_record(snapshot, goal)
    record = replace(
        draft,
        prompt_version=PROMPT_VERSION,
        summary=frame.add_sections(text),
        previous_summary=plan.previous_summary,
        rendered=frame.render(text),
        compacted_message_count=plan.host_messages,
        unseen_message_count=unseen,
        covered_runs=plan.cut,
        covered_digest=covered_digest,
        pins=plan.pins,
        read_files=plan.files.read,
        modified_files=plan.files.modified,
        digest=plan.digest,
        usage=summary.usage,
        native=summary.native,
        reductions=(),
    )

    kept = [item for item in draft.reductions if item.run >= plan.cut]
    # A stored view has no longer the text of a pin that it shows shortened: what the record said of it stays.
    stored = {pin.run for pin in plan.pins if pin.shown_digest and pin.run < snapshot.history.runs_before_list}
    kept += [item for item in draft.reductions if item.run in stored and item.kind in OF_A_REQUEST]
    reduced = with_reductions(record, [*kept, *plan.reductions])
    return Candidate(snapshot=snapshot, record=reduced, is_enough=not plan.reaches_target)


@arguments.validate({"add_continuation": arguments.SWITCH})
@dataclass(frozen=True, eq=False, repr=False)
class DropOldest(Value):
    """Drop all but the recent messages, if a summary of them failed.

    It begins at the active view, and proposes nothing if the candidate so far covers as much and may be sent.

    Attributes:
        add_continuation: Whether the extract ends with a line telling the model to go on, if no user message follows.
    """

    add_continuation: bool = True

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> SummaryPlan | None:
        """Return the plan of an extract; None if the candidate so far covers as much, or nothing may be left out."""
        plan = plan_summary(snapshot, goal)
        if plan is None or (goal.start and goal.may_send_start and goal.start.record.covered_runs >= plan.cut):
            return None
        return replace(plan, needs_model=False, allowance=plan.allowance - snapshot.text_tokens(drop_marker(plan)))

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M]:
        """Return the view without the messages that the plan covers."""
        marked = replace(summary, text=f"{drop_marker(plan)}\n\n{summary.text}")
        candidate = summary_candidate(snapshot, goal, plan, marked, add_continuation=self.add_continuation)
        return replace(candidate, is_enough=False)


def drop_marker(plan: SummaryPlan) -> str:
    """Return the line that counts the messages dropped without a summary, by role (Opal's `truncate`)."""
    roles = Counter(message.role for message in plan.messages)
    counts = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    return f"[Compacted {roles.total()} messages: {counts}]"
