"""An agent whose summaries are asked in place, at the end of its own conversation."""

import json
from collections.abc import Awaitable, Callable
from itertools import pairwise

from compaction_hooks import CompactionSettings
from tests.provider import Answer, Call, Received, Side

REQUEST = "Read all pages, then say that you have."
DONE = "All is read."
WINDOW = 40_000
SETTINGS = CompactionSettings(trigger_tokens=20_000, clear_tool_results=False)
PAGES = 40
CACHED_RATIO = 0.85
"""The least part of a request for a summary that the provider has in its cache."""


def read_page(page: int) -> str:
    """Return a page of about 1,000 tokens."""
    return f"Page {page}. " + f"Nothing of note on line {page}. " * 120


class Reader:
    """The model: it reads all pages, and is done."""

    def __init__(self, last: int = PAGES) -> None:
        self.pages = 0
        self._last = last

    def __call__(self, received: Received) -> Answer:
        if self.pages == self._last:
            return Answer(DONE)
        self.pages += 1
        return Answer(calls=(Call("read_page", {"page": self.pages}),))


async def check_in_place(side: Side, ask: Callable[[], Awaitable[object]], *, has_answer: bool = True) -> None:
    """Check that each summary is asked by the list of the call, with its options, and read from the cache.

    Args:
        has_answer: Whether the model writes the summary; else it calls a tool, and is asked once more by a transcript.
    """
    side.think, side.window = Reader(), WINDOW
    text = side.summary_text
    called = Answer(calls=(Call("read_page", {"page": 1}),))
    side.summarize = lambda received: called if received.is_in_place and not has_answer else text
    assert await ask() == DONE

    assert not side.rejections
    asked = [(before, each) for before, each in pairwise(side.requests) if each.is_in_place]
    assert len(asked) >= 2
    for before, each in asked:
        check_request(before, each)
    transcripts = [request for request in side.requests if request.is_summary and not request.is_in_place]
    assert len(transcripts) == (0 if has_answer else len(asked))
    assert text.partition("- ")[2].splitlines()[0] in json.dumps(side.requests[-1].messages)


def check_request(before: Received, asked: Received) -> None:
    """Check that a request for a summary begins with the request before it, has its options, and was read from the cache."""
    names = {"messages", "input", "contents", "max_tokens", "max_completion_tokens", "max_output_tokens"}
    assert {name: asked.body[name] for name in asked.body if name not in names | {"stream", "stream_options"}} == {
        name: before.body[name] for name in before.body if name not in names | {"stream", "stream_options"}
    }
    sent = before.messages
    assert asked.messages[: len(sent)] == sent
    assert asked.cached_tokens >= CACHED_RATIO * asked.input_tokens, (asked.cached_tokens, asked.input_tokens)
