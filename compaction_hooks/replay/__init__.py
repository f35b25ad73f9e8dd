"""Replay of recorded sessions through a controller. Needs no extra; the command does: `pip install 'compaction-hooks[cli]'`."""

from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import Probe, RecordedCall, RecordedCompaction, RecordedSession
from compaction_hooks.replay.replayed import (
    CompactionDetails,
    Cost,
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

__all__ = [
    "CompactionDetails",
    "Cost",
    "Probe",
    "RecordedCall",
    "RecordedCompaction",
    "RecordedSession",
    "Replay",
    "ReplayError",
    "ReplayedCall",
    "ReplayedCompaction",
    "ReplayedProbe",
    "Totals",
    "UnfitCall",
    "UsedLater",
    "read_sessions",
    "replay",
    "total",
]
