"""The mended list, written from a plan: host messages as they are wherever nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic

from compaction_hooks.messages import M, Message, PartAddress, RepairingFormat, Text, Thinking, ToolCall
from compaction_hooks.repair.plan import INTERRUPTED, Pieces, Place, Plan, kept_places
from compaction_hooks.validity import RuleId

NO_WORDS: Final = "[empty message]"
"""What stands for a user's message without content."""

NO_REQUEST: Final = "[The conversation begins with the assistant.]"
"""What the user is made to say where the provider wants to hear the user first."""


class Rebuilder(Generic[M]):
    """Writes the mended list from front to back.

    Of each host message it gathers the parts that stay and writes them down when something else begins: as the message itself
    where nothing changed, as a copy without the others where something did.
    """

    def __init__(
        self,
        messages: Sequence[M],
        pieces: Pieces,
        format: RepairingFormat[M],
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
        self._made: list[M] = []
        self._host = -1
        self._gathered: list[Place] = []
        self._waiting: dict[Place, None] = {}
        self._speaker = ""
        self._has_begun = False

    def run(self) -> list[M]:
        """Return the mended list, a new one. Once only."""
        for host, number in self._order():
            piece = self._pieces[host][number]
            kept = kept_places(self._plan, host, number, piece)
            if "bare_reasoning" in self._rules and all(isinstance(piece.parts[place.part], Thinking) for place in kept):
                kept = []
            if piece.role == "tool":
                self._take_results(host, kept)
            elif kept or not self._refuses_empty(piece):
                self._take_words(host, piece, kept)
            elif piece.role == "user" and len(self._pieces[host]) == 1:
                self._speak(piece.role, host)
                self._write()
                self._made.append(self._format.request(NO_WORDS))
        self._end_step(-1)
        self._write()
        return self._made

    def _order(self) -> list[tuple[int, int]]:
        places = [(host, number) for host, read in enumerate(self._pieces) for number in range(len(read))]
        if "system_inside" in self._rules:
            places.sort(key=lambda place: self._pieces[place[0]][place[1]].role != "system")
        return places

    def _refuses_empty(self, piece: Message) -> bool:
        return bool(piece.parts) or "empty_content" in self._rules

    def _take_results(self, host: int, kept: Sequence[Place]) -> None:
        """Gather the results that stand where they belong; others were, or will be, written behind their calls."""
        here: list[Place] = []
        for place in kept:
            call = self._calls[place]
            if call in self._waiting or "detached_result" not in self._rules:
                here.append(place)
            self._waiting.pop(call, None)
        if here:
            self._gather(host, here)
            self._speaker = "tool"

    def _take_words(self, host: int, piece: Message, kept: Sequence[Place]) -> None:
        calls = {place for place in kept if isinstance(piece.parts[place.part], ToolCall)}
        self._speak(piece.role, host, goes_on=bool(calls))
        self._gather(host, ())
        for place in kept:
            is_said = isinstance(piece.parts[place.part], Text | Thinking)
            if is_said and self._waiting and "words_after_call" in self._rules:
                self._end_step(host)  # within a message: what it says after its calls follows their results
            self._gather(host, [place])
            if place in calls:
                self._waiting[place] = None

    def _speak(self, role: str, host: int, *, goes_on: bool = False) -> None:
        """Let somebody speak: the step before ends, unless the assistant goes on with it.

        It does not where it calls nothing more and a call before will never be answered: the answer that is missing was
        missing there.
        """
        is_turn = role == "assistant" == self._speaker and "split_step" not in self._rules
        if not is_turn or (not goes_on and any(call not in self._plan.results for call in self._waiting)):
            self._end_step(host)
        if role == "assistant" and not self._has_begun and "first_not_user" in self._rules:
            self._write()
            self._made.append(self._format.request(NO_REQUEST))
        self._has_begun = self._has_begun or role != "system"
        self._speaker = role

    def _end_step(self, host: int) -> None:
        """Write down what is missing behind the step: results that stand elsewhere, and those that never came."""
        moved: dict[int, list[Place]] = {}
        unanswered: list[Place] = []
        for call in self._waiting:
            result = self._plan.results.get(call)
            if result is None:
                unanswered.append(call)
            elif "detached_result" in self._rules:
                moved.setdefault(result.host, []).append(result)
        answers = [self._with_parts(other, sorted(places)) for other, places in moved.items()]
        answers += [self._format.answer(self._renamed(call.host), call[1:], INTERRUPTED) for call in unanswered]
        # Results already gathered from this message belong to the step too: it need not be taken apart for these.
        is_within = self._host == host and all(call.host < host for call in self._waiting)
        self._waiting.clear()
        if answers and not is_within:
            self._write()
        self._made.extend(answers)

    def _gather(self, host: int, places: Sequence[Place]) -> None:
        if host != self._host:
            self._write()
            self._host = host
        self._gathered.extend(places)

    def _write(self) -> None:
        if self._host >= 0:
            self._made.append(self._with_parts(self._host, self._gathered))
        self._host = -1
        self._gathered = []

    def _with_parts(self, host: int, places: Sequence[Place]) -> M:
        message = self._renamed(host)
        kept = {place[1:] for place in places}
        addresses = [address for n, piece in enumerate(self._pieces[host]) for address in self._addresses(n, piece)]
        gone = [address for address in addresses if address not in kept]
        return self._format.drop(message, gone) if gone else message

    def _addresses(self, number: int, piece: Message) -> list[PartAddress]:
        # What stands for an empty piece is named only where it must go.
        return [(number, index) for index in range(len(piece.parts) or self._refuses_empty(piece))]

    def _renamed(self, host: int) -> M:
        ids = self._ids.get(host)
        return self._format.rename(self._messages[host], ids) if ids else self._messages[host]
