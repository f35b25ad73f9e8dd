"""Made-up conversations: realistic ones, and hostile ones that some framework, crash or edit has left behind.

Every decision is asked of a `Choose`, so that the same builders serve a seeded run of thousands and Hypothesis.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from compaction_hooks.messages import Media, Message, Part, Role, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.testing.hosts import as_openai_chat
from compaction_hooks.testing.texts import Choose, generated_text, hostile_text

MOST_TURNS: Final = 12
"""Turns of the longest realistic conversation."""
MOST_STEPS: Final = 12
"""Tool steps of the longest realistic turn: recorded turns have 1.5 on average, long ones dozens."""
MOST_BEATS: Final = 40
"""Beats of the longest hostile conversation."""


def generated_history(seed: int, *, is_hostile: bool = False) -> list[Mapping[str, object]]:
    """Return a conversation as OpenAI chat messages: the same for the same seed, in every process.

    Realistic ones are valid for every provider and have at least one user message. Hostile ones may break every rule of every
    provider, and may be empty.
    """
    choose = random.Random(seed).randrange
    messages = hostile_history(choose) if is_hostile else realistic_history(choose)
    return [as_openai_chat(message) for message in messages]


def realistic_history(choose: Choose, *, most_turns: int = MOST_TURNS) -> list[Message]:
    """Return a valid conversation: turns with tool steps and parallel calls, sizes and languages mixed, some media.

    It ends after an answer, with the user's request, or within a step, after the tools' results.
    """
    writer = Writer(choose)
    messages = list(writer.opening())
    for _ in range(most_turns):
        messages += writer.turn()
        if choose(6) == 0:
            break
    ending = choose(3)
    if ending == 1:
        messages.append(writer.request())
    elif ending == 2:
        messages += [writer.request(), *writer.step()]
    return messages


def hostile_history(choose: Choose, *, most_beats: int = MOST_BEATS) -> list[Message]:
    """Return what a conversation looks like that went wrong.

    Results interleaved with other messages, late, doubled or of nobody; calls split over messages or never answered; ids that
    are empty or used again; empty contents, system messages inside, reasoning alone, the assistant first, nothing at all; lone
    surrogates, NUL, texts that look like this package's own.
    """
    writer = Writer(choose)
    if choose(30) == 29:
        return list(writer.opening())
    messages = [*writer.opening(), writer.request()] if choose(8) < 7 else []
    for _ in range(most_beats):
        beat = BEATS[choose(len(BEATS))]
        messages += beat(writer)
        if choose(14) == 0:
            break
    return messages


_ROLES: Final[Sequence[Role]] = ("user", "assistant", "user", "assistant", "system", "other")


@dataclass(slots=True)
class Writer:
    """Writes messages, each of its own.

    Attributes:
        number: Messages and calls written so far.
        waiting: Calls that were left without a result.
        said: What was said so far, for messages that come twice.
    """

    choose: Choose
    number: int = 0
    waiting: list[ToolCall] = field(default_factory=list[ToolCall])
    said: list[Message] = field(default_factory=list[Message])

    def next(self) -> int:
        self.number += 1
        return self.number

    # -- realistic

    def opening(self) -> Iterator[Message]:
        if self.choose(4):
            yield Message(role="system", parts=(Text(generated_text(self.choose, "system", self.next())),))

    def turn(self) -> Iterator[Message]:
        yield self.request()
        for _ in range(MOST_STEPS):
            if self.choose(3) == 0:
                break
            yield from self.step()
        yield self.answer()

    def request(self) -> Message:
        parts: tuple[Part, ...] = (Text(generated_text(self.choose, "user", self.next())),)
        if self.choose(25) == 24:
            parts += (Media("image", f"https://example.org/screen-{self.number}.png", is_reference=True),)
        return Message(role="user", parts=parts)

    def answer(self) -> Message:
        text = generated_text(self.choose, "assistant", self.next())
        return Message(role="assistant", parts=(*self.thoughts(), Text(text)))

    def step(self) -> Iterator[Message]:
        asked = self.asking(1 + self.choose(4) if self.choose(8) == 7 else 1)
        yield asked
        yield from self.answering(asked.calls)

    def asking(self, count: int) -> Message:
        words = (Text(generated_text(self.choose, "assistant", self.next())),) if self.choose(2) else ()
        return Message(role="assistant", parts=(*self.thoughts(), *words, *[self.call() for _ in range(count)]))

    def thoughts(self) -> tuple[Part, ...]:
        if self.choose(5) < 4:
            return ()
        return (Thinking(generated_text(self.choose, "assistant", self.next())),)

    def call(self, id: str | None = None) -> ToolCall:
        number = self.next()
        path = f"src/part_{number % 20}.py"
        arguments: list[tuple[str, dict[str, object]]] = [
            ("read_file", {"path": path}),
            ("run_command", {"command": f"pytest {path} -k {number}"}),
            ("write_file", {"path": path, "text": generated_text(self.choose, "arguments", number)}),
            ("search", {"query": f"entry_{number}", "limit": 20}),
        ]
        name, chosen = arguments[self.choose(len(arguments))]
        return ToolCall(f"call_{number}" if id is None else id, name, json.dumps(chosen, ensure_ascii=False))

    def answering(self, calls: Sequence[ToolCall]) -> Iterator[Message]:
        for call in calls:
            yield self.result(call, generated_text(self.choose, "result", self.next()))

    def result(self, call: ToolCall, text: str) -> Message:
        result = ToolResult(call.id, text, call.name, is_error=self.choose(20) == 19)
        return Message(role="tool", parts=(result,))

    # -- hostile

    def regular_turn(self) -> Iterator[Message]:
        yield from self.turn()

    def regular_step(self) -> Iterator[Message]:
        yield from self.step()

    def word(self) -> Iterator[Message]:
        role = _ROLES[self.choose(len(_ROLES))]
        text = hostile_text(self.choose, self.next())
        message = Message(role=role, parts=(Text(text),) if text else ())
        self.said.append(message)
        yield message

    def shuffled_results(self) -> Iterator[Message]:
        asked = self.asking(2 + self.choose(3))
        yield asked
        first = self.choose(len(asked.calls))
        yield from self.answering([*asked.calls[first:], *asked.calls[:first]])

    def split_step(self) -> Iterator[Message]:
        """One step's parallel calls in several messages, and then their results, as some frameworks store them."""
        asked = [self.asking(1) for _ in range(2 + self.choose(2))]
        yield from asked
        yield from self.answering([call for message in asked for call in message.calls])

    def interrupted_step(self) -> Iterator[Message]:
        """Something stands between calls and results."""
        asked = self.asking(1 + self.choose(2))
        yield asked
        yield from self.word()
        yield from self.answering(asked.calls)

    def dangling_call(self) -> Iterator[Message]:
        asked = self.asking(1 + self.choose(2))
        self.waiting += asked.calls
        yield asked

    def late_result(self) -> Iterator[Message]:
        if self.waiting:
            late = self.waiting.pop(self.choose(len(self.waiting)))
            yield self.result(late, hostile_text(self.choose, self.next()))

    def orphan_result(self) -> Iterator[Message]:
        nobody = ToolCall("" if self.choose(3) == 2 else "nobody", "lost", "{}")
        yield self.result(nobody, hostile_text(self.choose, self.next()))

    def doubled_result(self) -> Iterator[Message]:
        asked = self.asking(1)
        yield asked
        yield from [*self.answering(asked.calls), *self.answering(asked.calls)]

    def used_id(self) -> Iterator[Message]:
        """A call whose id was used before, or is empty."""
        call = self.call(id=("call_again", "")[self.choose(2)])
        yield Message(role="assistant", parts=(call,))
        yield from self.answering([call])

    def bad_arguments(self) -> Iterator[Message]:
        call = ToolCall(f"call_{self.next()}", "run", ("", "{", "[1, 2]", '"text"', "null")[self.choose(5)])
        yield Message(role="assistant", parts=(call,))
        yield self.result(call, hostile_text(self.choose, self.next()))

    def bare_reasoning(self) -> Iterator[Message]:
        yield Message(role="assistant", parts=(Thinking(generated_text(self.choose, "assistant", self.next())),))

    def said_again(self) -> Iterator[Message]:
        """An earlier message once more, word for word."""
        if self.said:
            yield self.said[self.choose(len(self.said))]


BEATS: Final[Sequence[Callable[[Writer], Iterator[Message]]]] = (
    Writer.word,
    Writer.regular_step,
    Writer.regular_turn,
    Writer.regular_turn,
    Writer.shuffled_results,
    Writer.split_step,
    Writer.interrupted_step,
    Writer.dangling_call,
    Writer.late_result,
    Writer.orphan_result,
    Writer.doubled_result,
    Writer.used_id,
    Writer.bad_arguments,
    Writer.bare_reasoning,
    Writer.said_again,
)
"""What a hostile conversation is made of; the plainest first."""
