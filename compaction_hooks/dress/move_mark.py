"""Cache marks: the newest mark of the messages that a summary covers goes to the summary, as long as its message has it.

Providers allow few marks, and the host's caching is to go on behind the summary. The mark is looked for once; `write` asks the
present message for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from compaction_hooks.dress.request import Request
from compaction_hooks.history import History
from compaction_hooks.messages import M
from compaction_hooks.view.references import View


def move_mark(view: View[M], request: Request[M]) -> View[M]:
    """Return the view with the newest mark of the covered messages at its summary."""
    summary, history, format = view.summary, request.history, request.format
    if summary is None:
        return view
    hosts = _find_covered(view, history, request.earlier)
    marked = next((host for host in hosts if format.cache_mark(history.host(host)) is not None), None)
    if marked is None:
        return view

    with_mark = replace(summary, mark=marked)
    return view.change(references=tuple(with_mark if each is summary else each for each in view.references))


def _find_covered(view: View[M], history: History[M], earlier: View[M] | None) -> Iterator[int]:
    """Yield the covered host messages that may have a mark, the newest first.

    Those before an earlier cut are not searched again: the earlier view knows their mark.
    """
    start, marked = 0, list[int]()
    if earlier is not None and 0 < earlier.cut <= view.cut and earlier.cut < history.piece_count:
        start = history.piece(earlier.cut).host
        known = earlier.summary.mark if earlier.summary is not None else None
        marked = [] if known is None else [known]

    end = history.host_of(view.cut)
    staying = {each.host for each in view.kept if each.pieces[0] < view.cut}
    yield from (host for host in chain(reversed(range(start, end)), marked) if host not in staying)
