"""An agent that needs a fact from an early tool result, after its view has left that out."""

import json
from collections.abc import Awaitable, Callable

from tests.provider import Answer, Call, Received, Side

FACT = "TX-48213"
REQUEST = "Read all pages, then say which code opens the vault."
KNOWN, UNKNOWN = f"The vault opens with {FACT}.", "I do not know."
PAGES = 8
"""Pages of about 3,000 tokens: more than the window of the stages."""


def read_page(page: int) -> str:
    """Return a page; the fact is on the first one."""
    first = f"The code that opens the vault is {FACT}.\n" if page == 1 else ""
    return first + f"Page {page}. " + f"Nothing of note on line {page}. " * 360


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
    side: Side, ask: Callable[[], Awaitable[object]], recall: bool = True, argument: str = "query"
) -> None:
    """Check that an agent that is asked for the fact knows it if it has the tool, and only then."""
    side.think = reader = Reader(argument)
    assert await ask() == (KNOWN if recall else UNKNOWN)
    assert reader.recalled is recall
    assert ("recall" in str(side.model_requests[-1].messages)) is recall
