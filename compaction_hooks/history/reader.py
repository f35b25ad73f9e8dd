"""Reads a host's list into a history, without reading known messages again.

1. A log only grows at its end: a shorter history over it stays valid. A list that differs gets a log of its own.
2. The same objects are trusted, but for those from the last answer on, which hosts may still change.
3. An equal copy keeps the facts of its original, until a record depends on what was read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Generic, cast

from compaction_hooks.foreign import are_equal
from compaction_hooks.formats.pairing import MOST_SEARCHED, is_same_reading, pair_by_name
from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.history.history import History, Log, OwnTexts, Piece, Side, has_atoms
from compaction_hooks.messages import Format, M, Message


class HistoryReader(Generic[M]):
    """Reads a host's list into a `History`, reusing the facts of an earlier reading.

    Args:
        format: Reads one host message.
        estimate: Size of one neutral message in tokens, before calibration.
        marker: The first words of every summary message of ours.
    """

    def __init__(self, format: Format[M], estimate: Callable[[Message], int], marker: str) -> None:
        self._format = format
        self._estimate = estimate
        self._marker = marker

    def read(self, messages: Sequence[M], own_texts: OwnTexts) -> History[M]:
        """Read a whole list."""
        history = self._extend(Log(), messages, 0, own_texts)
        if history.has_summary and history.origin is None:
            # The usage in these messages counted the original ones too, which the summary replaced.
            del history.log.counted[:]
        return history

    def sync(self, previous: History[M] | None, messages: Sequence[M], own_texts: OwnTexts) -> History[M]:
        """Read only the messages that are new since `previous`; return `previous` itself if there are none.

        The same objects are trusted, except those from the last assistant message on, which hosts may still change: they are read
        again. Equal copies are recognized, and their facts kept.
        `own_texts` may have grown since, by records made from these very objects; records from elsewhere need a new `read`.
        """
        if previous is None:
            return self.read(messages, own_texts)

        log = previous.log
        count = previous.host_count
        listed: list[M] = cast("list[M]", messages) if type(messages) is list else list(messages)
        is_longest = len(log.hosts) == count
        if is_longest and log.is_prefix_of(listed) and self._are_unchanged(previous, listed, previous.watched_from):
            is_same = len(listed) == count and own_texts is previous.own_texts
            return previous if is_same else self._extend(log, listed, count, own_texts)

        same = self._same_prefix(previous, listed)
        if same < count or not is_longest:  # another history may have extended the log with other messages
            return self._fork(previous, listed, same, own_texts)
        log.hosts[:] = listed[:count]
        return self._extend(log, listed, count, own_texts)

    def verify(self, history: History[M], messages: Sequence[M], start: int = 0, end: int | None = None) -> History[M]:
        """Read messages `start` to `end` (excluded) again; return `history` itself if none was changed in place, else a new one."""
        return history if self._are_unchanged(history, messages, start, end) else self.read(messages, history.own_texts)

    # -- recognizing

    def _same_prefix(self, previous: History[M], messages: list[M]) -> int:
        """Return the number of messages at the head of a list that are unchanged: the same objects, or equal copies.

        Once there are records, a copy is compared with the reading of the original, not with the original itself: the host may have
        changed that in place since, and a record is valid for the messages that were read.
        """
        watched, trusts_copies = previous.watched_from, previous.own_texts == OwnTexts()
        readings = enumerate(zip(previous.hosts(), messages, previous.readings(), strict=False))
        for index, (old, message, pieces) in readings:
            is_equal = old is message or (trusts_copies and type(old) is type(message) and are_equal(old, message))
            if not (index < watched and is_equal) and not self._still_reads_as(message, pieces):
                return index
        return min(previous.host_count, len(messages))

    def _are_unchanged(self, history: History[M], messages: Sequence[M], start: int, end: int | None = None) -> bool:
        listed = messages[start : history.host_count if end is None else end]
        return all(map(self._still_reads_as, listed, history.readings(start)))

    def _still_reads_as(self, message: M, pieces: Sequence[Message]) -> bool:
        if self._format.is_read_as(message, pieces):
            return True
        read = self._format.read(message)
        return len(pieces) == len(read) and all(map(is_same_reading, pieces, read))

    # -- reading

    def _fork(self, previous: History[M], messages: list[M], same: int, own_texts: OwnTexts) -> History[M]:
        """Read a list that differs from `previous` from index `same` on, in a log of its own; keep the facts of what is before."""
        last, stale_from = next(previous.answers(), None), len(messages)
        if same < len(messages) and last is not None and same <= previous.piece(last).host:
            # The host edited messages before an answer: the usage of later answers measured the list before the edit. That of a
            # message changed in place counted the messages before it, which are the same.
            stale_from = same + (messages[same] is previous.host(same))

        log: Log[M] = Log()
        for index in range(same):
            log.hosts.append(messages[index])
            for number in previous.host_pieces(index):
                piece = previous.piece(number)
                self._append(log, piece.message, piece.host, piece.number, piece.tokens, own_texts)
            log.first_pieces.append(len(log.tokens_before) - 1)
        return self._extend(log, messages, same, own_texts, stale_from)

    def _extend(
        self, log: Log[M], messages: Sequence[M], start: int, own_texts: OwnTexts, stale_from: int = sys.maxsize
    ) -> History[M]:
        """Read the messages from `start` on; the usage of those from `stale_from` on measured another list."""
        for index in range(start, len(messages)):
            neutral = self._format.read(messages[index])
            log.hosts.append(messages[index])
            for number, piece in enumerate(neutral):
                self._append(log, piece, index, number, self._estimate(piece), own_texts, is_stale=index >= stale_from)
            log.first_pieces.append(len(log.tokens_before) - 1)
        return History(log, len(messages), len(log.tokens_before) - 1, own_texts)

    def _append(
        self,
        log: Log[M],
        message: Message,
        host: int,
        number: int,
        tokens: int,
        own_texts: OwnTexts,
        *,
        is_stale: bool = False,
    ) -> None:
        side: Side | None = None
        if message.role == "tool" and any(result.call_id not in log.open_calls for result in message.results):
            message = pair_by_name(message, [piece.message for piece in log.pieces[-MOST_SEARCHED:]])
        is_covered = message.role == "system" or (not log.run_starts and self._is_own_text(log, message, own_texts))
        if not is_covered and has_atoms(message):
            side = "assistant" if message.role == "assistant" else "host"
        log.add(Piece(message, host, number, tokens, side), is_stale=is_stale)

    def _is_own_text(self, log: Log[M], message: Message, own_texts: OwnTexts) -> bool:
        """Whether this message at the head of a list is our own summary, or one of the pins that follow it."""
        if log.origin is not None and log.summary_piece is not None:
            behind = [piece.message for piece in log.pieces[log.summary_piece + 1 :]]
            place = sum(one.role != "system" and has_atoms(one) for one in behind)  # no pin names reasoning alone
            return message_digest(message) in log.origin.pins[place : place + 1]

        if message.role == "assistant" or not message.text.startswith(self._marker):
            return False

        log.summary_piece = len(log.pieces)
        log.origin = own_texts.origins.get(text_digest(message.text))
        if log.origin is None:
            return False
        log.chain = {0: log.origin.digest}
        return True
