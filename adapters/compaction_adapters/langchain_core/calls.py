"""One model call as a session is shown it: what its answer says, and which errors are none of its business."""

from __future__ import annotations

from dataclasses import dataclass, replace

from langchain_core.messages import AIMessage

from compaction_adapters.langchain_core.messages import FORMAT
from compaction_adapters.langchain_core.watching import TokenWatch
from compaction_hooks import Message


@dataclass(frozen=True, slots=True)
class PassedOn:
    """Stands for an answer where the model call raised what must reach the caller as it is.

    The session would look at an exception, and might find an overflow to recover from.
    """

    raised: Exception


def passed_on(error: Exception, watch: TokenWatch) -> PassedOn:
    """Return an interrupt, and an error in the midst of a stream; raise any other, for the session to see."""
    from langgraph.errors import GraphBubbleUp  # who calls models in a graph has it

    if isinstance(error, GraphBubbleUp) or watch.has_broken:
        return PassedOn(error)
    raise error


def read_answer(message: AIMessage, watch: TokenWatch) -> Message:
    """Return the model's message with its usage and how it ended."""
    read = FORMAT.read(message)[0]
    # What the user has seen stands, so that it must not be asked for again; the next call compacts first.
    is_seen = read.stop_reason in ("length", "window") and watch.has_tokens
    return replace(read, stop_reason=None) if is_seen else read
