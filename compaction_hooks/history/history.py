"""A conversation as it was at one call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import Final, Generic, NamedTuple

from compaction_hooks.history.digests import number_calls, run_digest
from compaction_hooks.history.log import Log
from compaction_hooks.history.pieces import Known, Origin, Piece, Side
from compaction_hooks.messages import M, Message, ToolCall

KEPT_DIGESTS: Final = 64
"""Runs between two cached digests of the chain (200 bytes each), so that checking an older record hashes few runs."""


class History(NamedTuple, Generic[M]):
    """A conversation as it was at one call. Immutable: histories share one log and differ in length.

    Attributes:
        host_count: Number of host messages.
        piece_count: Number of pieces.
    """

    log: Log[M]
    host_count: int
    piece_count: int
    known: Known

    # -- size

    def tokens(self, start: int = 0, end: int | None = None) -> int:
        """Return the estimate of pieces `start` to `end` (excluded), in tokens before calibration."""
        sums = self.log.tokens_before
        return sums[self.piece_count if end is None else end] - sums[start]

    # -- runs

    @property
    def origin(self) -> Origin | None:
        """The start of the digest chain if one of our summaries is at the head of the list, or None."""
        return self.log.origin

    @property
    def base(self) -> int:
        """Number of runs before the first one of the list: those that the summary at its head covers, or 0."""
        return self.log.origin.runs if self.log.origin else 0

    @property
    def run_count(self) -> int:
        """Number of runs since the start of the conversation, including those that a summary at the head covers."""
        starts = self.log.run_starts
        count = len(starts)
        if count and starts[-1] >= self.piece_count:
            count = bisect_left(starts, self.piece_count)
        return self.base + count

    def run_start(self, run: int) -> int:
        """Return the index of a run's first piece; `piece_count` for the run after the last."""
        local = run - self.base
        starts = self.log.run_starts
        return min(starts[local], self.piece_count) if local < len(starts) else self.piece_count

    def run_starts(self, first: int, end: int) -> list[int]:
        """Return the first pieces of runs `first` to `end` (included), as `run_start` does."""
        count = self.piece_count
        local = first - self.base
        starts = [min(start, count) for start in self.log.run_starts[local : end - self.base + 1]]
        return starts + [count] * (end - first + 1 - len(starts))

    def run_side(self, run: int) -> Side:
        """Return the side of a run."""
        return self.log.run_side(run - self.base)

    def run_of(self, piece: int) -> int:
        """Return the run of a piece; pieces without a side belong to the run before them."""
        return self.base + self.log.run_of(piece)

    def run_pieces(self, run: int) -> range:
        """Return the indexes of a run's pieces, those without a side included."""
        return range(self.run_start(run), self.run_start(run + 1))

    def is_boundary(self, run: int) -> bool:
        """Whether a record may end before this run: no tool call is open there, and it is not the first run."""
        local = run - self.base
        bound = self.log.bound
        return local > 0 and not (local < len(bound) and bound[local])

    def boundaries(self, after: int) -> Iterator[int]:
        """Yield the runs above `after` before which a record may end, oldest first."""
        return (run for run in range(max(after, self.base) + 1, self.run_count) if self.is_boundary(run))

    def starts_turn(self, run: int) -> bool:
        """Whether a user's words open this run."""
        return self.run_side(run) == "host" and self.piece(self.run_start(run)).message.role == "user"

    # -- pieces

    def piece(self, index: int) -> Piece:
        """Return one piece."""
        return self.log.pieces[index]

    def host_of(self, index: int) -> int:
        """Return the index of the host message that holds a piece; `host_count` for the piece after the last."""
        return self.piece(index).host if index < self.piece_count else self.host_count

    def pieces(self, start: int = 0, end: int | None = None) -> list[Piece]:
        """Return pieces `start` to `end` (excluded)."""
        return self.log.pieces[start : self.piece_count if end is None else end]

    def readings(self, start: int = 0) -> Iterator[Sequence[Message]]:
        """Yield the format's reading of each host message from `start` on."""
        pieces = self.pieces(self.first_piece(start))
        messages = map(attrgetter("message"), pieces)
        if len(pieces) == self.host_count - start:  # one piece each, as most formats read
            return zip(messages)
        return (tuple(islice(messages, len(self.host_pieces(host)))) for host in range(start, self.host_count))

    def host(self, index: int) -> M:
        """Return one host message, the host's own object."""
        return self.log.hosts[index]

    def hosts(self, start: int = 0) -> list[M]:
        """Return the host messages from `start` on, as a new list of the host's own objects."""
        return self.log.hosts[start : self.host_count]

    def first_piece(self, host: int) -> int:
        """Return the index of a host message's first piece; `piece_count` after the last message."""
        return self.log.first_pieces[host]

    def host_pieces(self, index: int) -> range:
        """Return the indexes of the pieces read from one host message."""
        return range(self.log.first_pieces[index], self.log.first_pieces[index + 1])

    def systems(self, end: int | None = None) -> list[int]:
        """Return the indexes of system pieces before piece `end`."""
        limit = self.piece_count if end is None else end
        return self.log.systems[: bisect_left(self.log.systems, limit)].tolist()

    def pieces_of_user(self, end: int, start: int = 0) -> list[int]:
        """Return the indexes of the user's pieces from `start` to `end` (excluded)."""
        requests = self.log.requests
        return requests[bisect_left(requests, start) : bisect_left(requests, end)].tolist()

    def natives(self) -> list[int]:
        """Return the indexes of pieces with a summary of the provider's own."""
        return self.log.natives[: bisect_left(self.log.natives, self.piece_count)].tolist()

    @property
    def request(self) -> int | None:
        """The piece with the user's current request, which is the last user message; None if there is no user message."""
        requests = self.log.requests
        if requests and requests[-1] < self.piece_count:
            return requests[-1]
        return self.request_before(self.piece_count)

    def request_before(self, end: int) -> int | None:
        """Return the last user message before piece `end`, or None."""
        requests = self.log.requests
        index = bisect_left(requests, end)
        return requests[index - 1] if index else None

    def request_after(self, piece: int) -> int | None:
        """Return the first user message after a piece, or None."""
        requests = self.log.requests
        index = bisect_left(requests, piece + 1)
        return requests[index] if index < len(requests) and requests[index] < self.piece_count else None

    @property
    def summary_piece(self) -> int | None:
        """The piece at the head of the list that is one of our own summaries, or None."""
        index = self.log.summary_piece
        return index if index is not None and index < self.piece_count else None

    @property
    def has_summary(self) -> bool:
        """Whether one of our own summaries is at the head of the list, also one of an unknown record."""
        return self.summary_piece is not None or self.log.has_unknown_summary

    def answers(self) -> Iterator[int]:
        """Yield the indexes of assistant pieces, newest first."""
        return self.log.last_answers(self.piece_count)

    def counted_answers(self) -> Iterator[int]:
        """Yield the indexes of assistant pieces that carry usage, newest first."""
        return (index for index in reversed(self.log.counted) if index < self.piece_count)

    # -- digests

    def digest_before(self, run: int) -> str | None:
        """Return the digest of the chain up to the boundary before `run`; None if this list does not have that run.

        Digests are computed on demand, and cached for this run and every `KEPT_DIGESTS`th.
        """
        local = run - self.base
        if local < 0 or run > self.run_count - (1 if self.run_count > self.base else 0):
            return None
        chain = self.log.chain
        found = chain.get(local)
        if found is not None:
            return found

        start = max(known for known in chain if known < local)
        digest = chain[start]
        first = self.base + start
        starts = self.run_starts(first, run)
        calls = self.run_calls(first - 1)
        for number, (begin, end) in enumerate(pairwise(starts), first):
            messages = [piece.message for piece in self.pieces(begin, end) if piece.side is not None]
            side = self.run_side(number)
            digest = run_digest(digest, side, number, messages, calls, self.known.originals)
            if number + 1 == run or (number + 1 - self.base) % KEPT_DIGESTS == 0:
                chain[number + 1 - self.base] = digest
            calls = number_calls(messages) if side == "assistant" else {}
        return digest

    def run_calls(self, run: int) -> dict[str, tuple[int, ToolCall]]:
        """Return the position of each call of an assistant run, and the call, by id; empty for any other run."""
        if run < self.base or self.run_side(run) != "assistant":
            return {}
        return number_calls(piece.message for piece in self.pieces(self.run_start(run), self.run_start(run + 1)))
