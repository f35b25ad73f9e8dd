"""Guards around the host's triggers."""

from __future__ import annotations

from typing import cast

from compaction_hooks.errors import describe_error
from compaction_hooks.runtime.guards import FirstWarning
from compaction_hooks.triggers import AnyTrigger, Due, ReserveTrigger, SnapshotFigures, Trigger
from compaction_hooks.triggers.thresholds import ThresholdTrigger, parts_of


class GuardedTrigger:
    """A trigger of the host that never fails a call: `ReserveTrigger` answers if it raises or answers something else."""

    def __init__(self, trigger: Trigger) -> None:
        self._trigger = trigger
        self._warn = FirstWarning("trigger %s failed (%s): ReserveTrigger() decides")

    def due(self, snapshot: SnapshotFigures, /) -> Due | None:
        """Return the answer of the host's trigger, or that of `ReserveTrigger`; the first failure is logged."""
        try:
            due = cast("object", self._trigger.due(snapshot))
            if due is None or isinstance(due, Due):
                return due
            why = f"due() answered {type(due).__name__}, neither Due(...) nor None"
        except Exception as error:  # noqa: BLE001 - a host's trigger may raise anything
            why = describe_error(error)
        self._warn(type(self._trigger).__name__, why)
        return ReserveTrigger().due(snapshot)


def guard_trigger(trigger: Trigger) -> Trigger:
    """Return a trigger with a guard around each part of the host; the parts of this package need none."""
    parts = (part if isinstance(part, ThresholdTrigger) else GuardedTrigger(part) for part in parts_of(trigger))
    return AnyTrigger(tuple(parts))
