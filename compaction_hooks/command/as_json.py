"""Replays as plain JSON. While `VERSION` is the same, fields may be added; none is renamed or removed."""

from __future__ import annotations

from dataclasses import asdict, replace

from compaction_hooks.command.done import Batch, Done
from compaction_hooks.replay.compare import advise, summarize
from compaction_hooks.replay.replayed import Cost, Replay, ReplayedCompaction, Totals

VERSION = 2


def report(batch: Batch) -> dict[str, object]:
    """Return one object for each session and setting in the order given, the sums by setting, and the errors of bad files."""
    settings = batch.settings
    outcomes = [summarize(each.name, [one.replays[at] for one in batch.done]) for at, each in enumerate(settings)]
    names = [setting.name for setting in settings]

    return {
        "version": VERSION,
        "sessions": [
            _session(name, one, replay) for one in batch.done for name, replay in zip(names, one.replays, strict=True)
        ],
        "settings": [
            {"setting": each.name, "total": _totals(each.totals), "money": [asdict(one) for one in each.money]}
            for each in outcomes
        ],
        "advice": advise(outcomes) if len(settings) > 1 and batch.done else None,
        "errors": list(batch.errors),
        "ignored": list(batch.ignored),
    }


def _session(setting: str, done: Done, replay: Replay) -> dict[str, object]:
    session = done.session
    return {
        "setting": setting,
        "file": done.file,
        "id": session.id,
        "format": session.format_name,
        "model": session.model,
        "messages": done.messages,
        "window": replay.window,
        "trigger": replay.trigger,
        "keep": replay.keep,
        "hidden_tokens": replay.hidden_tokens,
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
        "unread": list(session.unread),
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
