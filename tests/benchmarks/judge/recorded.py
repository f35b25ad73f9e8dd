"""Compactions that a recorded agent made itself, so that its own model's summary stands beside one by rule of as many tokens."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.benchmarks.judge.replaying import KEEP_TOKENS, LARGE_WINDOW, NEXT_STEPS
from tests.benchmarks.judge.texts import Chat, content, render
from tests.benchmarks.runner import Worker

LEAST_COVERED = 30_000
"""Tokens of the covered messages, at least: a compaction by hand of a short conversation is another thing."""

_OPENING = "This session is being continued from a previous conversation"
"""The first words of Claude Code's summaries."""
_OWN_TEXT = re.compile(r"Summary:?\s*\n(.*)", re.DOTALL)
"""The summary, behind the notes that its model made before."""


def find_recorded(record: Chat, source: str, library: Worker, count: Callable[[str], int]) -> Iterator[dict[str, Any]]:
    """Yield the moments of a session without their sizes, each with the recorded summary.

    Args:
        count: Returns the tokens of a text.
    """
    messages = record["messages"]
    for nth, at in enumerate(filter(lambda at: _is_summary(messages[at]), range(len(messages))), 1):
        covered, recorded = covered_before(messages, at), content(messages[at])
        answers = [i for i in range(at, len(messages)) if messages[i]["role"] == "assistant"][:NEXT_STEPS]
        if len(answers) < NEXT_STEPS or sum(count(render(each)[1]) for each in covered) < LEAST_COVERED:
            continue

        own = _OWN_TEXT.search(recorded)
        made = compact(library, covered, count(recorded))
        completed = compact(library, covered, 2 * count(recorded), own[1] if own else recorded)
        yield {
            "case": f"{record['id']}|recorded|{at}",
            "session": record["id"],
            "source": source,
            "window": LARGE_WINDOW,
            "keep": KEEP_TOKENS,
            "at": at,
            "nth": nth,
            "steps": NEXT_STEPS,
            "head": [],
            "covered": [*map(render, covered[: made["covered"]])],
            "pins": [],
            "pinned": [],
            "recent": [*map(render, [*covered[made["covered"] :], *messages[at + 1 : answers[0]]])],
            "next": [*map(render, messages[answers[0] : answers[-1] + 1])],
            "summary": made["summary"],
            "recorded": recorded,
            "completed": completed["summary"],
        }


def covered_before(messages: Sequence[Chat], at: int) -> list[Chat]:
    """Return what the summary in this place covers: the messages before it, from the summary before on."""
    start = max((i for i in range(at) if _is_summary(messages[i])), default=0)
    return [message for message in messages[start:at] if message["role"] != "system"]


def compact(library: Worker, messages: Sequence[Chat], max_tokens: int, text: str | None = None) -> dict[str, Any]:
    """Return the message of a summary of all but the last step, and how many messages it covers: see `replaying.compact_all`."""
    question = {"task": "compacted", "messages": messages, "max_tokens": max_tokens, "text": text}
    made: dict[str, Any] = library.ask(question)
    return made


def _is_summary(message: Chat) -> bool:
    return message["role"] == "user" and content(message).lstrip().startswith(_OPENING)
