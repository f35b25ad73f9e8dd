"""The content of a report, as plain data that JSON can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Final

from compaction_hooks.messages import Message, Text
from compaction_hooks.recall import CoveredPart
from compaction_hooks.replay.needs import is_in
from compaction_hooks.replay.page.sent import read_view, sort_messages
from compaction_hooks.replay.page.shape import (
    CompactionData,
    ConversationData,
    CostData,
    FilesData,
    LostData,
    ReportData,
    SessionData,
    ViewData,
)
from compaction_hooks.replay.page.source import Done, Source, details_of, read_message
from compaction_hooks.replay.page.texts import visible
from compaction_hooks.replay.replayed import Cost, ReplayedCompaction

SHOWN_FILES: Final = 30
"""Of the files that a summary has, as many are named; a long session has thousands, again at each compaction."""

_ESCAPE: Final = re.compile(r"\\[bfnrt]")


def read_report(replays: Sequence[Done], *, with_text: bool = True) -> ReportData:
    """Return the content of a report of these replays, in their order.

    Args:
        with_text: Whether to include the text of the conversations. Without it, the report has numbers, roles, the names of models
            and of file formats, and the controller's reasons: no message, summary, identifier, file, tool, probe or note.

    Raises:
        ValueError: a replay was not asked for details.
    """
    sources = [Source(number, *done, with_text) for number, done in enumerate(replays, 1)]
    return {"has_text": with_text, "sessions": [_session(each) for each in sources]}


def _session(of: Source) -> SessionData:
    session, replay, totals = of.session, of.replay, of.replay.totals
    views = [read_view(of, compaction) for compaction in replay.compactions]
    return {
        "name": of.name,
        "file": of.file,
        "format": session.format_name,
        "model": visible(session.model or ""),
        "messages": len(session.messages),
        "window": replay.window,
        "trigger": replay.trigger,
        "totals": {
            "calls": totals.calls,
            "compactions": totals.compactions,
            "overflows_without": totals.overflows_without,
            "tokens_sent": totals.tokens_sent,
            "tokens_without": totals.tokens_without,
            "used_later": totals.used_later,
            "names_lost": totals.used_later - totals.kept,
            "constraints": totals.constraints,
            "constraints_lost": totals.lost_constraints,
            "probes": totals.probes,
            "probes_kept": totals.probes_kept,
        },
        "saving": totals.saving,
        "compactions": [_compaction(of, *each) for each in zip(replay.compactions, views, strict=True)],
        "costs": [_cost(cost) for cost in replay.costs],
        "probes": [
            {
                "question": of.text(probe.question),
                "outcome": "kept" if probe.is_kept else "lost" if probe.is_in_session else "not in the session",
            }
            for probe in replay.probes
        ],
        "unfit": [{"call": call.call, "tokens": call.tokens, "error": of.text(call.error)} for call in replay.unfit],
        "put_off": replay.put_off,
        "notes": of.texts(session.skipped),
        "used_recorded_usage": replay.used_recorded_usage,
        "conversation": _conversation(of, views),
    }


def _cost(cost: Cost) -> CostData:
    return {
        "model": visible(cost.model),
        "is_recorded": cost.is_recorded,
        "sent": [round(amount, 6) for amount in accumulate(cost.calls)],
        "without": [round(amount, 6) for amount in accumulate(cost.calls_without)],
        "summaries": cost.summaries,
    }


def _conversation(of: Source, views: list[ViewData]) -> ConversationData:
    session, replay = of.session, of.replay
    system = None if session.system is None else Message(role="system", parts=(Text(session.system),))
    return {
        "system": None if system is None else read_message(of, [system]),
        "messages": [read_message(of, pieces) for pieces in of.pieces],
        "calls": [call.index for call in replay.calls],
        "sent": [call.tokens_sent for call in replay.calls],
        "without": [call.tokens_without for call in replay.calls],
        "views": views,
    }


def _compaction(of: Source, compaction: ReplayedCompaction, view: ViewData) -> CompactionData:
    details, later = details_of(compaction), compaction.used_later
    return {
        "call": compaction.call,
        "reason": compaction.reason.value,
        "tokens_before": compaction.tokens_before,
        "tokens_after": compaction.tokens_after,
        "counts": {
            "summarized": compaction.summarized_messages,
            "as_is": compaction.kept_messages,
            "pinned": compaction.pinned_messages,
            "cleared": compaction.cleared_results,
            "shortened": compaction.shortened_parts,
            "names_kept": len(later.kept),
            "names_lost": len(later.lost),
            "constraints": len(compaction.constraints),
            "constraints_lost": len(compaction.lost_constraints),
        },
        "messages": {name: write_ranges(found) for name, found in sort_messages(of, view).items()},
        "used_fallback": compaction.used_fallback,
        "summary": of.text(compaction.summary),
        "files": {"read": _files(of, compaction.read_files), "modified": _files(of, compaction.modified_files)},
        "names_kept": of.texts(later.kept),
        "names_lost": _find_lost(of, later.lost, details.covered),
        "constraints_lost": _find_lost(of, compaction.lost_constraints, details.covered),
        "reasons": _reasons(of, details.reasons),
    }


def _files(of: Source, names: Sequence[str]) -> FilesData:
    return {"count": len(names), "names": of.texts(names[:SHOWN_FILES])}


def write_ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as text.

    >>> write_ranges([1, 2, 3, 7, 9, 10])
    '1–3, 7, 9–10'
    """
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _find_lost(of: Source, texts: Sequence[str], covered: Sequence[CoveredPart]) -> list[LostData]:
    """Return lost identifiers or constraints, each with the handle of the newest covered part that has it."""
    if not of.has_text:
        return []
    return [
        {
            "text": visible(text),
            "handle": next((part.handle for part in reversed(covered) if _has(part, text)), ""),
        }
        for text in texts
    ]


def _has(part: CoveredPart, text: str) -> bool:
    # In the JSON of arguments, a line break is two characters, and the second one a letter.
    return is_in(text, _ESCAPE.sub(" ", part.text) if part.kind == "arguments" else part.text)


def _reasons(of: Source, lines: Iterable[str]) -> list[str]:
    """Return the controller's log lines without the session's name. They hold no text of messages."""
    return [visible(line.removeprefix(f"session {of.session.id}: ")) for line in lines]
