"""Answers of models that are no summaries, and the limit that a model is asked for: one table for adapters that name a limit."""

from collections.abc import Callable
from functools import partial
from typing import Any

from compaction_hooks import CompactionSettings, Summarizer, Usage
from compaction_hooks.testing import Call
from tests.adapters.client_summaries import LIMIT, Desk
from tests.adapters.stage import SECRET
from tests.provider import Answer, Received, Rejection, Side
from tests.provider.wordings import openai_error

TEXT = f"{SECRET} wants the port finished."
"""No missing heading gives it away: the prompt of these summaries is the host's own."""
CALLS = (Call("read_file", {"path": "a.py"}),)
WHOLE = Usage(input_tokens=900, output_tokens=LIMIT)
NO_SUMMARIES = {
    "cut off": Answer(TEXT, stop="length", usage=WHOLE),
    "cut off, and says that it stopped": Answer(TEXT, stop="stop", usage=WHOLE),
    "empty": Answer(""),
    "calls a tool": Answer(TEXT, CALLS),
    "calls a tool, and says that it stopped": Answer(TEXT, CALLS, stop="stop"),
}
CUT_EARLIER = {"cut off by a limit of the server": Answer(TEXT, stop="length")}
MOST = 4_096
"""The longest answer of an older model."""


async def check(side: Side, summarizer: Summarizer, *, tells_ending: bool = True) -> None:
    """Check which answers become summaries, and the limits they are asked with.

    Args:
        tells_ending: Whether the framework passes on how an answer ended.
    """
    answers = {**NO_SUMMARIES, **(CUT_EARLIER if tells_ending else {}), "an answer": Answer(TEXT)}
    asked = {name: await _compact(side, summarizer, partial(_give, answer)) for name, answer in answers.items()}
    kept = [name for name, (summary, _) in asked.items() if SECRET in summary]
    assert (kept, {tuple(limits) for _, limits in asked.values()}) == (["an answer"], {(LIMIT,)})

    summary, limits = await _compact(side, summarizer, _refuse_long_answers)
    assert (SECRET in summary, limits) == (True, [LIMIT, MOST])


def _give(answer: Answer, _: Received) -> Answer:
    return answer


def _refuse_long_answers(received: Received) -> Answer | Rejection:
    if received.max_tokens <= MOST:
        return Answer(TEXT)
    text = f"max_tokens is too large: {received.max_tokens}. This model supports at most {MOST} completion tokens."
    return Rejection(400, openai_error(text, "max_tokens"))


async def _compact(side: Side, summarizer: Summarizer, answer: Callable[[Received], Any]) -> tuple[str, list[int]]:
    """Return the summary of a compaction, if there is one, and the limits that the model was asked for."""
    side.summarize, side.requests = answer, []
    result = await Desk(summarizer, settings=CompactionSettings(summary_prompt="In one sentence.")).compact()
    return result.record.summary if result.record else "", [request.max_tokens for request in side.requests]
