"""An agent whose model asks for a compaction: too early, in time, and once more in the same turn."""

import json
from collections.abc import Awaitable, Callable

from compaction_hooks import CompactionEvent, CompactionFinished
from tests.provider import Answer, Call, Received, Side

REQUEST = "Read all leaves."
NOTE = "The vault opens with TX-48213."
DONE = "All is read."
NAME = "compact_context"


def read_leaf(leaf: int) -> str:
    """Return a leaf of about 1,000 tokens: eight of them take 60 % of the threshold of the stages."""
    return f"Leaf {leaf}. " + f"Nothing of note on line {leaf}. " * 120


class Asker:
    """The model: it asks before the first leaf and after each one, until its order is taken; then once more, and it is done.

    Attributes:
        early: How often it was refused because it was too early.
        compacted: The request after the one whose order was taken.
    """

    def __init__(self) -> None:
        self.early, self._leaves = 0, 0
        self.compacted: Received | None = None

    def __call__(self, received: Received) -> Answer:
        last = json.dumps(received.messages[-1])
        if "you have asked once" in last:
            return Answer(DONE)
        if "Not now" in last:
            self.early += 1
            self._leaves += 1
            return Answer(calls=(Call("read_leaf", {"leaf": self._leaves}),))
        if "Your next step begins" in last:
            self.compacted = received
        return Answer(calls=(Call(NAME, {"focus": "the vault", "note": NOTE}),))


async def check_compact(side: Side, ask: Callable[[], Awaitable[object]], events: list[CompactionEvent]) -> None:
    """Check that the model is refused early, that its next request is compacted when it is not, and that it is refused again."""
    side.think = asker = Asker()
    assert await ask() == DONE
    assert asker.early > 2
    assert [event.reason for event in events if isinstance(event, CompactionFinished)] == ["tool"]

    assert asker.compacted is not None
    view = json.dumps(asker.compacted.messages)
    summary, _, kept = view.partition("</summary>")
    assert "Leaf 1." not in kept
    assert NOTE in summary
    assert NOTE in kept  # the call itself

    assert not side.rejections
    assert {NAME in str(request.tools) for request in side.model_requests} == {True}
    assert len({str(request.tools) for request in side.model_requests}) == 1
