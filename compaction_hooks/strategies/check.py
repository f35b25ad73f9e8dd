"""Whether a candidate may be sent."""

from __future__ import annotations

from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Candidate
from compaction_hooks.tokens.budget import MINIMUM_GAIN_RATIO
from compaction_hooks.validity import is_alike, needs_merging, problems, worsened
from compaction_hooks.view.projection import Projection
from compaction_hooks.view.snapshot import Snapshot


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
    if _only_shortens(snapshot, candidate.projection) and not snapshot.binds_reasoning:
        return None
    provider, after = snapshot.format.provider, snapshot.neutral_view(candidate.projection)
    # The model has not answered this view yet: all reasoning in it was made after other messages.
    is_bare = candidate.projection.stale.end >= snapshot.history.run_count
    stale = range(len(after) if is_bare else 0)
    if not problems(after, provider, stale=stale):
        return None
    broken = worsened(snapshot.neutral_view(snapshot.projection), after, provider, stale=stale)
    if needs_merging(snapshot.format):  # messages of one speaker in a row are sent as one
        broken = [one for one in broken if one.rule != "role_repeated"]
    return f"invalid: {broken[0].rule}" if broken else None


def _only_shortens(snapshot: Snapshot[M], projection: Projection[M]) -> bool:
    """Return whether a view is the active one with other texts in some parts: a provider that accepts one accepts the other.

    Only newly rewritten messages are compared.
    """
    history, active = snapshot.history, snapshot.projection
    if (projection.cut, projection.pinned) != (active.cut, active.pinned):
        return False
    fresh = [(host, shown) for host, shown in projection.rewritten.items() if active.rewritten.get(host) is not shown]
    return all(
        is_alike([history.piece(index).message for index in history.host_pieces(host)], shown.pieces)
        for host, shown in fresh
    )
