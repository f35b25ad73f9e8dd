"""Scripted conversations: what the user says, what the model answers, what the tools return, all known beforehand."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Usage


@dataclass(frozen=True, slots=True)
class Call:
    """The model asks for a tool. The provider that plays the answer makes the call's id."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the model: text, calls, or both.

    Attributes:
        stop: The finish reason on the wire; None: the usual one.
        usage: What the provider claims to have counted; None: what it did count.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: str | None = None
    usage: Usage | None = None

    @classmethod
    def from_openai(cls, message: Mapping[str, object]) -> Answer:
        """Return the answer that an assistant message of the OpenAI chat form is.

        Arguments that are no JSON object are given as {"text": ...}.
        """
        (piece,) = OpenAIChatFormat().read(message)
        return cls(piece.text, tuple(Call(call.name, _arguments(call.arguments)) for call in piece.calls))


def _arguments(text: str) -> Mapping[str, object]:
    try:
        read: object = json.loads(text)
    except ValueError:
        read = None
    return cast("Mapping[str, object]", read) if isinstance(read, dict) else {"text": text}  # JSON's keys are texts


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing the user says, and all that follows from it.

    Attributes:
        answers: The model's answers, in order; the last one has no calls.
        results: What the tools return, one for each call of the answers, in order.
    """

    user: str
    answers: tuple[Answer, ...]
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A whole conversation.

    Attributes:
        system: The agent's system prompt; may be empty.
    """

    turns: tuple[Turn, ...]
    system: str = ""

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All answers, in order: what a provider is to play."""
        return tuple(answer for turn in self.turns for answer in turn.answers)

    @property
    def calls(self) -> tuple[tuple[Call, str], ...]:
        """All calls with their results, in order."""
        return tuple(pair for turn in self.turns for pair in _pairs(turn))


def _pairs(turn: Turn) -> Iterator[tuple[Call, str]]:
    calls = [call for answer in turn.answers for call in answer.calls]
    return zip(calls, turn.results, strict=True)


@dataclass(slots=True)
class ScriptedTool:
    """A tool that returns what the script says; it may be called from any thread.

    Attributes:
        parameters: JSON schema of the arguments.
        runs: The arguments of every call so far, in order.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    runs: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    _results: dict[str, deque[str]] = field(default_factory=lambda: defaultdict[str, deque[str]](deque))

    @property
    def openai_schema(self) -> dict[str, object]:
        """The tool as OpenAI's chat completions take it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def run(self, arguments: Mapping[str, object]) -> str:
        """Return the script's next result for these arguments, "(not in the script)" where it has none.

        Results are found by arguments, since frameworks run parallel calls in any order.
        """
        self.runs.append(arguments)
        waiting = self._results.get(_key(arguments))
        return waiting.popleft() if waiting else "(not in the script)"

    def expect(self, arguments: Mapping[str, object], result: str) -> None:
        """Add a result to those that calls with these arguments get, one each."""
        self._results[_key(arguments)].append(result)


def _key(arguments: Mapping[str, object]) -> str:
    return json.dumps(arguments, sort_keys=True)


def tools_of(script: Script) -> tuple[ScriptedTool, ...]:
    """Return the tools a script calls, in order of first use, each with its results."""
    pairs = script.calls
    names = dict.fromkeys(call.name for call, _ in pairs)
    tools = {name: _tool(name, [call.arguments for call, _ in pairs if call.name == name]) for name in names}
    for call, result in pairs:
        tools[call.name].expect(call.arguments, result)
    return tuple(tools.values())


def _tool(name: str, arguments: Sequence[Mapping[str, object]]) -> ScriptedTool:
    properties = {key: _schema(value) for given in arguments for key, value in given.items()}
    return ScriptedTool(name, f"The tool {name}.", {"type": "object", "properties": properties})


def _schema(value: object) -> Mapping[str, object]:
    return {"type": "string"} if isinstance(value, str) else {}


_VERBS: Final = ("reads", "writes", "checks", "splits", "joins", "sorts", "counts", "caches", "parses", "rounds")
_NOUNS: Final = ("voucher", "entry", "account", "period", "balance", "invoice", "currency", "journal", "batch", "index")


def long_script(turns: int, *, steps: int = 4, text_chars: int = 6_000, topic: str = "ledger") -> Script:
    """Return a made-up session of a coding agent, the same every time.

    Each turn reads and writes files by turns, `steps` of them, every third beside a parallel call, and ends with the answer "All
    parts of task N of TOPIC are done."

    Args:
        turns: How often the user speaks.
        text_chars: Size of each text that is read or written, in characters.
        topic: A word that stands in every text, so that two scripts can be told apart; "ledger", "garden", "harbour".
    """
    return Script(
        system=f"You are a careful engineer who works on {topic}. Use the tools, one step at a time.",
        turns=tuple(_turn(number, steps, text_chars, topic) for number in range(turns)),
    )


def _turn(number: int, steps: int, text_chars: int, topic: str) -> Turn:
    user = f"Task {number} of {topic}: go through the {_NOUNS[number % 10]} code and never change the public API."
    working = [_step(f"{number}_{step}", step, text_chars, topic) for step in range(steps)]
    answers = tuple(
        Answer(f"Next is part {number}_{step} of {topic}.", tuple(call for call, _ in pairs))
        for step, pairs in enumerate(working)
    )
    results = tuple(result for pairs in working for _, result in pairs)
    return Turn(user, (*answers, Answer(f"All parts of task {number} of {topic} are done.")), results)


def _step(stem: str, step: int, text_chars: int, topic: str) -> tuple[tuple[Call, str], ...]:
    path, text = f"src/{topic}/part_{stem}.py", _listing(f"{topic}_{stem}", text_chars)
    reading = (Call("read_file", {"path": path}), text)
    writing = (Call("write_file", {"path": path, "text": text}), "written")
    testing = (Call("run_command", {"command": f"pytest tests/{topic}/test_{stem}.py"}), f"{step + 1} passed")
    done = writing if step % 2 else reading
    return (done, testing) if step % 3 == 2 else (done,)


def _listing(name: str, chars: int) -> str:
    lines: Sequence[str] = [
        f"{line:4} def {name}_{_NOUNS[line % 10]}_{line}(value: int) -> int:  # {_VERBS[line * 7 % 10]} the "
        f"{_NOUNS[line * 3 % 10]} of {line * 37 % 1000}"
        for line in range(chars // 60 + 1)
    ]
    return "\n".join(lines)[:chars]
