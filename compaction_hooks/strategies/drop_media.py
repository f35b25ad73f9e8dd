"""Leave images and documents out of a view: a line that names them takes their place. No model is asked."""

from __future__ import annotations

from dataclasses import dataclass

from compaction_hooks.messages import M, ToolCall
from compaction_hooks.strategies.candidate import Candidate, Goal, find_parts, reduce
from compaction_hooks.tokens.media import find_media
from compaction_hooks.view.parts import MEDIA, Reduction
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.snapshot import Snapshot

BYTES_SLACK = 0.1
"""The part of a limit in bytes for the content that neutral messages do not have: JSON's own characters, tools, reasoning."""


@dataclass(frozen=True, slots=True)
class DropMedia:
    """Leave out as many media of users and tools as must go.

    There are three more ways in which a view has an image no longer: the cut is behind it; its result was cleared or shortened,
    which drops the media of the result too; or it is before a summary of the provider's own.

    Attributes:
        excess_tokens: The tokens that the view must lose, by estimate before calibration: the largest media go first, of equal ones
            the oldest. None: the provider refused the request for its bytes: the oldest go, as many as exceed `goal.limit_bytes`,
            or half of them if it is not known.
    """

    excess_tokens: int | None = None

    def propose(self, snapshot: Snapshot[M], goal: Goal[M], /) -> Candidate[M] | None:
        """Return the candidate so far, or the active view, without these media; None without any."""
        sizes = [(part, part.tokens) for part in find_parts(snapshot, goal, MEDIA)]
        excess = self.excess_tokens
        if excess is None:
            sizes = [(part, part.shown_chars) for part, _ in sizes]
            excess = _excess_chars(snapshot, goal) or sum(size for _, size in sizes) // 2
        else:
            sizes.sort(key=lambda pair: -pair[1])

        chosen: list[Reduction] = []
        for part, saved in sizes:
            if excess > 0 and saved > 0:
                chosen.append(part.reduction())
                excess -= saved
        return reduce(snapshot, goal, chosen)


def _excess_chars(snapshot: Snapshot[M], goal: Goal[M]) -> int:
    """Return the characters above the limit; 0 if no limit is known, or the excess is not in the messages."""
    if goal.limit_bytes is None:
        return 0
    return max(0, view_chars(snapshot, snapshot.projection) - chars_within(goal.limit_bytes))


def chars_within(limit_bytes: int) -> int:
    """Return how many characters the messages of a request may have under a limit in bytes."""
    return int(limit_bytes * (1 - BYTES_SLACK))


def view_chars(snapshot: Snapshot[M], projection: Projection[M]) -> int:
    """Return the characters that the messages of a view take in a request, without its own syntax."""
    parts = [part for message in snapshot.neutral_view(projection) for part in message.parts]
    texts = [part.arguments if isinstance(part, ToolCall) else getattr(part, "text", "") for part in parts]
    return sum(map(len, texts)) + sum(media.data_chars for part in parts for media in find_media(part))
