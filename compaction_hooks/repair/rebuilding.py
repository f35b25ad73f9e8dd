"""The repaired list, written from a plan: a host message without a change is the same object."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Generic

from compaction_hooks.messages import Format, M, Message, Part, PartAddress, Text, Thinking, ToolCall
from compaction_hooks.repair.plan import INTERRUPTED, Piece, Place, Plan, list_kept
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
        pieces: Sequence[Piece],
        format: Format[M],
        rules: frozenset[RuleId],
        plan: Plan,
    ) -> None:
        self._messages = messages
        self._pieces = [*pieces]
        self._format = format
        self._rules = rules
        self._plan = plan

        self._calls = {result: call for call, result in plan.results.items()}
        self._ids = defaultdict[int, dict[PartAddress, str]](dict)
        for place, id_ in plan.ids.items():
            self._ids[place.host][place[1:]] = id_
        self._addresses = defaultdict[int, list[PartAddress]](list)
        for host, number, message, _ in pieces:
            # An empty piece has the address of one part only if the provider refuses it and it must be dropped.
            parts = range(len(message.parts) or self._refuses_empty(message))
            self._addresses[host] += [(number, index) for index in parts]

        self._repaired: list[M] = []
        self._host = -1
        self._collected: list[Place] = []
        self._waiting: dict[Place, None] = {}
        self._speaker = ""
        self._has_begun = False

    def run(self) -> list[M]:
        """Return the repaired list, a new one. Call it once only."""
        if "system_inside" in self._rules:
            self._pieces.sort(key=lambda piece: piece.message.role != "system")
        for piece in self._pieces:
            host, message, kept = piece.host, piece.message, list_kept(self._plan, piece)
            if "bare_reasoning" in self._rules and all(isinstance(part, Thinking) for _, part in kept):
                kept = []

            if message.role == "tool":
                self._write_results(host, kept)
            elif kept or not self._refuses_empty(message):
                self._write_words(host, message.role, kept)
            elif message.role == "user" and self._addresses[host][-1][0] == 0:  # the only piece of its message
                self._begin_message(message.role, host)
                self._write()
                self._repaired.append(self._format.request(NO_WORDS))
        self._end_step(-1)
        self._write()
        return self._repaired

    def _refuses_empty(self, piece: Message) -> bool:
        return bool(piece.parts) or "empty_content" in self._rules

    def _write_results(self, host: int, kept: Sequence[tuple[Place, Part]]) -> None:
        """Collect the results that are in the right place; others were, or will be, written behind their tool calls."""
        here: list[Place] = []
        for place, _ in kept:
            call = self._calls[place]
            if call in self._waiting or "detached_result" not in self._rules:
                here.append(place)
            self._waiting.pop(call, None)

        if here:
            self._collect(host, here)
            self._speaker = "tool"

    def _write_words(self, host: int, role: str, kept: Sequence[tuple[Place, Part]]) -> None:
        self._begin_message(role, host, has_calls=any(isinstance(part, ToolCall) for _, part in kept))
        self._collect(host, ())

        for place, part in kept:
            if isinstance(part, Text | Thinking) and self._waiting and "words_after_call" in self._rules:
                self._end_step(host)  # text after a tool call in the same message moves behind the result
            self._collect(host, [place])
            if isinstance(part, ToolCall):
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
        gone = [address for address in self._addresses[host] if address not in kept]
        return self._format.drop(message, gone) if gone else message

    def _with_ids(self, host: int) -> M:
        ids = self._ids.get(host)
        return self._format.rename(self._messages[host], ids) if ids else self._messages[host]
