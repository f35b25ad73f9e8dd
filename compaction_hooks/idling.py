"""Conversations nobody has asked about for a while keep their records only."""

from __future__ import annotations

from collections import deque
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from compaction_hooks.session import CompactionSession
from compaction_hooks.values import dataclass

IDLE_SECONDS: Final = 300.0
"""So long without a call, and a conversation is idle. Anthropic keeps a prompt cache as long: the next call costs more anyway."""
LOOKS: Final = 2
"""Conversations that are looked at whenever one is asked for."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a conversation had handed out when it was last looked at, and since when: monotonic seconds."""

    handed_out: object
    since: float


class IdleWatch:
    """Looks at a few conversations at a time, in turn, and puts those to sleep that handed nothing out since long ago."""

    def __init__(self) -> None:
        self._turns: deque[ref[CompactionSession[Any]]] = deque()
        # A view holds the host's messages: what is remembered of a conversation that was closed must go with it.
        self._seen: WeakKeyDictionary[CompactionSession[Any], _Seen] = WeakKeyDictionary()

    def add(self, session: CompactionSession[Any], now: float) -> None:
        """Watch another conversation from `now` on, in monotonic seconds."""
        self._seen[session] = _Seen(None, now)
        self._turns.append(ref(session))

    def look(self, now: float) -> None:
        """Look at the next `LOOKS` conversations."""
        for _ in range(min(LOOKS, len(self._turns))):
            try:
                turn = self._turns.popleft()
            except IndexError:  # another thread looks at the last one
                return
            session = turn()
            if session is not None:
                self._look_at(session, now)
                self._turns.append(turn)

    def _look_at(self, session: CompactionSession[Any], now: float) -> None:
        conversation, seen = session.engine.conversation, self._seen[session]
        since = seen.since
        if conversation.handed_out is not seen.handed_out or now < since:  # used since, or the clock was set back
            since = now
        elif now - since >= IDLE_SECONDS and conversation.lock.acquire(blocking=False):  # else it is in use
            try:
                conversation.fall_asleep()
            finally:
                conversation.lock.release()
        self._seen[session] = _Seen(conversation.handed_out, since)
