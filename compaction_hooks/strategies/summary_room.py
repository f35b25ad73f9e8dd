"""The room that a summary has in a view, for `complete`: its sizes and limits there, and all that the conversation says so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from compaction_hooks.history.history import UserWords
from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.strategies.reduce_parts import most_gain
from compaction_hooks.strategies.summary_plan import SummaryFrame, SummaryPlan, find_head_summary
from compaction_hooks.strategies.user_messages import read_user_words
from compaction_hooks.view.snapshot import Snapshot

FILLED_RATIO = 0.5
"""The most that a summary may have with what is filled in, next to the size of the one before, as a part of the other messages
that it replaces: else nothing is gained."""


@dataclass(frozen=True)
class SummaryRoom(Generic[M]):
    """The room of a plan's summary in the view that it makes.

    Attributes:
        frame: All that is around the summary: the plan's, with what is known of the summary.
    """

    snapshot: Snapshot[M]
    goal: Goal[M]
    plan: SummaryPlan
    frame: SummaryFrame

    @property
    def allowance(self) -> int:
        """The most tokens of the summary alone."""
        return self.plan.allowance

    @property
    def identifier_tokens(self) -> int | None:
        """The most tokens of identifiers that are added; None: all that is left, or a few in a form of its own."""
        return self.plan.identifier_tokens

    @property
    def tags(self) -> str:
        """The file lists that follow it."""
        return self.frame.tags

    @property
    def has_recall(self) -> bool:
        """Whether the recall tool finds the messages that the summary covers."""
        return self.frame.has_recall

    def size(self, text: str, /) -> int:
        """Return the tokens of a summary alone."""
        return self.snapshot.estimator.estimate_tokens(text)

    def message_size(self, text: str, /) -> int:
        """Return the tokens of the message with a summary."""
        return self.frame.size(self.snapshot, text)

    def find_limits(self, message_tokens: int, heading_tokens: int, /) -> tuple[int | None, int]:
        """Return the most tokens of that message with words of the user, None without a limit, and with all other facts."""
        snapshot = self.snapshot
        start = snapshot.history.run_start(self.plan.cut)
        kept = snapshot.history.tokens(start) - self.plan.saved_tokens
        staying = self.plan.tokens_above + kept

        # The view is to meet the target: the message has what the others leave of it.
        most = snapshot.room(self.goal.budget.target) - staying
        excess = message_tokens + heading_tokens - most
        if 0 < excess <= kept:  # the kept messages are shortened next
            most += most_gain(snapshot, self.goal, self.plan.cut)
        # Next to a system prompt larger than the target, the user's words have the room that any summary has.
        most_of_words = None if excess > kept else most

        # Other facts fill it only so far that the compaction still gains: those of the summary before should stay.
        earlier_tokens = self.frame.size(snapshot, self.plan.previous_summary or "")
        replaced = snapshot.estimated - staying
        filled = earlier_tokens + int((replaced - earlier_tokens) * FILLED_RATIO)
        return most_of_words, min(most, max(filled, message_tokens))

    def find_words(self) -> Sequence[UserWords]:
        """Return the user's words before the cut, oldest first, without those in messages that stay."""
        snapshot, plan, history = self.snapshot, self.plan, self.snapshot.history
        start = history.run_start(plan.cut)
        found: list[UserWords] = []
        if history.runs_before_list or snapshot.readable_native is not None or find_head_summary(history) is not None:
            # The list lacks older messages: their words are in the earlier summary, among those of its writer.
            found.append(plan.facts.earlier_words)
        said = read_user_words(history, start)
        return found + [words for index, words in said.items() if index < start and index not in plan.pinned]
