"""Runs of graphs: which conversation one belongs to, and where its status events go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig

from compaction_adapters.kit import fields_of
from compaction_hooks.events import CompactionEvent, EventHandler

_NAMESPACE_SEPARATOR: Final = "|"
"""`langgraph._internal._constants.NS_SEP`: between the segments of a checkpoint namespace, outermost first."""
_PUSH: Final = "__pregel_push"
"""`langgraph._internal._constants.PUSH`: begins the path of a task that was started by a `Send` or by calling a `@task`."""


_CHECKPOINTER: Final = "__pregel_checkpointer"
"""`langgraph._internal._constants.CONFIG_KEY_CHECKPOINTER`: under it, a task finds the checkpointer of its run."""


def begins_thread(config: RunnableConfig) -> bool:
    """Return whether a task is in the first step of a thread with a checkpointer; also when time travel repeats that step."""
    is_first = (config.get("metadata") or {}).get("langgraph_step") == 1
    return is_first and bool(cast("Mapping[str, object]", config.get("configurable") or {}).get(_CHECKPOINTER))


def thread_id(config: RunnableConfig) -> str | None:
    """Return the thread of a run; None where it has none."""
    thread = cast("Mapping[str, object]", config.get("configurable") or {}).get("thread_id")
    return str(thread) if thread not in (None, "") else None


def conversation_id(config: RunnableConfig, run: str | None = None) -> str | None:
    """Return the name of the conversation a node works on; None for a run without a thread, which nothing names.

    It is the thread's id in a graph of its own. A subgraph's name has its checkpoint namespace added, and a task that was started
    by `Send` or by calling a `@task` its own: each was given messages of its own.

    Args:
        run: Names the run where it has no thread.
    """
    base = thread_id(config) or run
    if base is None:
        return None
    configurable = cast("Mapping[str, object]", config.get("configurable") or {})
    segments = str(configurable.get("checkpoint_ns") or "").split(_NAMESPACE_SEPARATOR)
    path = cast("Sequence[object]", (config.get("metadata") or {}).get("langgraph_path") or ())
    is_own = _PUSH in path[:1]
    return _NAMESPACE_SEPARATOR.join([base, *(segments if is_own else segments[:-1])])


def conversation_in(thread: str, namespace: str) -> str:
    """Return the name of the conversation of a subgraph that has its checkpoints in this namespace."""
    return f"{thread}{_NAMESPACE_SEPARATOR}{namespace}"


def stream_events(write: Callable[[Any], object]) -> EventHandler:
    """Return an event handler that writes each event to a custom stream, as a dict of numbers and names without message text."""

    def handler(event: CompactionEvent) -> None:
        write(fields_of(event))

    return handler
