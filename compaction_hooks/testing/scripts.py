"""Scripted conversations: prompts of the user, answers of the model and results of tools."""

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
    """A tool call of the model; the scripted provider adds its id."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the model: text, tool calls, or both.

    Attributes:
        stop: The finish reason in the response; None: the usual one.
        usage: The reported token counts; None: the provider's real counts.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    stop: str | None = None
    usage: Usage | None = None

    @classmethod
    def from_openai(cls, message: Mapping[str, object]) -> Answer:
        """Return the answer in an assistant message of OpenAI chat.

        Arguments other than a JSON object become {"text": ...}.
        """
        (piece,) = OpenAIChatFormat().read(message)
        return cls(piece.text, tuple(Call(call.name, _arguments(call.arguments)) for call in piece.calls))


def _arguments(text: str) -> Mapping[str, object]:
    try:
        read: object = json.loads(text)
    except ValueError:
        read = None
    return (
        cast("Mapping[str, object]", read) if isinstance(read, dict) else {"text": text}
    )  # keys of JSON objects are texts


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt of the user with all answers and results up to the next prompt.

    Attributes:
        answers: The model's answers, in order; the last one has no tool calls.
        results: The tools' results, one for each tool call of the answers, in order.
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
        """All answers, in order, as the provider gives them."""
        return tuple(answer for turn in self.turns for answer in turn.answers)

    @property
    def calls(self) -> tuple[tuple[Call, str], ...]:
        """All tool calls with their results, in order."""
        return tuple(pair for turn in self.turns for pair in _pairs(turn))


def _pairs(turn: Turn) -> Iterator[tuple[Call, str]]:
    calls = [call for answer in turn.answers for call in answer.calls]
    return zip(calls, turn.results, strict=True)


@dataclass(slots=True)
class ScriptedTool:
    """A tool that returns the results in the script. Thread-safe.

    Attributes:
        parameters: JSON schema of the arguments.
        runs: The arguments of every tool call so far, in order.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    runs: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    _results: dict[str, deque[str]] = field(default_factory=lambda: defaultdict[str, deque[str]](deque))

    @property
    def openai_schema(self) -> dict[str, object]:
        """The tool in the form of OpenAI's chat completions."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def run(self, arguments: Mapping[str, object]) -> str:
        """Return the script's next result for these arguments, or "(not in the script)".

        Results are found by arguments, since frameworks run parallel tool calls in any order.
        """
        self.runs.append(arguments)
        waiting = self._results.get(_key(arguments))
        return waiting.popleft() if waiting else "(not in the script)"

    def expect(self, arguments: Mapping[str, object], result: str) -> None:
        """Add a result for the next tool call with these arguments."""
        self._results[_key(arguments)].append(result)


def _key(arguments: Mapping[str, object]) -> str:
    return json.dumps(arguments, sort_keys=True)


def tools_of(script: Script) -> tuple[ScriptedTool, ...]:
    """Return the tools of a script, in order of first use, each with its results."""
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
    """Return a generated session of a coding agent, the same every time.

    Each turn has `steps` steps that read and write files alternately, every third with a parallel tool call, and ends with the
    answer "All parts of task N of TOPIC are done."

    Args:
        turns: Number of prompts by the user.
        text_chars: Size of each text read or written, in characters.
        topic: A word in every text, which tells two scripts apart; such as "ledger", "garden", "harbour".
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
