"""Conversations nobody has asked about for a while keep their records only."""

from __future__ import annotations

from collections import deque
from typing import Any, Final
from weakref import ref

from compaction_hooks.session import CompactionSession
from compaction_hooks.values import dataclass

IDLE_SECONDS: Final = 300.0
"""So long without a call, and a conversation is idle. Anthropic keeps a prompt cache as long: the next call costs more anyway."""
LOOKS: Final = 2
"""Conversations that are looked at whenever one is asked for."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """A conversation as it was when it was last looked at."""

    session: ref[CompactionSession[Any]]
    handed_out: object
    since: float


class IdleWatch:
    """Looks at a few conversations at a time, in turn, and puts those to sleep that handed nothing out since long ago."""

    def __init__(self) -> None:
        self._turns: deque[_Watched] = deque()

    def add(self, session: CompactionSession[Any], now: float) -> None:
        """Watch another conversation from `now` on, in monotonic seconds."""
        self._turns.append(_Watched(ref(session), None, now))

    def look(self, now: float) -> None:
        """Look at the next `LOOKS` conversations."""
        for _ in range(min(LOOKS, len(self._turns))):
            try:
                watched = self._turns.popleft()
            except IndexError:  # another thread looks at the last one
                return
            session = watched.session()
            if session is None:
                continue
            conversation = session.engine.conversation
            since = watched.since
            if (
                conversation.handed_out is not watched.handed_out or now < since
            ):  # used since, or the clock was set back
                since = now
            elif now - since >= IDLE_SECONDS:
                with conversation.lock:
                    conversation.fall_asleep()
            self._turns.append(_Watched(watched.session, conversation.handed_out, since))
