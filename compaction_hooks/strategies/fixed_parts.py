"""The parts of a request that no strategy makes smaller."""

from __future__ import annotations

import math

from compaction_hooks.messages import M
from compaction_hooks.strategies.summary_plan import find_pinned
from compaction_hooks.view.snapshot import Snapshot


def largest_fixed_part(snapshot: Snapshot[M]) -> tuple[str, int]:
    """Return the name and size (tokens of the model) of the largest part that cannot shrink."""
    history = snapshot.history
    last = history.run_start(max((*history.boundaries(snapshot.covered_runs), snapshot.covered_runs)))
    request = history.request
    sizes = {
        "system prompt": sum(history.piece(i).tokens for i in history.systems())
        + snapshot.fixed_tokens
        - snapshot.tools_tokens,
        "tools": snapshot.tools_tokens,
        "current request": history.piece(request).tokens if request is not None else 0,
        "pins": sum(history.piece(i).tokens for i in find_pinned(snapshot, last) if i != request),
        "last step": sum(p.tokens for i, p in enumerate(history.pieces(last), last) if i != request),
    }
    counted = {name: math.ceil(size * snapshot.ratio) for name, size in sizes.items()}
    counted["hidden prefix"] = snapshot.overhead_tokens
    part = max(counted, key=lambda name: counted[name])
    return part, counted[part]
