"""Records in this process's memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence


class MemoryStore:
    """Records for the life of the process. May be shared by threads, event loops and controllers."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def load(self, session_id: str) -> Sequence[str]:
        """Return the session's records, oldest first."""
        with self._lock:
            return list(self._sessions.get(session_id, {}).values())

    def append(self, session_id: str, record_id: str, record: str) -> None:
        """Add a record at the end unless its id is there already."""
        with self._lock:
            self._sessions.setdefault(session_id, {}).setdefault(record_id, record)

    def remove(self, session_id: str, record_id: str) -> None:
        """Take a record out if it is there."""
        with self._lock:
            records = self._sessions.get(session_id, {})
            records.pop(record_id, None)
            if not records:  # a session without records leaves nothing behind
                self._sessions.pop(session_id, None)
