"""The newest view of one conversation, plain and dressed, and what each was made of: most calls only add messages to its end.

1. A view is made again when what it was made of changes, or while the list ends before all that it changes; its references are used
   again.
2. The current request may be one that the view would not show, or show smaller, if it were not current. Then the view is made
   again when another request is current, as a new process makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, Generic, NamedTuple

from compaction_hooks.dress import Request, dress
from compaction_hooks.engine.reasoning import find_unpinned_runs
from compaction_hooks.history import History
from compaction_hooks.history.history import Log
from compaction_hooks.messages import M, Message
from compaction_hooks.view import ToolRule
from compaction_hooks.view.parts import OF_A_REQUEST, Reduction, shorten_large_results
from compaction_hooks.view.reasoning import NOT_STALE
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.references import View
from compaction_hooks.view.view_of import view_of


class Large(NamedTuple):
    """Reductions of the results that are too large for any view of a list.

    Attributes:
        made_for: What they depend on, besides the list's later pieces.
        piece_count: The pieces that were looked at.
    """

    made_for: object = None
    reductions: tuple[Reduction, ...] = ()
    piece_count: int = 0


class _KnownView(NamedTuple, Generic[M]):
    """A view, and what it was made of.

    Attributes:
        made_of: All that it depends on, besides the list.
        piece_count: The pieces that the list had.
        is_settled: Whether it is the view of all lists that grow from this one too.
        request: The current request, if the view shows it otherwise than if it were not current.
    """

    view: View[M]
    log: Log[M]
    made_of: object
    piece_count: int
    is_settled: bool
    request: int | None = None

    def is_of(self, history: History[M], made_of: object) -> bool:
        """Whether it is the view of this history, made of the same."""
        is_settled = self.is_settled and self.request in (None, history.request)
        is_same_list = self.log is history.log and (is_settled or self.piece_count == history.piece_count)
        return is_same_list and self.made_of == made_of


class Views(Generic[M]):
    """The newest view of one conversation.

    Attributes:
        large: The results that are too large for any view.
        unpinned: The runs of `find_unpinned_runs` in the newest view.
    """

    def __init__(self) -> None:
        self.large = Large()
        self.unpinned = NOT_STALE
        self._plain: _KnownView[M] | None = None
        self._dressed: _KnownView[M] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no view was made yet."""
        return self._dressed is None

    def view_for(self, request: Request[M], large: Large) -> View[M]:
        """Return the view of a record that is true of its history, as a request shows it."""
        history, record = request.history, request.record
        self.large = large
        plain = self._find_plain(request)

        # The id tells whether native items are shown, and does not depend on the runs.
        shown_id = record.as_shown_to(request.issuer, 0).id if record else None
        dressed_of = plain, shown_id, request.start, request.stale, request.unread, request.behind
        dressed = self._dressed
        if dressed is None or not dressed.is_of(history, dressed_of):
            earlier = dressed.view if dressed is not None and dressed.log is history.log else None
            view = dress(plain, request._replace(earlier=earlier))
            # While one of these runs is the last, it may get more messages.
            is_settled = max(request.stale.end, request.unread.end) < history.run_count
            dressed = self._dressed = _KnownView(view, history.log, dressed_of, history.piece_count, is_settled)
            self.unpinned = find_unpinned_runs(history, view)
        return dressed.view

    def _find_plain(self, request: Request[M]) -> View[M]:
        """Return the plain view, made again if it is not the one of this history and record."""
        history, record, known = request.history, request.record, self._plain
        if known is not None and known.is_of(history, _made_of(record, self.large)):
            return known.view

        earlier = known.view if known is not None and known.log is history.log else None
        view = view_of(history, record, request.estimate, earlier, self.large.reductions, request.format)
        self._keep(history, record, view)
        return view

    def keep_candidate(self, history: History[M], record: CompactionRecord, plain: View[M], dressed: View[M]) -> None:
        """Keep the views of a new record: the plain one is the next one, and the dressed one knows the covered cache mark."""
        self._keep(history, record, plain)
        self._dressed = _KnownView(dressed, history.log, None, history.piece_count, is_settled=False)

    def _keep(self, history: History[M], record: CompactionRecord | None, view: View[M]) -> None:
        """Keep a plain view: the next call most likely asks for it."""
        # A rewind may have cut off a part that is reduced: a list that grows again may have it again.
        reductions = (*self.large.reductions, *(record.reductions if record else ()))
        is_complete = all(item.run < history.run_count - 1 for item in reductions)
        request = history.request if _favors_request(history, view, reductions) else None
        made_of = _made_of(record, self.large)
        self._plain = _KnownView(view, history.log, made_of, history.piece_count, is_complete, request)

    def find_large(
        self,
        history: History[M],
        pins: Set[str],
        most_tokens: int,
        rules: Mapping[str, ToolRule],
        estimate: Callable[[Message], int],
        *,
        has_recall: bool,
    ) -> Large:
        """Return the reductions of the results that are too large for any view.

        Args:
            pins: The digests of the messages that stay whole.
            most_tokens: The most tokens of a result, by estimate before calibration.
            rules: By tool name, the rule for its results.
        """
        made_for = (history.log, most_tokens, has_recall, pins)
        known = self.large
        if known.made_for != made_for or known.piece_count > history.piece_count:
            known = Large()

        new = shorten_large_results(
            history,
            known.piece_count,
            most_tokens,
            estimate,
            rules=rules,
            pins=pins,
            has_recall=has_recall,
        )
        return Large(made_for, (*known.reductions, *new), history.piece_count)


def _made_of(record: CompactionRecord | None, large: Large) -> object:
    return record.id if record else None, large.reductions


def _favors_request(history: History[Any], view: View[Any], reductions: Iterable[Reduction]) -> bool:
    """Whether a view shows the current request, or shows it in full, only because it is current."""
    request = history.request
    if request is None:
        return False
    run = history.run_of(request)
    return request < view.cut or any(item.kind in OF_A_REQUEST and item.run == run for item in reductions)
