"""Dressers: what the provider of one request must see otherwise. Each is one file with its rule, and a pure function of a view.

Their order, with its reason:

1. `begin`: the provider's own summary in the host's list moves the cut, and all others work behind the cut.
2. `leave_out`: reasoning that is no longer behind its own messages goes out of what then stays.
3. `move_mark`: the cache mark of a covered message goes to the summary.
4. `show_items`: the provider's own items take the summary's place late, so that the list to store is this view with the summary.
5. `insert`: texts of ours behind a run, once nothing more moves.
6. `ignore`: last, since it weighs what all others left.
"""

from __future__ import annotations

from typing import Final

from compaction_hooks.dress.begin import begin
from compaction_hooks.dress.ignore import ignore
from compaction_hooks.dress.insert import insert
from compaction_hooks.dress.leave_out import leave_out
from compaction_hooks.dress.move_mark import move_mark
from compaction_hooks.dress.request import Behind, Request
from compaction_hooks.dress.show_items import show_items
from compaction_hooks.messages import M
from compaction_hooks.view.references import View

__all__ = ["DRESSERS", "Behind", "Request", "dress"]

DRESSERS: Final = (begin, leave_out, move_mark, show_items, insert, ignore)


def dress(view: View[M], request: Request[M]) -> View[M]:
    """Return the view of the request's record as the request shows it."""
    for dresser in DRESSERS:
        view = dresser(view, request)
    return view
