"""The provider's own summary in the host's list, and the view that begins at it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from compaction_hooks.history import History
from compaction_hooks.history.digests import message_digest
from compaction_hooks.messages import Message, NativeSummary
from compaction_hooks.view.record import CompactionRecord, Pin
from compaction_hooks.view.summary_message import SUMMARY_MARKER, render_summary

MISSING = "The messages before this point are missing: another provider or model compacted them, and only it can read the summary."
"""The words in place of a sealed summary that the request cannot send, and whose messages the list has not."""


NOWHERE = -1
"""The piece of no summary."""


class NativeStart(NamedTuple):
    """The provider's own summary at which a view begins.

    Attributes:
        piece: Index of the piece that holds it; `NOWHERE` if the request sends none, and the list has the messages that they cover.
        is_sent: Whether the request sends it; otherwise its text takes its place.
        text: Its text, which the next summary of ours updates; "" if it is sealed.
        left_out: Pieces of other summaries that the request cannot send.
        covered: Host messages that it covers.
        pins: Messages before it that stay: of a sealed one the request that it came with an answer to, or all words of the user if
            it is not sent; and messages that the host pinned.
    """

    piece: int
    is_sent: bool = True
    text: str = ""
    covered: int = 0
    left_out: tuple[int, ...] = ()
    pins: tuple[Pin, ...] = ()

    def is_newer(self, history: History[Any], record: CompactionRecord | None) -> bool:
        """Whether neither a record's summary nor ours at the head of the list covers it."""
        covered = record.covered_runs if record else 0
        return self.piece >= max(covered_pieces(history, covered), history.summary_piece or 0)

    @property
    def rendered(self) -> str:
        """The text of the message in its place."""
        if not self.text:
            return f"{SUMMARY_MARKER}\n{MISSING}"
        return render_summary(self.text, file_tags="", continuation=False, covered=self.covered, unseen=0)


def covered_pieces(history: History[Any], runs: int) -> int:
    """Return how many pieces of the list are before this run; 0 if the summary at the head of the list covers it."""
    return history.run_start(runs) if runs > history.base else 0


def native_of(message: Message) -> NativeSummary:
    """Return the newest of the provider's own summaries in a message that has one."""
    return [part for part in message.parts if isinstance(part, NativeSummary)][-1]


def find_start(
    history: History[Any],
    may_send: Callable[[int], bool] = lambda _: True,
) -> NativeStart | None:
    """Return the start of a view: the newest summary that the request may send; None if the list has no summary.

    Without such a summary, a view begins at the text of the newest one whose messages the list has not.

    Args:
        may_send: Whether the request may send the summary in the piece with this index.
    """
    natives = history.natives()
    if not natives:
        return None
    sent = [*filter(may_send, natives)]
    start = [piece for piece in sent or natives if sent or not _is_whole(history, piece, natives)][-1:]
    left_out = tuple(piece for piece in natives if piece not in sent)
    if not start:
        return NativeStart(NOWHERE, is_sent=False, left_out=left_out)
    (piece,), item = start, native_of(history.piece(start[0]).message)
    pins = _pins(history, piece, is_sent=bool(sent)) if item.sealed else ()
    return NativeStart(piece, bool(sent), item.content, history.piece(piece).host, left_out, pins)


def _pins(history: History[Any], piece: int, *, is_sent: bool) -> tuple[Pin, ...]:
    """Return pins of the user's messages before a sealed summary: of the request that it came with an answer to, or of all."""
    asked = history.pieces_of_user(piece)
    if is_sent:
        asked = [] if history.request_after(piece) == piece + 1 else asked[-1:]
    return tuple(Pin(max(history.run_of(index), 0), message_digest(history.piece(index).message)) for index in asked)


def _is_whole(history: History[Any], piece: int, natives: Sequence[int]) -> bool:
    """Return whether the list has the messages that a summary covers, or our own summary of them.

    Before a sealed one that is an answer: hosts that drop messages keep at most the user's words.
    """
    if piece < (history.summary_piece or 0):
        return True
    answers = takewhile(lambda index: index < piece, history.log.answers)
    return bool(native_of(history.piece(piece).message).sealed) and any(index not in natives for index in answers)
