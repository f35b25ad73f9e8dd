"""Conversations nobody has asked about for a while keep their records only."""

from __future__ import annotations

from collections import deque
from typing import Any, Final
from weakref import ref

from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.session.session import CompactionSession
from compaction_hooks.values import dataclass

IDLE_SECONDS: Final = 300.0
"""So long without a call, and a conversation is idle. Anthropic keeps a prompt cache as long: the next call costs more anyway."""
LOOKS: Final = 2
"""Conversations that are looked at whenever one is asked for."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A conversation that is looked at in its turn; nothing of it is held.

    Attributes:
        calls: Of how many calls it knew when it was last looked at.
        since: Since when that has not changed, in monotonic seconds.
    """

    session: ref[CompactionSession[Any]]
    calls: int
    since: float


class IdleWatch:
    """Looks at a few conversations at a time, in turn, and puts those to sleep that were not called since long ago."""

    def __init__(self) -> None:
        self._turns: deque[_Turn] = deque()

    def add(self, session: CompactionSession[Any], now: float) -> None:
        """Watch another conversation from `now` on, in monotonic seconds."""
        self._turns.append(_Turn(ref(session), session.engine.conversation.calls, now))

    def look(self, now: float) -> None:
        """Look at the next `LOOKS` conversations."""
        for _ in range(min(LOOKS, len(self._turns))):
            try:
                turn = self._turns.popleft()
            except IndexError:  # another thread looks at the last one
                return
            session = turn.session()
            if session is not None:
                self._turns.append(_looked_at(turn, session.engine.conversation, now))


def _looked_at(turn: _Turn, conversation: Conversation[Any], now: float) -> _Turn:
    """Put a conversation to sleep where it is time to; return its next turn."""
    since = turn.since
    if conversation.calls != turn.calls or now < since:  # used since, or the clock was set back
        since = now
    elif now - since >= IDLE_SECONDS and conversation.lock.acquire(blocking=False):  # else it is in use
        try:
            conversation.fall_asleep()
        finally:
            conversation.lock.release()
    return _Turn(turn.session, conversation.calls, since)
