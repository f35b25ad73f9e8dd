"""The texts that come back behind a summary: those of the host, and the results that the tools' rules keep.

Their form and their room are in `view/carried.py`. Of the record before, or of a summary that the list begins with, the texts stay
that nothing replaces: so a worker without the host's function keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence

from compaction_hooks.files.operations import is_failure
from compaction_hooks.history.digests import canonical_arguments, text_digest
from compaction_hooks.messages import M, ToolCall, ToolResult
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.view.carried import CARRIED_RATIO, Block, host_block, render_carried, result_block
from compaction_hooks.view.parts import RESULTS, list_parts
from compaction_hooks.view.snapshot import Snapshot
from compaction_hooks.view.texts import HANDLE_DIGITS, quote_call


def carried_texts(snapshot: Snapshot[M], goal: Goal[M], runs: range, pinned: Sequence[int] = ()) -> str:
    """Return the texts that come back, in their tags: the host's, and the results of these runs that the tools' rules keep."""
    told, history, record = goal.told, snapshot.history, snapshot.record
    results: list[Block] = []
    if told.kept_tools:
        for part in list_parts(history, runs, RESULTS, has_recall=snapshot.has_recall):
            result, call = part.content, part.call
            if part.tool not in told.kept_tools or part.piece in pinned or call is None:
                continue
            if isinstance(result, ToolResult) and not is_failure(result):
                handle = part.handles.find(part) if part.handles else ""
                results.append(result_block(_name_call(call), part.text, handle))

    last, head = record.rendered if record else "", history.summary_piece
    if not last and head is not None:  # the summary of a record that is unknown here
        last = history.piece(head).message.text
    most = int(goal.budget.target * CARRIED_RATIO / snapshot.ratio)
    texts = [host_block(each.name, each.text, each.max_tokens) for each in told.carried]
    size = snapshot.estimator.estimate_tokens
    return render_carried(texts, results, last, most, size, keeps_last=told.keeps_last)


def _name_call(call: ToolCall) -> str:
    """Return a call in one line, with a digest of its arguments if the line has not all of them."""
    quoted = quote_call(call)
    all_of_it = text_digest(canonical_arguments(call.arguments))[:HANDLE_DIGITS]
    return f"{quoted} {all_of_it}" if quoted.endswith("…") else quoted
