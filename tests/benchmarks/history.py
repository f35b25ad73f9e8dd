"""An agent's history as it grows: requests of a user, tool rounds with parallel calls, results of all sizes.

Nothing in it is recorded or copied; the same seed gives the same messages, and a longer history begins with the shorter one.
10,000 messages have about 5.1 million tokens (cl100k) and about 4,400 model calls. A token has 3.4 characters in the mean, as in
the recorded sessions of Claude Code.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any, TypeAlias

from tests.benchmarks import texts

Chat: TypeAlias = dict[str, Any]
"""A message as OpenAI's chat completions take it."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """A log-normal distribution of text sizes, in characters, with a ceiling."""

    median: int
    spread: float
    ceiling: int = 100_000

    def draw(self, rng: Random) -> int:
        """Return a size."""
        return min(int(rng.lognormvariate(math.log(self.median), self.spread)), self.ceiling)


ROUNDS = 12
"""Tool rounds in one turn of the user, on average."""
PARALLEL_CALLS = {1: 78, 2: 15, 3: 5, 4: 2}
"""Number of tool rounds in 100, by their number of tool calls."""
LARGE_RESULTS = 0.10
SYSTEM_CHARS = 8_000
REQUEST = Sizes(median=300, spread=0.8)
THOUGHT = Sizes(median=160, spread=0.8)
ANSWER = Sizes(median=900, spread=0.7)
WRITTEN = Sizes(median=900, spread=0.9)
RESULT = Sizes(median=815, spread=1.0)
LARGE_RESULT = Sizes(median=12_300, spread=0.6)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name, its share of all tool calls, its arguments and results."""

    name: str
    weight: int
    arguments: Callable[[Random], dict[str, object]]
    result: texts.TextMaker


def _writing(rng: Random) -> dict[str, object]:
    return {"path": texts.path(rng), "content": texts.python(rng, WRITTEN.draw(rng))}


def _request(rng: Random) -> dict[str, object]:
    filled = texts.words(rng)
    return {"url": f"https://api.example.com/v1/{filled['noun']}s", "params": {"limit": filled["number"]}}


TOOLS = (
    Tool(
        "read_file", 30, lambda rng: {"path": texts.path(rng), "offset": rng.randrange(400)}, texts.python_with_numbers
    ),
    Tool("search", 14, lambda rng: {"pattern": texts.words(rng)["function"], "path": "src"}, texts.listing),
    Tool("run_tests", 10, lambda rng: {"command": f"pytest -x {texts.path(rng)}"}, texts.suite_output),
    Tool("read_log", 16, lambda rng: {"command": f"journalctl -u {texts.words(rng)['noun']}"}, texts.log),
    Tool("http_get", 18, _request, texts.json_document),
    Tool("fetch_page", 6, lambda rng: {"query": texts.prose(rng, 40)}, texts.prose),
    Tool("write_file", 6, _writing, lambda rng, _: f"wrote {texts.path(rng)}"),
)


def grow(messages: int, *, seed: int = 0) -> list[Chat]:
    """Return the first messages of a history: a system prompt, then turns of the user. It may end within a tool round."""
    return list(islice(_history(Random(seed)), messages))


def _history(rng: Random) -> Iterator[Chat]:
    yield {"role": "system", "content": texts.prose(rng, SYSTEM_CHARS)}
    while True:
        yield {"role": "user", "content": texts.prose(rng, REQUEST.draw(rng))}
        for _ in range(rng.randrange(1, 2 * ROUNDS)):
            yield from _tool_round(rng)
        yield {"role": "assistant", "content": texts.prose(rng, ANSWER.draw(rng))}


def _tool_round(rng: Random) -> Iterator[Chat]:
    count = rng.choices(tuple(PARALLEL_CALLS), tuple(PARALLEL_CALLS.values()))[0]
    tools = rng.choices(TOOLS, [tool.weight for tool in TOOLS], k=count)
    calls = [_call(rng, tool) for tool in tools]
    yield {"role": "assistant", "content": texts.prose(rng, THOUGHT.draw(rng)), "tool_calls": calls}
    for tool, call in zip(tools, calls, strict=True):
        sizes = LARGE_RESULT if rng.random() < LARGE_RESULTS else RESULT
        yield {"role": "tool", "tool_call_id": call["id"], "content": tool.result(rng, sizes.draw(rng))}


def _call(rng: Random, tool: Tool) -> Chat:
    function = {"name": tool.name, "arguments": json.dumps(tool.arguments(rng))}
    return {"id": f"call_{rng.getrandbits(64):016x}", "type": "function", "function": function}
