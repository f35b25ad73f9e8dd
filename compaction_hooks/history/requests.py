"""The user's request under which something happened: what holds for a turn remembers it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from compaction_hooks.history.digests import message_digest
from compaction_hooks.history.history import History

_UNSEEN_RUN: Final = -1
"""The run of a request that a stored view shows in front of its messages."""


class UserRequest(NamedTuple):
    """A user's request, told from others.

    Attributes:
        digest: The digest of its newest message; "" if the list has no message of the user.
        run: Its run.
    """

    digest: str
    run: int

    @staticmethod
    def of(history: History[Any]) -> UserRequest:
        """Return the current request of a list: the same one as long as messages are only added to its steps."""
        piece = history.request
        return UserRequest("", _UNSEEN_RUN) if piece is None else UserRequest._at(history, piece)

    @staticmethod
    def _at(history: History[Any], piece: int) -> UserRequest:
        run = _UNSEEN_RUN if history.piece(piece).side is None else history.run_of(piece)
        return UserRequest(message_digest(history.piece(piece).message), run)

    def is_same(self, other: UserRequest | None) -> bool:
        """Whether both are one request: equal words in two runs are two requests, as far as the runs are known."""
        if other is None or self.digest != other.digest:
            return False
        return self.run == other.run or _UNSEEN_RUN in (self.run, other.run)

    def is_in(self, history: History[Any]) -> bool:
        """Whether a list has it."""
        pieces = reversed(history.pieces_of_user(history.piece_count))
        return not self.digest or any(self.is_same(UserRequest._at(history, piece)) for piece in pieces)
