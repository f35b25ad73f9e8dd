"""Replays as plain JSON. While `VERSION` is the same, fields may be added; none is renamed or removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.replayed import Cost, Replay, ReplayedCompaction, Totals, total

VERSION = 2


def report(replays: Sequence[tuple[str, RecordedSession, Replay]], errors: Sequence[str]) -> dict[str, object]:
    """Return one object for each session in the order given, the sums, and the errors of bad files."""
    return {
        "version": VERSION,
        "sessions": [_session(file, session, replay) for file, session, replay in replays],
        "total": _totals(total(replay for _, _, replay in replays)),
        "errors": list(errors),
    }


def _session(file: str, session: RecordedSession, replay: Replay) -> dict[str, object]:
    return {
        "file": file,
        "id": session.id,
        "format": session.format_name,
        "model": session.model,
        "messages": len(session.messages),
        "window": replay.window,
        "trigger": replay.trigger,
        "used_recorded_usage": replay.used_recorded_usage,
        "calls": [asdict(call) for call in replay.calls],
        "compactions": [_compaction(compaction) for compaction in replay.compactions],
        "unfit": [asdict(call) for call in replay.unfit],
        "put_off": replay.put_off,
        "probes": [asdict(probe) for probe in replay.probes],
        "costs": [_cost(cost) for cost in replay.costs],
        "total": _totals(replay.totals),
        "recorded_compactions": [asdict(compaction) for compaction in session.compactions],
        "notes": list(session.skipped),
    }


def _compaction(compaction: ReplayedCompaction) -> dict[str, object]:
    fields = asdict(replace(compaction, details=None))
    del fields["details"]
    return {**fields, "reason": compaction.reason.value}


def _cost(cost: Cost) -> dict[str, object]:
    fields = asdict(cost)
    del fields["calls"], fields["calls_without"]
    return {**fields, "with_compaction": cost.with_compaction, "without_compaction": cost.without_compaction}


def _totals(totals: Totals) -> dict[str, object]:
    return {**asdict(totals), "saving": round(totals.saving, 4)}
