"""Generated conversations: realistic ones, and hostile ones as left behind by frameworks, crashes and edits.

A `Choose` makes every decision, so that the same builders work for seeded runs and for Hypothesis.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from compaction_hooks.messages import Media, Message, Part, Role, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.testing.hosts import as_openai_chat
from compaction_hooks.testing.texts import Choose, hostile_text, make_text

MOST_TURNS: Final = 12
"""Turns of the longest realistic conversation."""
MOST_STEPS: Final = 12
"""Tool steps of the longest realistic turn. Recorded turns have 1.5 on average, long ones dozens."""
MOST_BEATS: Final = 40
"""Beats of the longest hostile conversation; a beat is one thing that happens, regular or not."""


def generated_history(seed: int, *, is_hostile: bool = False) -> list[Mapping[str, object]]:
    """Return a conversation as OpenAI chat messages, the same for the same seed in every process.

    Realistic conversations are valid for every provider and have at least one user message. Hostile ones may break every rule of
    every provider, and may be empty.
    """
    choose = random.Random(seed).randrange
    messages = hostile_history(choose) if is_hostile else realistic_history(choose)
    return [as_openai_chat(message) for message in messages]


def realistic_history(choose: Choose, *, most_turns: int = MOST_TURNS) -> list[Message]:
    """Return a valid conversation: turns with tool steps and parallel tool calls, mixed sizes and languages, some media.

    It ends after an answer, with the user's request, or after the results of a tool step.
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
    """Return a conversation that went wrong.

    Results interleaved with other messages, late, duplicate or without a call; tool calls split over messages or never answered;
    ids that are empty or used again; empty contents, system messages inside, reasoning alone, the assistant first, nothing at all;
    lone surrogates, NUL, texts that look like this package's own.
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
    """Writer of messages with different texts.

    Attributes:
        number: Messages and calls written so far.
        waiting: Tool calls without a result so far.
        said: Messages so far, for those that come twice.
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
            yield Message(role="system", parts=(Text(make_text(self.choose, "system", self.next())),))

    def turn(self) -> Iterator[Message]:
        yield self.request()
        for _ in range(MOST_STEPS):
            if self.choose(3) == 0:
                break
            yield from self.step()
        yield self.answer()

    def request(self) -> Message:
        parts: tuple[Part, ...] = (Text(make_text(self.choose, "user", self.next())),)
        if self.choose(25) == 24:
            parts += (Media("image", f"https://example.org/screen-{self.number}.png", is_reference=True),)
        return Message(role="user", parts=parts)

    def answer(self) -> Message:
        text = make_text(self.choose, "assistant", self.next())
        return Message(role="assistant", parts=(*self.thoughts(), Text(text)))

    def step(self) -> Iterator[Message]:
        asked = self.asking(1 + self.choose(4) if self.choose(8) == 7 else 1)
        yield asked
        yield from self.answering(asked.calls)

    def asking(self, count: int) -> Message:
        words = (Text(make_text(self.choose, "assistant", self.next())),) if self.choose(2) else ()
        return Message(role="assistant", parts=(*self.thoughts(), *words, *[self.call() for _ in range(count)]))

    def thoughts(self) -> tuple[Part, ...]:
        if self.choose(5) < 4:
            return ()
        return (Thinking(make_text(self.choose, "assistant", self.next())),)

    def call(self, id: str | None = None) -> ToolCall:
        number = self.next()
        path = f"src/part_{number % 20}.py"
        arguments: list[tuple[str, dict[str, object]]] = [
            ("read_file", {"path": path}),
            ("run_command", {"command": f"pytest {path} -k {number}"}),
            ("write_file", {"path": path, "text": make_text(self.choose, "arguments", number)}),
            ("search", {"query": f"entry_{number}", "limit": 20}),
        ]
        name, chosen = arguments[self.choose(len(arguments))]
        return ToolCall(f"call_{number}" if id is None else id, name, json.dumps(chosen, ensure_ascii=False))

    def answering(self, calls: Sequence[ToolCall]) -> Iterator[Message]:
        for call in calls:
            yield self.result(call, make_text(self.choose, "result", self.next()))

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

    def out_of_order_results(self) -> Iterator[Message]:
        asked = self.asking(2 + self.choose(3))
        yield asked
        first = self.choose(len(asked.calls))
        yield from self.answering([*asked.calls[first:], *asked.calls[:first]])

    def split_step(self) -> Iterator[Message]:
        """Yield parallel tool calls in several messages, then their results, as some frameworks store them."""
        asked = [self.asking(1) for _ in range(2 + self.choose(2))]
        yield from asked
        yield from self.answering([call for message in asked for call in message.calls])

    def interruption(self) -> Iterator[Message]:
        """Yield tool calls and results with another message in between."""
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
        orphan = ToolCall("" if self.choose(3) == 2 else "nobody", "lost", "{}")
        yield self.result(orphan, hostile_text(self.choose, self.next()))

    def duplicate_result(self) -> Iterator[Message]:
        asked = self.asking(1)
        yield asked
        yield from [*self.answering(asked.calls), *self.answering(asked.calls)]

    def id_reuse(self) -> Iterator[Message]:
        """Yield a tool call with an empty id or one that was used before."""
        call = self.call(id=("call_again", "")[self.choose(2)])
        yield Message(role="assistant", parts=(call,))
        yield from self.answering([call])

    def bad_arguments(self) -> Iterator[Message]:
        call = ToolCall(f"call_{self.next()}", "run", ("", "{", "[1, 2]", '"text"', "null")[self.choose(5)])
        yield Message(role="assistant", parts=(call,))
        yield self.result(call, hostile_text(self.choose, self.next()))

    def bare_reasoning(self) -> Iterator[Message]:
        yield Message(role="assistant", parts=(Thinking(make_text(self.choose, "assistant", self.next())),))

    def repetition(self) -> Iterator[Message]:
        """Yield an earlier message again, word for word."""
        if self.said:
            yield self.said[self.choose(len(self.said))]


BEATS: Final[Sequence[Callable[[Writer], Iterator[Message]]]] = (
    Writer.word,
    Writer.regular_step,
    Writer.regular_turn,
    Writer.regular_turn,
    Writer.out_of_order_results,
    Writer.split_step,
    Writer.interruption,
    Writer.dangling_call,
    Writer.late_result,
    Writer.orphan_result,
    Writer.duplicate_result,
    Writer.id_reuse,
    Writer.bad_arguments,
    Writer.bare_reasoning,
    Writer.repetition,
)
"""Parts of a hostile conversation; the simplest first."""
