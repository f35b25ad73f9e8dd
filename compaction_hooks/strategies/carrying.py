"""The texts that come back behind a summary: those of the host, and the results that the tools' rules keep.

Their form and their room are in `view/carried.py`. Of the record before, or of a summary that the list begins with, the texts stay
that nothing replaces: so a worker without the host's function keeps them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Generic

from compaction_hooks.files.operations import is_failure
from compaction_hooks.history.digests import canonical_arguments, text_digest
from compaction_hooks.messages import M, ToolCall, ToolResult
from compaction_hooks.recall.parts import is_own_text
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.text.escaping import replace_halves
from compaction_hooks.view.carried import CARRIED_RATIO, Block, has_results, host_block, render_carried, result_block
from compaction_hooks.view.parts import RESULTS, Reducible, list_parts
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import HANDLE_DIGITS, quote_call


class Carrying(Generic[M]):
    """The texts that may come back behind a summary: those of the host, and the results that the tools' rules keep."""

    def __init__(self, snapshot: Snapshot[M], goal: Goal[M]) -> None:
        self._told, self._size = goal.told, snapshot.estimator.estimate_tokens
        self._most = int(goal.budget.target * CARRIED_RATIO / snapshot.ratio)
        self._last = _find_last(snapshot)
        # If the last summary has none, it had no room for them, or is of a worker without the rule: all are read again.
        first = snapshot.covered_runs if has_results(self._last) else 0
        self._results = [*_find_results(snapshot, first, goal.told.kept_tools)]

    def render(self, cut: int, pinned: Sequence[int]) -> str:
        """Return the texts that come back, in their tags.

        Args:
            cut: The first run that is not covered.
            pinned: The pieces before it that stay whole.
        """
        return self._render([block for part, block in self._results if part.run < cut and part.piece not in pinned])

    def render_largest(self) -> str:
        """Return the texts as large as they may be: the cut is not chosen yet."""
        return self._render([block for _, block in self._results], takes_largest=True)

    def _render(self, results: Sequence[Block], *, takes_largest: bool = False) -> str:
        return render_carried(
            [host_block(each.name, each.text, each.max_tokens) for each in self._told.carried],
            results,
            self._last,
            self._most,
            self._size,
            keeps_last=self._told.keeps_last,
            takes_largest=takes_largest,
        )


def _find_last(snapshot: Snapshot[M]) -> str:
    """Return the message of the summary before: the record's, or one of ours at the head of the list that has no record here."""
    history, record = snapshot.history, snapshot.record
    if record is not None and record.rendered:
        return record.rendered
    head = history.log.summary_piece
    return "" if head is None else history.piece(head).message.text


def _find_results(snapshot: Snapshot[M], first: int, tools: Collection[str]) -> Iterator[tuple[Reducible, Block]]:
    """Yield the results of these tools from a run on, oldest first; not those of failed calls, nor lines in place of results."""
    history = snapshot.history
    runs = range(first, history.run_count) if tools else ()
    for part in list_parts(history, runs, RESULTS, has_recall=snapshot.has_recall):
        result, call = part.content, part.call
        if part.tool not in tools or call is None or is_own_text(history, part):
            continue
        if isinstance(result, ToolResult) and not is_failure(result):
            handle = part.handles.find(part) if part.handles else ""
            yield part, result_block(replace_halves(_name_call(call)), replace_halves(part.text), handle)


def _name_call(call: ToolCall) -> str:
    """Return a call in one line, with a digest: the line has no names of arguments, and may be cut."""
    arguments = canonical_arguments(call.arguments)  # the same ones in another order are the same call
    return f"{quote_call(replace(call, arguments=arguments))} {text_digest(arguments)[:HANDLE_DIGITS]}"
