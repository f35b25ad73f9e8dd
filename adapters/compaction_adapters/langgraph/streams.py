"""What a graph's streams show of a compaction: status events on the custom one, and no message on that of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from compaction_adapters.langgraph.run_options import runtime_of


def stream_writer(config: RunnableConfig) -> Callable[[Any], object] | None:
    """Return what writes to the custom stream of the run; None outside a graph."""
    return getattr(runtime_of(config), "stream_writer", None)


def keep_out_of_messages(config: RunnableConfig, view: Iterable[BaseMessage]) -> None:
    """Let `stream_mode="messages"` take the messages of a view for known.

    It shows every message a node returns that it has not seen, and so would show the summary to the user.
    """
    handlers = cast("Iterable[object]", getattr(config.get("callbacks"), "handlers", ()))
    for handler in handlers:
        seen = getattr(handler, "seen", None)
        if isinstance(seen, set) and type(handler).__module__.startswith("langgraph."):
            cast("set[str | int]", seen).update(message.id for message in view if message.id is not None)
