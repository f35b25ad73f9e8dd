"""Replay of recorded sessions through a controller. Needs no extra; the command does: `pip install 'compaction-hooks[cli]'`."""

from compaction_hooks.replay.errors import NothingToReplayError, ReplayError
from compaction_hooks.replay.limits import Finding, Limits, Verdict, judge
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import Probe, RecordedCall, RecordedCompaction, RecordedSession
from compaction_hooks.replay.replayed import (
    CompactionDetails,
    Cost,
    FailedSummary,
    Replay,
    ReplayedCall,
    ReplayedCompaction,
    ReplayedProbe,
    Totals,
    UnfitCall,
    UsedLater,
    total,
)
from compaction_hooks.replay.run import replay
from compaction_hooks.replay.windows import DEFAULT_WINDOW, SessionWindow, window_of

__all__ = [
    "DEFAULT_WINDOW",
    "CompactionDetails",
    "Cost",
    "FailedSummary",
    "Finding",
    "Limits",
    "NothingToReplayError",
    "Probe",
    "RecordedCall",
    "RecordedCompaction",
    "RecordedSession",
    "Replay",
    "ReplayError",
    "ReplayedCall",
    "ReplayedCompaction",
    "ReplayedProbe",
    "SessionWindow",
    "Totals",
    "UnfitCall",
    "UsedLater",
    "Verdict",
    "judge",
    "read_sessions",
    "replay",
    "total",
    "window_of",
]
