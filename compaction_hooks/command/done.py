"""Replayed sessions of a command line."""

from __future__ import annotations

from dataclasses import dataclass

from compaction_hooks.replay.compare import Setting
from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.replayed import Replay
from compaction_hooks.replay.windows import SessionWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A session of a file, replayed.

    Attributes:
        session: Without its messages, unless there are details.
        messages: How many messages it has.
        window: Its own window; None if the window was given.
        replays: One for each setting of the batch, in their order.
    """

    file: str
    session: RecordedSession
    messages: int
    window: SessionWindow | None
    replays: tuple[Replay, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The sessions of some files, in their order, and one line for each that cannot be read or replayed.

    Attributes:
        settings: Those that all these sessions can be replayed with.
        ignored: Files in folders that are no sessions.
    """

    settings: tuple[Setting, ...]
    done: tuple[Done, ...] = ()
    errors: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
