"""Every number that is policy, each with its source, and the budget of one context window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compaction_hooks.messages import Value

RESERVE_TOKENS = 16_384
"""Left free for the answer. klaude-code, pi and TunaCode use this number."""
RESERVE_RATIO = 0.25
"""The most the reserve may take of the window, so that small windows work (klaude-code)."""
TRIGGER_CAP_TOKENS = 120_000
"""The default trigger in windows that have a higher one: there it is 78 to 90 % cheaper than filling a million tokens, for one name
lost in 100 calls (docs/choosing-settings.md)."""
KEEP_RECENT_TOKENS = 20_000
"""Recent messages kept word for word. klaude-code, pi, TunaCode and Opal use this number."""
KEEP_RECENT_RATIO = 0.35
"""The most that is kept, as a part of the window, unless the settings say how much (klaude-code)."""
EMERGENCY_KEEP_RATIO = 0.20
"""The most that is kept after an overflow, as a part of the window (Opal)."""
MANUAL_KEEP_RATIO = 0.25
"""The most a manual compaction keeps of the present context if the caller names no number: the caller wants it smaller
(klaude-code keeps less on /compact too)."""
TARGET_RATIO = 0.60
"""The most a view may hold after a compaction, as a part of the trigger, so that the next one is far away."""
KEEP_USER_TOKENS = 20_000
"""The most tokens of the user's older messages that stay whole, unless the settings say how many (Codex keeps as many)."""
EMERGENCY_KEEP_USER_RATIO = 0.20
"""The part of these that may stay after an overflow, as of the recent messages."""
PROTECT_RESULT_TOKENS = 40_000
"""Newest tool results that are never cleared (OpenCode's prune)."""
PROTECT_RESULT_RATIO = 0.20
"""The most those results may take of the window."""
MINIMUM_CLEAR_TOKENS = 20_000
"""Clearing tool results must gain this much to be worth a changed prefix (OpenCode's prune)."""
MINIMUM_CLEAR_RATIO = 0.10
"""The gain that is enough in small windows, as a part of the window."""
SUMMARY_TOKENS = 4_096
"""The most a summary may hold, in every round: recorded agents' own summaries have a median of 2.7k tokens."""
SUMMARY_RATIO = 0.10
"""The most a summary may take of the window."""
SUMMARY_TARGET_RATIO = 0.25
"""The most a summary may take of the target: a low trigger makes the target small in a large window."""
SUMMARY_SUMMARIZER_RATIO = 0.20
"""The most a summary may take of the summarizer's window: its request holds the one before and leaves room for the new one."""
SUMMARY_LARGE_STEP_RATIO = 0.25
"""A second summary's share of what the target leaves next to a present step that is larger than what is kept: the rest is for
the markers of the next such steps, so that not each of them pays for a summary."""
IDENTIFIER_TOKENS = 200
"""The most tokens of identifiers that are added to a summary which lacks them: about 25 paths and ids."""
SMALL_SUMMARY_TOKENS = 500
"""Below this allowance the sentences around a summary are short, too: the long ones would take a fifth of its room and more."""
MINIMUM_GAIN_RATIO = 0.10
"""A compaction that saves less than this part of the replaced messages is thrown away."""
MINIMUM_GROWTH_RATIO = 0.20
"""After a compaction, the context must grow by this much before the threshold's next one, unless it would not fit the window."""
UNDO_GROWTH_RATIO = 0.10
"""After `undo()` the context must grow by this much before threshold compaction resumes."""


def default_keep_tokens(window: int) -> int:
    """Return the tokens to keep if no setting says how many."""
    return min(KEEP_RECENT_TOKENS, int(window * KEEP_RECENT_RATIO))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Budget(Value):
    """The limits of one context window, in tokens unless another unit is named.

    Attributes:
        window: The model's context window.
        input_limit: The part of the window that the input may take, so that the answer has its room.
        trigger: A view above this is compacted (strictly above).
        limit: The most that a compaction may leave: the trigger, as it would be without `trigger_cap_tokens`.
        target: A view holds at most this after a compaction.
        keep: Recent messages kept word for word.
        keep_turns: The user's last turns that are kept whole, a number of turns.
        emergency_keep: The tokens kept after an overflow.
        keep_user: The most of the user's older messages kept whole, as far as the target has room.
        protect_results: Newest tool results that are not cleared.
        minimum_clear: The least that clearing must gain.
        summary: The most a summary may hold.
    """

    window: int
    input_limit: int
    trigger: int
    target: int
    keep: int
    keep_turns: int
    emergency_keep: int
    keep_user: int
    protect_results: int
    minimum_clear: int
    summary: int
    limit: int

    @property
    def is_capped(self) -> bool:
        """Whether the trigger is the default one of larger windows (`trigger_cap_tokens`), which spares the present turn."""
        return self.trigger < self.limit

    def with_target(self, target: int | None) -> Budget:
        """Return the budget with another target, at most the trigger; with None this budget."""
        if target is None:
            return self
        target = min(target, self.trigger)
        return replace(self, target=target, summary=max(min(self.summary, int(target * SUMMARY_TARGET_RATIO)), 1))

    def with_keep(self, keep: int) -> Budget:
        """Return the budget whose target holds `keep` tokens next to a summary, up to 90 % of the trigger."""
        if keep <= default_keep_tokens(self.window):
            return self
        most = int(self.trigger * (1 - MINIMUM_GAIN_RATIO))
        return replace(self, target=max(self.target, min(keep + 2 * self.summary, most)))
