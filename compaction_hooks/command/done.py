"""Replayed sessions of a command line."""

from __future__ import annotations

from dataclasses import dataclass

from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.replayed import Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A session of a file, replayed.

    Attributes:
        session: Without its messages, unless there are details.
        messages: How many messages it has.
        window_note: Why its own window is what it is; empty if the window was given.
        replays: One for each setting, in their order.
    """

    file: str
    session: RecordedSession
    messages: int
    window_note: str
    replays: tuple[Replay, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The sessions of some files, in their order, and one line for each that cannot be read or replayed.

    Attributes:
        ignored: Files in folders that are no sessions.
    """

    done: tuple[Done, ...] = ()
    errors: tuple[str, ...] = ()
    ignored: int = 0
