"""Drop the oldest messages: a line that counts them and an extract by rule take their place. No model is asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from compaction_hooks import arguments
from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Candidate, Goal
from compaction_hooks.strategies.summarize import summary_candidate
from compaction_hooks.strategies.summary_plan import Summarized, SummaryPlan, plan_summary
from compaction_hooks.view.snapshot import Snapshot


@arguments.validate({"add_continuation": arguments.SWITCH})
@dataclass(frozen=True, slots=True)
class DropOldest:
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
        room = plan.allowance - snapshot.text_tokens(drop_marker(plan))
        return replace(plan, needs_model=False, allowance=room)

    def from_summary(
        self, snapshot: Snapshot[M], goal: Goal[M], plan: SummaryPlan, summary: Summarized, /
    ) -> Candidate[M]:
        """Return the view without the messages that the plan covers."""
        marked = replace(summary, text=f"{drop_marker(plan)}\n\n{summary.text}")
        candidate = summary_candidate(snapshot, goal, plan, marked, add_continuation=self.add_continuation)
        return replace(candidate, is_enough=False)


def drop_marker(plan: SummaryPlan) -> str:
    """Return the line that counts the messages dropped without a summary, by role (Opal's `truncate`)."""
    messages = plan.messages
    roles = Counter(message.role for message in messages)
    counts = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    return f"[Compacted {len(messages)} messages: {counts}]"
