"""An agent whose summaries are written while it goes on: the provider keeps each back until it has been asked for more."""

import asyncio
import gc
import json
import re
from collections.abc import Awaitable, Callable

import pytest

from tests.in_place_scene import DONE, WINDOW, Reader
from tests.provider import Answer, Received, Side

LATER = 2
"""The model requests that arrive before each summary is answered."""
PAGES = 35
"""So many that two summaries are taken, and seldom a third one is begun."""
WARNING = "background=True waits for summaries nevertheless: only the summarizer= of the controller outlives a call"


def play(side: Side, *, later: int = LATER) -> None:
    """Let the model read, and number the summaries.

    Args:
        later: The model requests that arrive before each summary is answered.
    """
    side.think, side.window, side.summary_after = Reader(PAGES), WINDOW, later
    side.summarize = lambda _: f"## Goal\n- Summary {sum(one.is_summary for one in side.requests)} of the pages"


async def check_background(side: Side, ask: Callable[[], Awaitable[object]]) -> None:
    """Check that no call waits for a summary, and that the model is sent what was written."""
    play(side)
    assert await ask() == DONE
    assert side.waited == 0
    check_taken(side)


def check_taken(side: Side) -> None:
    """Check that the model was sent two or more summaries, each one asked for but one that was begun last, and rejected nothing."""
    sent = "".join(json.dumps(request.messages) for request in side.model_requests)
    taken = {int(number) for number in re.findall(r"Summary (\d+) of the pages", sent)}
    assert not side.rejections
    assert taken == {*range(len(taken))}
    assert 2 <= len(taken) >= len(summaries_of(side)) - 1


async def check_no_background(side: Side, ask: Callable[[], Awaitable[object]], log: pytest.LogCaptureFixture) -> None:
    """Check that calls wait for the summaries of an adapter to which no summarizer was given, and that one line says so."""
    play(side, later=0)
    assert await ask() == DONE
    check_taken(side)
    assert [record.message.partition(": ")[2] for record in log.records if "background" in record.message] == [WARNING]


def check_end_of_loop(side: Side, ask: Callable[[], Awaitable[object]], log: pytest.LogCaptureFixture) -> None:
    """Check that an event loop ends without a word while a summary is under way."""
    reader = Reader(PAGES)
    side.think = lambda received: Answer(DONE) if summaries_of(side) else reader(received)
    side.window, side.summary_after = WINDOW, PAGES

    async def run() -> object:
        return await ask()

    assert asyncio.run(run()) == DONE
    gc.collect()  # of what was not awaited Python tells then, and such warnings are errors
    assert len(summaries_of(side)) == 1
    assert not log.records


def summaries_of(side: Side) -> list[Received]:
    """Return the requests for summaries."""
    return [request for request in side.requests if request.is_summary]
