"""Facts about each message, computed once, and the digest chain that names a stretch of conversation by its content.

A conversation is read as *pieces* (one speaker's part of one host message), grouped into *runs* (adjacent pieces of one
side). Sides are the assistant, and the host, whose side holds what users and tools say. An assistant run with the host run
that answers it is a *step*; a host run that a user begins opens a *turn*.

Digests run over *atoms* of a run (texts, media, calls, results), because frameworks cut one conversation into different
messages. System messages, thinking, ids, names and usage are left out, so the same conversation has the same chain in every
format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import is_
from typing import Generic, Literal, TypeAlias

from compaction_hooks.digests import CHAIN_START, canonical_arguments, media_atom, message_digest, text_digest
from compaction_hooks.messages import M, Media, Message, MessageFormat, Text, Thinking, ToolCall, ToolResult

Side: TypeAlias = Literal["host", "assistant"]

MOST_READ_AGAIN = 64
"""Of the newest messages, so many at most are read again to notice that a host still writes to them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One speaker's part of one host message.

    Attributes:
        host: Index of the host message.
        number: Index into what the format read from it.
        tokens: Estimated size in tokens, before calibration.
        side: Whose side it counts for; None for what no digest covers (system, our own summary and its pins).
    """

    message: Message
    host: int
    number: int
    tokens: int
    side: Side | None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the chain of a list begins that starts with one of our summaries.

    Attributes:
        runs: Runs the summary covers, counted from the start of the conversation.
        digest: The chain after them.
        pins: Digests of the messages that follow the summary and repeat what it covers.
    """

    runs: int
    digest: str
    pins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What a reader must know of earlier compactions to read a list that holds their products.

    Attributes:
        origins: By digest of the rendered summary text.
        originals: By kind ("result" or "arguments"), run, ordinal and digest of a reduced text, the digest of the text it
            stands for.
    """

    origins: Mapping[str, Origin] = field(default_factory=dict[str, Origin])
    originals: Mapping[tuple[str, int, int, str], str] = field(default_factory=dict[tuple[str, int, int, str], str])


@dataclass(slots=True)
class _Log(Generic[M]):
    """What histories share: grows only at its end, so that a shorter history over it stays true."""

    hosts: list[M] = field(default_factory=list[M])
    pieces: list[Piece] = field(default_factory=list[Piece])
    first_pieces: list[int] = field(default_factory=lambda: [0])
    tokens_before: list[int] = field(default_factory=lambda: [0])
    run_starts: list[int] = field(default_factory=list[int])
    run_sides: list[Side] = field(default_factory=list[Side])
    piece_runs: list[int] = field(default_factory=list[int])
    split_calls: set[int] = field(default_factory=set[int])
    systems: list[int] = field(default_factory=list[int])
    requests: list[int] = field(default_factory=list[int])
    answers: list[int] = field(default_factory=list[int])
    counted: list[int] = field(default_factory=list[int])
    open_calls: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    answered_calls: dict[str, int] = field(default_factory=dict[str, int])
    digests: list[str] = field(default_factory=lambda: [CHAIN_START])
    origin: Origin | None = None
    pins_left: list[str] = field(default_factory=list[str])
    summary_piece: int | None = None
    has_unknown_summary: bool = False

    def add(self, piece: Piece, *, is_stale: bool = False) -> None:
        """Append a piece; the usage of a stale one measured another list and is not listed."""
        index = len(self.pieces)
        self.pieces.append(piece)
        self.tokens_before.append(self.tokens_before[-1] + piece.tokens)
        message = piece.message
        if message.role == "system":
            self.systems.append(index)
        elif message.role == "user" and index != self.summary_piece and _has_atoms(message):
            self.requests.append(index)
        elif message.role == "assistant":
            self.answers.append(index)
            if message.usage is not None and not is_stale:
                self.counted.append(index)
        if piece.side is not None:
            self._place(piece.side, index)
            self._match_calls(message)
        self.piece_runs.append(len(self.run_starts) - 1)

    def _place(self, side: Side, index: int) -> None:
        if self.run_sides and self.run_sides[-1] == side:
            return
        start = index
        # Reasoning that stands alone before an answer belongs to it: providers reject the one without the other.
        while side == "assistant" and start and _is_bare_reasoning(self.pieces[start - 1]):
            start -= 1
            self.piece_runs[start] += 1
        self.run_starts.append(start)
        self.run_sides.append(side)

    def _match_calls(self, message: Message) -> None:
        """A result binds every boundary between its call and itself: no cut there."""
        run = len(self.run_starts) - 1
        for part in message.parts:
            if isinstance(part, ToolCall):
                self.open_calls.setdefault(part.id, []).append(run)
            elif isinstance(part, ToolResult):
                # As providers do: the newest call with this id that is open; a second answer belongs where the first does.
                waiting = self.open_calls.get(part.call_id)
                called = waiting.pop() if waiting else self.answered_calls.get(part.call_id)
                if called is not None:
                    self.answered_calls[part.call_id] = called
                    self.split_calls.update(range(called + 1, run + 1))


@dataclass(frozen=True, slots=True)
class History(Generic[M]):
    """A conversation as it was at one call. Immutable: histories share their facts and differ in length.

    Attributes:
        host_count: Host messages it holds.
        piece_count: Pieces it holds.
    """

    log: _Log[M]
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
    def base(self) -> int:
        """Runs before the list's first one: 0, or what the summary at its head covers."""
        return self.log.origin.runs if self.log.origin else 0

    @property
    def run_count(self) -> int:
        """Runs since the start of the conversation, those under a summary at the head included."""
        starts = self.log.run_starts
        count = len(starts)
        while count and starts[count - 1] >= self.piece_count:
            count -= 1
        return self.base + count

    def run_start(self, run: int) -> int:
        """Return the index of a run's first piece; `piece_count` for the run after the last."""
        local = run - self.base
        starts = self.log.run_starts
        return min(starts[local], self.piece_count) if local < len(starts) else self.piece_count

    def run_side(self, run: int) -> Side:
        """Return whose run it is."""
        return self.log.run_sides[run - self.base]

    def run_of(self, piece: int) -> int:
        """Return the run a piece belongs to; pieces without a side belong to the run before them."""
        return self.base + self.log.piece_runs[piece]

    def run_pieces(self, run: int) -> range:
        """Return the indexes of a run's pieces, those without a side included."""
        return range(self.run_start(run), self.run_start(run + 1))

    def is_boundary(self, run: int) -> bool:
        """Whether a record may end before this run: the speaker changes and no call is open."""
        return run > self.base and (run - self.base) not in self.log.split_calls

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

    def pieces(self, start: int = 0, end: int | None = None) -> list[Piece]:
        """Return pieces `start` to `end` (excluded)."""
        return self.log.pieces[start : self.piece_count if end is None else end]

    def host(self, index: int) -> M:
        """Return one host message: the object that came in."""
        return self.log.hosts[index]

    def host_pieces(self, index: int) -> range:
        """Return the indexes of the pieces read from one host message."""
        return range(self.log.first_pieces[index], self.log.first_pieces[index + 1])

    def systems(self, end: int | None = None) -> list[int]:
        """Return the indexes of system pieces before piece `end`."""
        limit = self.piece_count if end is None else end
        return [index for index in self.log.systems if index < limit]

    @property
    def request(self) -> int | None:
        """The piece that holds the user's current request: the last user message; None when nobody asked anything."""
        return _last_below(self.log.requests, self.piece_count)

    @property
    def summary_piece(self) -> int | None:
        """The piece at the head of the list that is one of our own summaries, or None."""
        index = self.log.summary_piece
        return index if index is not None and index < self.piece_count else None

    def answers(self) -> Iterator[int]:
        """Yield the indexes of assistant pieces, newest first."""
        return (index for index in reversed(self.log.answers) if index < self.piece_count)

    def counted_answers(self) -> Iterator[int]:
        """Yield the indexes of assistant pieces that carry usage, newest first."""
        return (index for index in reversed(self.log.counted) if index < self.piece_count)

    # -- digests

    def digest_before(self, run: int) -> str | None:
        """Return the chain up to a boundary before `run`; None where this list cannot know it.

        Computed on demand and kept: a call that asks nothing hashes nothing.
        """
        local = run - self.base
        if local < 0 or run > self.run_count - (1 if self.run_count > self.base else 0):
            return None
        chain = self.log.digests
        while len(chain) <= local:
            chain.append(self._extended(chain[-1], self.base + len(chain) - 1))
        return chain[local]

    def _extended(self, digest: str, run: int) -> str:
        atoms = [self.run_side(run), *self._run_atoms(run)]
        return text_digest(digest + json.dumps(atoms, ensure_ascii=True, separators=(",", ":")))

    def _run_atoms(self, run: int) -> list[object]:
        messages = [self.piece(index).message for index in self.run_pieces(run) if self.piece(index).side is not None]
        ordinals = self.call_ordinals(run - 1)
        texts: list[str] = []
        media: list[list[str]] = []
        calls: list[list[str]] = []
        results: list[tuple[int, str]] = []
        for part in (part for message in messages for part in message.parts):
            match part:
                case Text(text=text):
                    texts.append(text)
                case Media():
                    media.append(media_atom(part))
                case ToolCall():
                    digest = text_digest(canonical_arguments(part.arguments))
                    calls.append(["call", part.name, self._original("arguments", run, len(calls), digest)])
                case ToolResult():
                    ordinal = ordinals.get(part.call_id, -1)
                    results.append((ordinal, self._original("result", run, ordinal, text_digest(part.text))))
                    media.extend(map(media_atom, part.media))
                case _:
                    pass
        joined = "".join(texts)
        return [*sorted(results), *([["text", text_digest(joined)]] if joined else []), *media, *calls]

    def _original(self, kind: str, run: int, ordinal: int, digest: str) -> str:
        """The digest itself, or that of the text it stands for when it is a known reduction."""
        return self.known.originals.get((kind, run, ordinal, digest), digest)

    def call_ordinals(self, run: int) -> dict[str, int]:
        """Return the position of each call id in an assistant run; empty for any other run."""
        if run < self.base or self.run_side(run) != "assistant":
            return {}
        calls = [call for index in self.run_pieces(run) for call in self.piece(index).message.calls]
        return {call.id: ordinal for ordinal, call in enumerate(calls)}


def _last_below(indexes: Sequence[int], limit: int) -> int | None:
    return next((index for index in reversed(indexes) if index < limit), None)


class HistoryReader(Generic[M]):
    """Reads a host's list into a `History`, taking over what an earlier reading already knows.

    Args:
        format: Reads one host message.
        estimate: Size of one neutral message in tokens, before calibration.
        marker: What every rendered summary of ours begins with.
    """

    def __init__(self, format: MessageFormat[M], estimate: Callable[[Message], int], marker: str) -> None:
        self._format = format
        self._estimate = estimate
        self._marker = marker

    def read(self, messages: Sequence[M], known: Known) -> History[M]:
        """Read a whole list."""
        history = self._extend(_Log(), messages, 0, known)
        if history.log.has_unknown_summary:
            # What these messages were counted with is what the summary replaced.
            history.log.counted.clear()
        return history

    def sync(self, previous: History[M] | None, messages: Sequence[M], known: Known) -> History[M]:
        """Read a list, looking only at what is new since `previous`.

        Objects that are the same are trusted, except those from the last assistant message on, which hosts still touch:
        they are read again. Equal objects that were made anew are recognised; what is known of them is kept.
        `known` may have grown since, by records made from these very objects; records from elsewhere need a new `read`.
        """
        if previous is None:
            return self.read(messages, known)
        same = self._same_prefix(previous, messages)
        if same < previous.host_count:
            return self._fork(previous, messages, same, known)
        return self._extend(self._own_log(previous, known), messages, previous.host_count, known)

    def verify(self, history: History[M], messages: Sequence[M]) -> History[M]:
        """Read every message again and return `history` itself when nothing was changed in place, else a new reading."""
        for index in range(history.host_count):
            if not self._is_unchanged(history, index, messages[index]):
                return self.read(messages, history.known)
        return history

    def _same_prefix(self, previous: History[M], messages: Sequence[M]) -> int:
        hosts = previous.log.hosts
        count = min(previous.host_count, len(messages))
        fresh = next((previous.piece(index).host for index in previous.answers()), 0)
        fresh = max(fresh, previous.host_count - MOST_READ_AGAIN)
        if not all(map(is_, hosts[:count], messages)):
            count = next(i for i in range(count) if hosts[i] is not messages[i])
        for index in range(min(fresh, count), count):
            if not self._is_unchanged(previous, index, messages[index]):
                return index
        return count

    def _is_unchanged(self, history: History[M], index: int, message: M) -> bool:
        old = [history.piece(i).message for i in history.host_pieces(index)]
        return old == list(self._format.read(message))

    def _fork(self, previous: History[M], messages: Sequence[M], same: int, known: Known) -> History[M]:
        """Read a list that departs from `previous` at `same`, keeping the facts of messages that say the same all the same.

        Once there are records, a copy is held against what was read of the original, not against the original: that may have
        been changed in place since, and a record applies to what is there now.
        """
        is_same = self._is_unchanged if known.origins or known.originals else _is_equal_copy
        log: _Log[M] = _Log()
        equal_count = min(previous.host_count, len(messages))
        for index in range(equal_count):
            if index >= same and not is_same(previous, index, messages[index]):
                moved = {id(host) for host in previous.log.hosts[index : previous.host_count]}
                last_answer = next((previous.piece(number).host for number in previous.answers()), -1)
                if (
                    index <= last_answer
                ):  # an edit of what answers were given to: those since measured the list before it
                    moved.update(map(id, messages[index:]))
                return self._extend(log, messages, index, known, moved)
            log.hosts.append(messages[index])
            self._adopt(log, previous, index, known)
        return self._extend(log, messages, equal_count, known)

    def _adopt(self, log: _Log[M], previous: History[M], index: int, known: Known) -> None:
        for number in previous.host_pieces(index):
            self._append(log, previous.piece(number), known)
        log.first_pieces.append(len(log.pieces))

    def _own_log(self, previous: History[M], known: Known) -> _Log[M]:
        """The log to append to: the shared one, unless another history has already grown it another way."""
        if len(previous.log.hosts) == previous.host_count:
            return previous.log
        log: _Log[M] = _Log(hosts=previous.log.hosts[: previous.host_count])
        for index in range(previous.host_count):
            self._adopt(log, previous, index, known)
        return log

    def _extend(
        self, log: _Log[M], messages: Sequence[M], start: int, known: Known, moved: Set[int] = frozenset()
    ) -> History[M]:
        """Read the messages from `start` on; `moved` names (by id) those that stood behind other messages before."""
        for index in range(start, len(messages)):
            message = messages[index]
            neutral = self._format.read(message)
            log.hosts.append(message)
            for number, piece in enumerate(neutral):
                fact = Piece(piece, index, number, self._estimate(piece), None)
                self._append(log, fact, known, is_stale=id(message) in moved)
            log.first_pieces.append(len(log.pieces))
        return History(log, len(messages), len(log.pieces), known)

    def _append(self, log: _Log[M], piece: Piece, known: Known, *, is_stale: bool = False) -> None:
        side = self._side(log, piece.message, known)
        fact = piece if piece.side == side else Piece(piece.message, piece.host, piece.number, piece.tokens, side)
        log.add(fact, is_stale=is_stale)

    def _side(self, log: _Log[M], message: Message, known: Known) -> Side | None:
        if message.role == "system":
            return None
        if not log.run_starts and self._is_product(log, message, known):
            return None
        if message.role == "assistant":
            return "assistant" if _has_atoms(message) else None
        return "host" if _has_atoms(message) else None

    def _is_product(self, log: _Log[M], message: Message, known: Known) -> bool:
        """Whether this message at the head of a list is our own summary, or one of the pins that follow it."""
        if log.pins_left:
            if message_digest(message) == log.pins_left[0]:
                log.pins_left.pop(0)
                return True
            log.pins_left.clear()
        is_summary = message.role != "assistant" and message.text.startswith(self._marker)
        if log.origin is not None or not is_summary:
            return False
        log.origin = known.origins.get(text_digest(message.text))
        if log.origin is None:
            log.has_unknown_summary = True
            return False
        log.digests = [log.origin.digest]
        log.pins_left = list(log.origin.pins)
        log.summary_piece = len(log.pieces)
        return True


def _is_bare_reasoning(piece: Piece) -> bool:
    is_thought = bool(piece.message.parts) and not _has_atoms(piece.message)
    return piece.side is None and piece.message.role == "assistant" and is_thought


def _has_atoms(message: Message) -> bool:
    return any(not isinstance(part, Thinking) and part != Text("") for part in message.parts)


def _is_equal_copy(history: History[M], index: int, message: M) -> bool:
    old = history.host(index)
    return old is not message and type(old) is type(message) and bool(old == message)
