"""The repaired list, written from a plan: a host message without a change is the same object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic

from compaction_hooks.messages import Format, M, Message, PartAddress, Text, Thinking, ToolCall
from compaction_hooks.repair.plan import INTERRUPTED, Pieces, Place, Plan, list_kept
from compaction_hooks.validity import RuleId

NO_WORDS: Final = "[empty message]"
"""The content of a user message that had none."""

NO_REQUEST: Final = "[The conversation begins with the assistant.]"
"""The user message in front of a conversation whose provider demands that the user begins."""


class Rebuilder(Generic[M]):
    """Writer of the repaired list, from front to back.

    It collects the kept parts of a host message and writes them when another message begins: as the message itself if nothing
    changed, else as a copy without the dropped parts.
    """

    def __init__(
        self,
        messages: Sequence[M],
        pieces: Pieces,
        format: Format[M],
        rules: frozenset[RuleId],
        plan: Plan,
    ) -> None:
        self._messages = messages
        self._pieces = pieces
        self._format = format
        self._rules = rules
        self._plan = plan

        self._calls = {result: call for call, result in plan.results.items()}
        self._ids: dict[int, dict[PartAddress, str]] = {}
        for place, id_ in plan.ids.items():
            self._ids.setdefault(place.host, {})[place.piece, place.part] = id_

        self._repaired: list[M] = []
        self._host = -1
        self._collected: list[Place] = []
        self._waiting: dict[Place, None] = {}
        self._speaker = ""
        self._has_begun = False

    def run(self) -> list[M]:
        """Return the repaired list, a new one. Call it once only."""
        for host, number in self._order():
            piece = self._pieces[host][number]
            kept = list_kept(self._plan, host, number, piece)
            if "bare_reasoning" in self._rules and all(isinstance(piece.parts[place.part], Thinking) for place in kept):
                kept = []

            if piece.role == "tool":
                self._write_results(host, kept)
            elif kept or not self._refuses_empty(piece):
                self._write_words(host, piece, kept)
            elif piece.role == "user" and len(self._pieces[host]) == 1:
                self._begin_message(piece.role, host)
                self._write()
                self._repaired.append(self._format.request(NO_WORDS))
        self._end_step(-1)
        self._write()
        return self._repaired

    def _order(self) -> list[tuple[int, int]]:
        places = [(host, number) for host, read in enumerate(self._pieces) for number in range(len(read))]
        if "system_inside" in self._rules:
            places.sort(key=lambda place: self._pieces[place[0]][place[1]].role != "system")
        return places

    def _refuses_empty(self, piece: Message) -> bool:
        return bool(piece.parts) or "empty_content" in self._rules

    def _write_results(self, host: int, kept: Sequence[Place]) -> None:
        """Collect the results that are in the right place; others were, or will be, written behind their tool calls."""
        here: list[Place] = []
        for place in kept:
            call = self._calls[place]
            if call in self._waiting or "detached_result" not in self._rules:
                here.append(place)
            self._waiting.pop(call, None)
        if here:
            self._collect(host, here)
            self._speaker = "tool"

    def _write_words(self, host: int, piece: Message, kept: Sequence[Place]) -> None:
        calls = {place for place in kept if isinstance(piece.parts[place.part], ToolCall)}
        self._begin_message(piece.role, host, has_calls=bool(calls))
        self._collect(host, ())
        for place in kept:
            is_said = isinstance(piece.parts[place.part], Text | Thinking)
            if is_said and self._waiting and "words_after_call" in self._rules:
                self._end_step(host)  # text after a tool call in the same message moves behind the result
            self._collect(host, [place])
            if place in calls:
                self._waiting[place] = None

    def _begin_message(self, role: str, host: int, *, has_calls: bool = False) -> None:
        """Begin a message of a role. This ends the step before, unless the assistant continues it.

        The assistant does not continue a step by a message without tool calls if an earlier tool call has no result: the
        missing result belongs in front of that message.
        """
        is_turn = role == "assistant" == self._speaker and "split_step" not in self._rules
        if not is_turn or (not has_calls and any(call not in self._plan.results for call in self._waiting)):
            self._end_step(host)

        if role == "assistant" and not self._has_begun and "first_not_user" in self._rules:
            self._write()
            self._repaired.append(self._format.request(NO_REQUEST))

        self._has_begun = self._has_begun or role != "system"
        self._speaker = role

    def _end_step(self, host: int) -> None:
        """Write the missing results of the step: those found elsewhere, and stand-ins for those that never came."""
        moved: dict[int, list[Place]] = {}
        unanswered: list[Place] = []
        for call in self._waiting:
            result = self._plan.results.get(call)
            if result is None:
                unanswered.append(call)
            elif "detached_result" in self._rules:
                moved.setdefault(result.host, []).append(result)

        answers = [self._with_parts(other, sorted(places)) for other, places in moved.items()]
        answers += [self._format.answer(self._with_ids(call.host), call[1:], INTERRUPTED) for call in unanswered]

        # Results already collected from this message belong to the step too, so the message need not be split for them.
        is_within = self._host == host and all(call.host < host for call in self._waiting)
        self._waiting.clear()
        if answers and not is_within:
            self._write()
        self._repaired.extend(answers)

    def _collect(self, host: int, places: Sequence[Place]) -> None:
        if host != self._host:
            self._write()
            self._host = host
        self._collected.extend(places)

    def _write(self) -> None:
        if self._host >= 0:
            self._repaired.append(self._with_parts(self._host, self._collected))
        self._host = -1
        self._collected = []

    def _with_parts(self, host: int, places: Sequence[Place]) -> M:
        message = self._with_ids(host)
        kept = {place[1:] for place in places}
        addresses = [address for n, piece in enumerate(self._pieces[host]) for address in self._addresses(n, piece)]
        gone = [address for address in addresses if address not in kept]
        return self._format.drop(message, gone) if gone else message

    def _addresses(self, number: int, piece: Message) -> list[PartAddress]:
        # An empty piece has the address of one part only if the provider refuses it and it must be dropped.
        return [(number, index) for index in range(len(piece.parts) or self._refuses_empty(piece))]

    def _with_ids(self, host: int) -> M:
        ids = self._ids.get(host)
        return self._format.rename(self._messages[host], ids) if ids else self._messages[host]
