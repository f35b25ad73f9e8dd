"""A conversation as it was at one call, over columns of facts that only grow at their end."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Final, Generic, Literal, NamedTuple, TypeAlias

from compaction_hooks.foreign import are_equal
from compaction_hooks.formats.pairing import MOST_SEARCHED
from compaction_hooks.history.digests import CHAIN_START, number_calls, run_digest
from compaction_hooks.messages import M, Message, NativeSummary, Opaque, Text, Thinking, ToolCall, ToolResult

MAX_WATCHED: Final = 64
"""The most messages at the end of a list that are read again in every call, to notice that the host changed them."""
KEPT_DIGESTS: Final = 64
"""Runs between two cached digests of the chain (200 bytes each), so that checking an older record hashes few runs."""

Side: TypeAlias = Literal["host", "assistant"]


class Piece(NamedTuple):
    """One speaker's part of one host message.

    Attributes:
        host: Index of the host message.
        number: Index into the messages that the format read from it.
        tokens: Estimated size in tokens, before calibration.
        side: The side of the piece; None for pieces that no digest covers (system, our own summary and its pins).
    """

    message: Message
    host: int
    number: int
    tokens: int
    side: Side | None


class Origin(NamedTuple):
    """The start of the digest chain in a list with one of our summaries at its head.

    Attributes:
        runs: Runs that the summary covers, from the start of the conversation.
        digest: The chain after them.
        pins: Digests of the pinned messages that follow the summary, though it covers them.
        optional: Those of these that stay only because there is room: they are not of the current request.
    """

    runs: int
    digest: str
    pins: tuple[str, ...]
    optional: tuple[str, ...] = ()


class UserWords(NamedTuple):
    """What code reads in a piece of the user.

    Attributes:
        constraints: What a summary must keep of it, word for word.
        media: Lines that name its media.
        questions: The pieces with the questions that it answers, if it is a short reply.
        stands_alone: Whether it is a request in the user's own words that can be understood alone.
    """

    constraints: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    questions: range = range(0)
    stands_alone: bool = False


class OwnTexts(NamedTuple):
    """The summaries and reduced texts of earlier compactions, so that a reader recognizes them in a list.

    Attributes:
        origins: By digest of the rendered summary text.
        originals: By kind ("result" or "arguments"), run, ordinal and digest of a reduced text, the digest of the
            original text.
    """

    origins: Mapping[str, Origin] = MappingProxyType({})
    originals: Mapping[tuple[str, int, int, str], str] = MappingProxyType({})


def has_atoms(message: Message) -> bool:
    """Whether a message has content that a digest covers or a provider accepts as content; reasoning alone is none.

    Nor is a sealed summary: it says nothing that the messages before it do not say.
    """
    for part in message.parts:
        if isinstance(part, Text):
            if part.text:
                return True
        elif not isinstance(part, Thinking) and not (isinstance(part, NativeSummary) and part.sealed):
            return True
    return False


def texts_of(messages: Iterable[Message]) -> Iterator[str]:
    """Yield each text, result and argument of these messages, and the blocks of tools that a provider ran."""
    for message in messages:
        for part in message.parts:
            match part:
                case Text(text=text) | ToolResult(text=text) | ToolCall(arguments=text) | Opaque(content=text):
                    yield text
                case _:
                    pass


def call_ids(message: Message) -> set[str]:
    """Return the ids of a message's tool calls, and of the assistant's blocks that may be answered by another block."""
    blocks = message.parts if message.role == "assistant" else ()
    return {part.id for part in message.calls} | {part.call_id for part in blocks if isinstance(part, Opaque)} - {""}


def answered_ids(message: Message) -> set[str]:
    """Return the ids of the calls that a message's results answer, and of the blocks that its own blocks answer."""
    blocks = () if message.role == "assistant" else message.parts
    return {part.call_id for part in message.results} | {
        part.call_id for part in blocks if isinstance(part, Opaque)
    } - {""}


def is_only_reasoning(message: Message) -> bool:
    """Whether a message of the assistant holds reasoning and nothing else: an item of OpenAI Responses, for one."""
    return message.role == "assistant" and bool(message.parts) and not has_atoms(message)


class Log(Generic[M]):
    """The facts that histories share. It only grows at its end, so that a shorter history over it stays valid.

    The columns hold numbers of four or eight bytes: the whole state takes less than 400 bytes for each message.

    Attributes:
        hosts: The host messages.
        pieces: The pieces read from them.
        first_pieces: By host message, its first piece; one more at the end.
        tokens_before: By piece, the estimate of all pieces before it, in tokens; one more at the end.
        run_starts: By run, its first piece. Sides alternate.
        joined: By run, 1 if there is no boundary before it, because a tool call is open.
        systems, requests, answers, counted: Pieces of the system, of the user, of the assistant, and with usage.
        natives: Pieces with a summary of the provider's own.
        finders: Pieces that make tools known to the model.
        open_calls: By id, the runs of the tool calls without a result.
        chain: By number of runs, the digest of the chain after them; not all are cached.
        user_words: The pieces that were read for the user's words, and those words by piece.
        pinned: The pieces that were searched for the host's pins, and by digest of a pin the pieces with that content.
        staying: The pins of the newest record, its cut, and the pieces before that which stay by these pins.
        origin: The start of the chain if one of our summaries is at the head of the list, or None.
        summary_piece: The piece at the head of the list with a summary of ours, also of one without a record here; or None.
        checked_until: Index of the covered message up to which a compaction last looked for changes in place.
    """

    def __init__(self) -> None:
        self.hosts: list[M] = []
        self.pieces: list[Piece] = []
        self.first_pieces = array("I", [0])
        self.tokens_before = array("Q", [0])

        self.run_starts = array("I")
        self.joined = bytearray()

        self.systems = array("I")
        self.requests = array("I")
        self.answers = array("I")
        self.counted = array("I")
        self.natives = array("I")
        self.finders = array("I")

        self.open_calls: dict[str, list[int]] = {}
        self.chain: dict[int, str] = {0: CHAIN_START}
        self.origin: Origin | None = None

        self.user_words: tuple[int, Mapping[int, UserWords]] = 0, {}
        self.pinned: tuple[int, Mapping[str, tuple[int, ...]]] = 0, {}
        self.staying: tuple[tuple[object, ...], int, tuple[int, ...]] = (), 0, ()
        self.summary_piece: int | None = None
        self.checked_until = 0

    # -- growing

    def add(self, piece: Piece, *, is_stale: bool = False) -> None:
        """Append a piece; the usage of a stale piece measured another list, and is not added to `counted`."""
        index = len(self.pieces)
        self.pieces.append(piece)
        self.tokens_before.append(self.tokens_before[-1] + piece.tokens)

        message = piece.message
        side = piece.side
        role = message.role
        if role == "assistant":
            self.answers.append(index)
            if message.usage is not None and not is_stale:
                self.counted.append(index)
        elif role == "user":
            if side is not None or (index != self.summary_piece and has_atoms(message)):
                self.requests.append(index)
        elif role == "system":
            self.systems.append(index)
        if NativeSummary in map(type, message.parts):
            self.natives.append(index)
        if any(isinstance(part, ToolResult | Opaque) and part.finds for part in message.parts):
            self.finders.append(index)

        if side is not None:
            if not self.run_starts or side != self.run_side(len(self.run_starts) - 1):
                # Reasoning alone before an answer belongs to that answer: providers reject the one without the other.
                while side == "assistant" and index > 0 and is_only_reasoning(self.pieces[index - 1].message):
                    index -= 1
                self.run_starts.append(index)
                self.joined.append(0)
            self._match_calls(message)

    def _match_calls(self, message: Message) -> None:
        """Mark every boundary between a tool call and its result as bound: a cut there would separate them."""
        run = len(self.run_starts) - 1
        for part in message.parts:
            if isinstance(part, ToolCall):
                self.open_calls.setdefault(part.id, []).append(run)
            elif isinstance(part, ToolResult):
                self._join(self._close_call(part.call_id), run)
            elif isinstance(part, Opaque) and part.call_id and message.role != "assistant":
                self._join(self._find_call(part.call_id), run)

    def _join(self, called: int | None, run: int) -> None:
        if called is not None:
            self.joined[called + 1 : run + 1] = b"\1" * (run - called)

    def _close_call(self, call_id: str) -> int | None:
        """Close the tool call that a result answers, and return its run; None if there is no such tool call.

        As providers do, take the newest open tool call with this id; a second result belongs to the same tool call as the first.
        """
        waiting = self.open_calls.get(call_id)
        if waiting is None:
            return self._find_call(call_id)

        called = waiting.pop()
        if not waiting:
            del self.open_calls[call_id]
        return called

    def _find_call(self, call_id: str) -> int | None:
        """Return the run of the newest tool call, or block of the assistant's, with this id, among the newest messages."""
        newest = reversed(range(max(0, len(self.pieces) - MOST_SEARCHED), len(self.pieces)))
        made = (index for index in newest if call_id in call_ids(self.pieces[index].message))
        return next(map(self.run_of, made), None)

    # -- reading

    def run_side(self, run: int) -> Side:
        """Return the side of a run, counted from the first one of this list."""
        return "assistant" if self.pieces[self.run_starts[run]].message.role == "assistant" else "host"

    def run_of(self, piece: int) -> int:
        """Return the run of a piece, -1 before the first; pieces without a side belong to the run before them."""
        return bisect_right(self.run_starts, piece) - 1

    def is_prefix_of(self, messages: list[M]) -> bool:
        """Whether a list begins with these messages, in one fast comparison: the oldest and the newest are the very objects."""
        known = self.hosts
        count = len(known)
        if not known or len(messages) < count or messages[0] is not known[0] or messages[count - 1] is not known[-1]:
            return False

        known.extend(messages[count:])  # lists compare by identity first, so this is faster than a slice
        try:
            return are_equal(known, messages)
        finally:
            del known[count:]


class History(NamedTuple, Generic[M]):
    """A conversation as it was at one call. Immutable: histories share one log and differ in length.

    Attributes:
        host_count: Number of host messages.
        piece_count: Number of pieces.
    """

    log: Log[M]
    host_count: int
    piece_count: int
    own_texts: OwnTexts

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
    def runs_before_list(self) -> int:
        """Number of runs before the first one of the list: those that the summary at its head covers, or 0."""
        origin = self.log.origin
        return origin.runs if origin else 0

    @property
    def run_count(self) -> int:
        """Number of runs since the start of the conversation, including those that a summary at the head covers."""
        return self.runs_before_list + bisect_left(self.log.run_starts, self.piece_count)

    def run_start(self, run: int) -> int:
        """Return the index of a run's first piece; `piece_count` for the run after the last."""
        local = run - self.runs_before_list
        starts = self.log.run_starts
        return min(starts[local], self.piece_count) if local < len(starts) else self.piece_count

    def run_side(self, run: int) -> Side:
        """Return the side of a run."""
        return self.log.run_side(run - self.runs_before_list)

    def run_of(self, piece: int) -> int:
        """Return the run of a piece; pieces without a side belong to the run before them."""
        return self.runs_before_list + self.log.run_of(piece)

    def run_pieces(self, run: int) -> range:
        """Return the indexes of a run's pieces, those without a side included."""
        return range(self.run_start(run), self.run_start(run + 1))

    def is_boundary(self, run: int) -> bool:
        """Whether a record may end before this run: no tool call is open there, and it is not the first run."""
        local = run - self.runs_before_list
        bound = self.log.joined
        return local > 0 and not (local < len(bound) and bound[local])

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
        return self.log.systems[: bisect_left(self.log.systems, self.piece_count if end is None else end)].tolist()

    def pieces_of_user(self, end: int, start: int = 0) -> list[int]:
        """Return the indexes of the user's pieces from `start` to `end` (excluded)."""
        requests = self.log.requests
        return requests[bisect_left(requests, start) : bisect_left(requests, end)].tolist()

    def natives(self) -> list[int]:
        """Return the indexes of pieces with a summary of the provider's own."""
        return self.log.natives[: bisect_left(self.log.natives, self.piece_count)].tolist()

    def finders(self) -> list[int]:
        """Return the indexes of pieces that make tools known to the model."""
        return self.log.finders[: bisect_left(self.log.finders, self.piece_count)].tolist()

    @property
    def request(self) -> int | None:
        """The newest piece of the user's current request, which is the last user message; None if there is no user message."""
        return self.request_before(self.piece_count)

    @property
    def requests(self) -> list[int]:
        """The pieces of the user's current request: the last user message, and those before it that no answer separates from it.

        Tool results between them do not, nor an answer that was aborted or failed. A tool call does: the model has read what is
        before it, and hosts put reminders and the images of tools into user messages between two steps.
        """
        newest, answers = self.request, self.log.answers
        if newest is None:
            return []
        place = bisect_left(answers, newest)
        while place and self.piece(answers[place - 1]).message.stop_reason in ("aborted", "error"):
            place -= 1
        return self.pieces_of_user(newest + 1, answers[place - 1] + 1 if place else 0)

    def request_before(self, end: int) -> int | None:
        """Return the last user message before piece `end`, or None."""
        requests = self.log.requests
        index = bisect_left(requests, end)
        return requests[index - 1] if index else None

    def request_after(self, piece: int) -> int | None:
        """Return the first user message after a piece, or None."""
        return next(iter(self.pieces_of_user(self.piece_count, piece + 1)), None)

    @property
    def summary_piece(self) -> int | None:
        """The piece at the head of the list that is one of our own summaries, or None."""
        index = self.log.summary_piece
        return index if self.origin is not None and index is not None and index < self.piece_count else None

    @property
    def has_summary(self) -> bool:
        """Whether one of our own summaries is at the head of the list, also one without a record here, which has no `origin`."""
        return self.log.summary_piece is not None

    @property
    def watched_from(self) -> int:
        """Index of the first message that hosts may still change, and that is read again: the last answer, or a later one."""
        answer = next(self.answers(), None)
        host = 0 if answer is None else self.piece(answer).host
        return max(host, self.host_count - MAX_WATCHED)

    def answers(self) -> Iterator[int]:
        """Yield the indexes of assistant pieces, newest first."""
        return (index for index in reversed(self.log.answers) if index < self.piece_count)

    def counted_answers(self) -> Iterator[int]:
        """Yield the indexes of assistant pieces that carry usage, newest first."""
        return (index for index in reversed(self.log.counted) if index < self.piece_count)

    # -- digests

    def digest_before(self, run: int) -> str | None:
        """Return the digest of the chain up to the boundary before `run`; None if this list does not have that run.

        Digests are computed on demand, and cached for this run and every `KEPT_DIGESTS`th.
        """
        local = run - self.runs_before_list
        if local < 0 or run > self.run_count - (1 if self.run_count > self.runs_before_list else 0):
            return None
        chain = self.log.chain
        cached = chain.get(local)
        if cached is not None:
            return cached

        start = max(known for known in [*chain] if known < local)  # a copy: another thread may add to it
        digest = chain[start]
        first = self.runs_before_list + start
        begin, calls = self.run_start(first), self.run_calls(first - 1)
        for number in range(first, run):
            end = self.run_start(number + 1)
            messages = [piece.message for piece in self.pieces(begin, end) if piece.side is not None]
            side: Side = "assistant" if messages[0].role == "assistant" else "host"
            digest = run_digest(digest, side, number, messages, calls, self.own_texts.originals)
            if number + 1 == run or (number + 1 - self.runs_before_list) % KEPT_DIGESTS == 0:
                chain[number + 1 - self.runs_before_list] = digest
            begin, calls = end, number_calls(messages) if side == "assistant" else {}
        return digest

    def run_calls(self, run: int) -> dict[str, tuple[int, ToolCall]]:
        """Return the position of each call of an assistant run, and the call, by id; empty for any other run."""
        if run < self.runs_before_list or self.run_side(run) != "assistant":
            return {}
        return number_calls(piece.message for piece in self.pieces(self.run_start(run), self.run_start(run + 1)))
