"""An agent that needs a fact from an early tool result, after its view has left that out. It is told before each compaction."""

import json
from collections.abc import Awaitable, Callable
from itertools import pairwise

from tests.provider import Answer, Call, Received, Side

FACT = "TX-48213"
REQUEST = "Read all pages, then say which code opens the vault."
KNOWN, UNKNOWN = f"The vault opens with {FACT}.", "I do not know."
PAGES = 14
"""Pages of about 1,700 tokens: more than the window of the stages, and one of them ends while the context is nearly full."""
NOTICE = "Write down what you need from the pages."


def read_page(page: int) -> str:
    """Return a page; the fact is on the first one."""
    first = f"The code that opens the vault is {FACT}.\n" if page == 1 else ""
    return first + f"Page {page}. " + f"Nothing of note on line {page}. " * 200


class Reader:
    """The model: it reads all pages, answers if it sees the fact, and searches for it once if it has a tool for that.

    Args:
        argument: Its name for the tool's argument.
    """

    def __init__(self, argument: str = "query") -> None:
        self.pages, self._argument = 0, argument
        self.recalled = False

    def __call__(self, received: Received) -> Answer:
        if self.pages < PAGES:
            self.pages += 1
            return Answer(calls=(Call("read_page", {"page": self.pages}),))
        if FACT in json.dumps(received.messages):
            return Answer(KNOWN)
        names = {tool.get("name") or tool["function"]["name"] for tool in received.tools}
        if self.recalled or "recall" not in names:
            return Answer(UNKNOWN)
        self.recalled = True
        return Answer(calls=(Call("recall", {self._argument: "code that opens the vault"}),))


async def check_recall(
    side: Side,
    ask: Callable[[], Awaitable[object]],
    recall: bool = True,
    argument: str = "query",
    *,
    is_told: bool = True,
) -> None:
    """Check that an agent that is asked for the fact knows it if it has the tool, and only then.

    Args:
        is_told: Whether its model is told before each compaction.
    """
    side.think = reader = Reader(argument)
    assert await ask() == (KNOWN if recall else UNKNOWN)
    assert reader.recalled is recall
    assert ("recall" in str(side.model_requests[-1].messages)) is recall
    if is_told:
        check_told(side)
    else:
        assert NOTICE not in str([received.messages for received in side.requests])


def check_told(side: Side) -> None:
    """Check that the model was told, that no request was refused, and that what was sent before is sent again byte for byte."""
    assert {received.status for received in side.requests} == {200}
    sent = [json.dumps(received.messages) for received in side.model_requests]
    assert [NOTICE in messages for messages in sent].count(True) > 1
    assert all(messages.count(NOTICE) < 2 for messages in sent)
    for before, after in pairwise(sent):
        assert NOTICE not in after or after.startswith(before.removesuffix("]"))
