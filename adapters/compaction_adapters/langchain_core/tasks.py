"""A running task of a graph: its thread, its conversation, its channels, its streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig

from compaction_adapters.kit import fields_of
from compaction_hooks.events import EventHandler

# Names of `langgraph._internal._constants`.
_READ: Final = "__pregel_read"
_SEND: Final = "__pregel_send"
_RUNTIME: Final = "__pregel_runtime"
_CHECKPOINTER: Final = "__pregel_checkpointer"
_PUSH: Final = "__pregel_push"
"""The first element of the path of a task that was started by a `Send` or by calling a `@task`."""
NAMESPACE_SEPARATOR: Final = "|"
"""The separator of a checkpoint namespace's segments, outermost first."""


class Task:
    """A task of a graph; outside a graph it has no channels, no runtime and no streams.

    Args:
        config: The task's configuration.
        is_tool: Whether it runs a tool: even if it was started by `Send`, its conversation is that of its graph.
    """

    def __init__(self, config: RunnableConfig, *, is_tool: bool = False) -> None:
        self.config = config
        self._is_tool = is_tool
        self.configurable = cast("Mapping[str, Any]", config.get("configurable") or {})
        self._metadata = cast("Mapping[str, Any]", config.get("metadata") or {})
        parts: tuple[object, ...] = getattr(self.configurable.get(_READ), "args", ())
        found = [cast("Mapping[str, Any]", part) for part in parts if isinstance(part, Mapping)]
        self.channels: Mapping[str, Any] = found[0] if found else {}
        """The channels of the task's graph, by key, with their values at the beginning of the step."""

    @property
    def thread(self) -> str | None:
        """The thread of the run, or None."""
        thread = self.configurable.get("thread_id")
        return str(thread) if thread not in (None, "") else None

    @property
    def runtime(self) -> Any:
        """LangGraph's runtime of the run."""
        return self.configurable.get(_RUNTIME)

    @property
    def begins_thread(self) -> bool:
        """Whether the task is in the first step of a thread with a checkpointer; also when time travel repeats that step."""
        return self._metadata.get("langgraph_step") == 1 and bool(self.configurable.get(_CHECKPOINTER))

    @property
    def on_event(self) -> EventHandler | None:
        """A handler that writes each event to the custom stream, as a dict of numbers and names without message text."""
        write = getattr(self.runtime, "stream_writer", None)
        return None if write is None else lambda event: write(fields_of(event))

    def conversation(self) -> str | None:
        """Return the name of the task's conversation; None for a run without a thread.

        In an outermost graph it is the thread's id. In a subgraph the checkpoint namespace is appended, and in a task that was
        started by `Send` or by calling a `@task` the task's own namespace: each of these has its own messages.
        """
        if self.thread is None:
            return None
        segments = str(self.configurable.get("checkpoint_ns") or "").split(NAMESPACE_SEPARATOR)
        is_own = not self._is_tool and _PUSH in cast("Sequence[object]", self._metadata.get("langgraph_path") or ())[:1]
        return NAMESPACE_SEPARATOR.join([self.thread, *(segments if is_own else segments[:-1])])

    def read_hidden(self, key: str) -> Any:
        """Return the value of a hidden channel; None without one."""
        return getattr(self.channels.get(key), "hidden_value", None)

    def get(self, key: str) -> Any:
        """Return the value of any other channel; None without one."""
        channel = self.channels.get(key)
        return channel.get() if channel is not None and channel.is_available() else None

    def declares(self, key: str) -> bool:
        """Return whether the graph has this channel; true outside a graph."""
        return not self.channels or key in self.channels

    def write(self, values: Mapping[str, object]) -> None:
        """Write these channels, in addition to the node's own update; channels that the graph lacks are left out."""
        send = self.configurable.get(_SEND)
        if self.channels and send is not None:
            send([(key, value) for key, value in values.items() if self.declares(key)])
