"""The facts of one conversation, in columns that only grow at their end."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Generic

from compaction_hooks.foreign import are_equal
from compaction_hooks.history.digests import CHAIN_START
from compaction_hooks.history.pieces import Origin, Piece, Side, UserWords, has_atoms, is_only_reasoning
from compaction_hooks.messages import M, Message, NativeSummary, ToolCall, ToolResult


class Log(Generic[M]):
    """The facts that histories share. It only grows at its end, so that a shorter history over it stays valid.

    The columns hold numbers of four or eight bytes: the whole state takes less than 400 bytes for each message.

    Attributes:
        hosts: The host messages.
        pieces: The pieces read from them.
        first_pieces: By host message, its first piece; one more at the end.
        tokens_before: By piece, the estimate of all pieces before it, in tokens; one more at the end.
        run_starts: By run, its first piece. Sides alternate.
        bound: By run, 1 if there is no boundary before it, because a tool call is open.
        systems, requests, answers, counted: Pieces of the system, of the user, of the assistant, and with usage.
        natives: Pieces with a summary of the provider's own.
        open_calls: By id, the runs of the tool calls without a result.
        answered: Short hashes of the ids of answered tool calls: a result for no open tool call may be a second one.
        chain: By number of runs, the digest of the chain after them; not all are cached.
        user_words: The pieces that were read for the user's words, and by piece those words; only of pieces that have some.
        pinned: The pieces that were searched for the host's pins, and by digest of a pin the pieces with that content.
        failures: The run before which the failures of calls were folded, and the result; None before the first time.
        pins_left: Digests of the pins that may still follow the summary at the head.
        shown: Indexes of older host messages that are in the view: a copy must not replace them, the view holds the originals.
        shown_hosts: The messages at these indexes.
        replaced: How often equal copies replaced the host's objects.
        checked_until: Index of the covered message up to which a compaction last looked for changes in place.
        watched_from: Index of the first of the newest messages, which hosts may still change: they are read again.
    """

    def __init__(self) -> None:
        self.hosts: list[M] = []
        self.pieces: list[Piece] = []
        self.first_pieces = array("I", [0])
        self.tokens_before = array("Q", [0])
        self.run_starts = array("I")
        self.first_side: Side | None = None
        self.last_side: Side | None = None
        self.bound = bytearray()
        self.systems = array("I")
        self.requests = array("I")
        self.answers = array("I")
        self.counted = array("I")
        self.natives = array("I")
        self.open_calls: dict[str, list[int]] = {}
        self.answered = array("I")
        self.chain: dict[int, str] = {0: CHAIN_START}
        self.origin: Origin | None = None
        self.user_words: tuple[int, Mapping[int, UserWords]] = 0, {}
        self.pinned: tuple[int, Mapping[str, tuple[int, ...]]] = 0, {}
        self.failures: tuple[int, object] = 0, None
        self.pins_left: list[str] = []
        self.summary_piece: int | None = None
        self.has_unknown_summary = False
        self.shown: tuple[int, ...] = ()
        self.shown_hosts: tuple[M, ...] = ()
        self.replaced = 0
        self.watched_from = 0
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
            if index != self.summary_piece and (side is not None or has_atoms(message)):
                self.requests.append(index)
        elif role == "system":
            self.systems.append(index)
        if any(isinstance(part, NativeSummary) for part in message.parts):
            self.natives.append(index)
        if side is not None:
            if side != self.last_side:
                self._open_run(side, index)
            self._match_calls(message)

    def _open_run(self, side: Side, start: int) -> None:
        # Reasoning alone before an answer belongs to that answer: providers reject the one without the other.
        while side == "assistant" and start > 0 and is_only_reasoning(self.pieces[start - 1].message):
            start -= 1
        if self.last_side is None:
            self.first_side = side
        self.last_side = side
        self.run_starts.append(start)
        self.bound.append(0)

    def _match_calls(self, message: Message) -> None:
        """Mark every boundary between a tool call and its result as bound: a cut there would separate them."""
        run = len(self.run_starts) - 1
        for part in message.parts:
            if isinstance(part, ToolCall):
                self.open_calls.setdefault(part.id, []).append(run)
            elif isinstance(part, ToolResult):
                called = self._close_call(part.call_id)
                if called is not None:
                    self.bound[called + 1 : run + 1] = b"\1" * (run - called)

    def _close_call(self, call_id: str) -> int | None:
        """Close the tool call that a result answers, and return its run; None if there is no such tool call.

        As providers do, take the newest open tool call with this id; a second result belongs to the same tool call as the first.
        """
        waiting = self.open_calls.get(call_id)
        name = hash(call_id) & 0xFFFF_FFFF
        if waiting is None:
            return self._find_earlier_call(call_id) if name in self.answered else None
        called = waiting.pop()
        if not waiting:
            del self.open_calls[call_id]
        self.answered.append(name)
        return called

    def _find_earlier_call(self, call_id: str) -> int | None:
        """Return the run of the newest tool call with this id, or None."""
        for index in range(len(self.pieces) - 1, -1, -1):
            if any(call.id == call_id for call in self.pieces[index].message.calls):
                return self.run_of(index)
        return None

    # -- reading

    @property
    def host_count(self) -> int:
        """Number of host messages."""
        return len(self.hosts)

    def run_side(self, run: int) -> Side:
        """Return the side of a run, counted from the first one of this list."""
        is_first = run % 2 == 0
        return "host" if is_first == (self.first_side == "host") else "assistant"

    def run_of(self, piece: int) -> int:
        """Return the run of a piece, -1 before the first; pieces without a side belong to the run before them."""
        return bisect_right(self.run_starts, piece) - 1

    # -- recognizing

    def show(self, hosts: tuple[int, ...]) -> None:
        """Set the `shown` messages."""
        self.shown = hosts
        self.shown_hosts = tuple(map(self.hosts.__getitem__, hosts))

    def is_prefix_of(self, messages: list[M]) -> bool:
        """Whether a list begins with these very objects, in one fast comparison of lists.

        Equal objects pass if the oldest, the newest and those that are `shown` are the same.
        """
        known = self.hosts
        count = len(known)
        if not known or len(messages) < count or messages[0] is not known[0] or messages[count - 1] is not known[-1]:
            return False
        return _starts_with(messages, known) and all(map(is_, self.shown_hosts, map(messages.__getitem__, self.shown)))

    def replace_hosts(self, messages: Sequence[M], count: int) -> None:
        """Replace the first `count` messages by equal ones from a list."""
        self.replaced += 1
        self.hosts[:count] = messages[:count]

    def last_answers(self, end: int) -> Iterator[int]:
        """Yield the indexes of assistant pieces below `end`, newest first."""
        return (index for index in reversed(self.answers) if index < end)


def _starts_with(messages: list[M], known: list[M]) -> bool:
    """Whether a list begins with the known messages. Lists compare by identity first, so this is faster than a slice."""
    count = len(known)
    known.extend(messages[count:])
    try:
        return are_equal(known, messages)
    finally:
        del known[count:]
