"""The time of a call in which nothing is due, in each format of the core.

    python -m tests.benchmarks.calls [--messages 1000]

Each call brings a step: an answer with a call of a tool, and its result. Figures are medians, in microseconds. The columns:

- endless: a window that is never full;
- 200k: a window of 200,000 tokens, part of which is free;
- reported: the host reports the usage of each call;
- inside: answers carry the usage;
- signed: answers begin with signed reasoning, for a model that binds it;
- state: `state()` is asked after each call; its own time is in the figure.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Mapping
from typing import Any

from compaction_hooks import CompactionController, Usage
from tests.formats.plain import WRITERS

STEPS, WARM = 90, 30
"""Calls that are measured, and calls before them."""
ENDLESS, WINDOW = 10**9, 200_000
RESULT = "def f(x):\n    return x + 1\n" * 7
BINDING = "claude-opus-5-5"
"""A model that refuses reasoning behind other messages."""
USAGE: Mapping[str, dict[str, Any]] = {
    "anthropic": {"usage": {"input_tokens": 0, "output_tokens": 60}},
    "bedrock_converse": {"usage": {"inputTokens": 0, "outputTokens": 60}},
    "gemini": {"usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 60}},
    "openai_chat": {"usage": {"prompt_tokens": 0, "completion_tokens": 60}},
    "openai_responses": {"usage": {"input_tokens": 0, "output_tokens": 60}},
}
"""By format: the usage of an answer, as hosts keep it in a message."""
COLUMNS = ("endless", "200k", "reported", "inside", "signed", "state")


def step(form: str, number: int, *, inside: int = 0, is_signed: bool = False) -> list[dict[str, Any]]:
    """Return an answer with a call, and its result."""
    write, name = WRITERS[form], f"c{number}"
    answer = write([], [(name, "read_file", {"path": f"src/a{number}.py"})], None)
    if form == "gemini":
        answer["parts"][0]["functionCall"]["id"] = name
    if is_signed and form == "anthropic":
        answer["content"].insert(0, {"type": "thinking", "thinking": "Next.", "signature": f"signed {number}"})
    if is_signed and form == "bedrock_converse":
        text = {"text": "Next.", "signature": f"signed {number}"}
        answer["content"].insert(0, {"reasoningContent": {"reasoningText": text}})
    if inside:
        ((key, fields),) = USAGE[form].items()
        answer[key] = {**fields, next(iter(fields)): inside}
    result = write([], [], (name, "read_file", RESULT))
    if form == "gemini":
        del result["parts"][:-1]  # the writer tells a result twice
    return [answer, result]


def measure(form: str, column: str, count: int) -> float:
    """Return the median time of a call, in microseconds."""
    window = WINDOW if column == "200k" else ENDLESS
    hooks: CompactionController[Any] = CompactionController(
        context_window=window, model=BINDING if column == "signed" else None
    )
    session, messages = hooks.session("one"), [WRITERS[form](["Please fix the bug."], [], None)]
    kinds = {"is_signed": column == "signed"}
    while len(messages) < count:
        messages += step(form, len(messages), inside=_counted(messages, column), **kinds)
    times: list[int] = []
    for number in range(STEPS + WARM):
        messages += step(form, count + 10 * number, inside=_counted(messages, column), **kinds)
        start = time.perf_counter_ns()
        view = session.transform_context_sync(messages)
        if column == "reported":
            session.report_usage(Usage(input_tokens=len(messages) * 90, output_tokens=60), view)
        if column == "state":
            session.state()
        times.append(time.perf_counter_ns() - start)
        assert len(view) == len(messages)
    return statistics.median(times[WARM:]) / 1000


def _counted(messages: list[Any], column: str) -> int:
    return len(messages) * 90 if column == "inside" else 0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000)
    options = parser.parse_args()
    gc.disable()
    print(f"{'us':<18}" + "".join(f"{column:>10}" for column in COLUMNS))
    for form in WRITERS:
        figures = (measure(form, column, options.messages) for column in COLUMNS)
        print(f"{form:<18}" + "".join(f"{figure:>10.1f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
