"""The options of a run, and the messages that its streams have shown already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime  # pyright: ignore[reportMissingTypeStubs]

from compaction_adapters.langchain_core import Task
from compaction_hooks import CallOptions
from compaction_hooks.errors import ConfigurationError

RUN_OPTIONS_KEY: Final = "compaction"
"""The key in `config["configurable"]` and in a run's context for options of its calls."""

ModelOfRun: TypeAlias = Callable[[Any, Runtime[Any]], object]
"""A function that picks the model of a run, `(state, runtime) -> model`, as for `create_react_agent`."""


def run_options(task: Task) -> CallOptions:
    """Return the options of a run; those in its configuration take precedence over those in its context.

    Raises:
        ConfigurationError: the options are not a mapping.
    """
    found: dict[str, Any] = {}
    for source in (getattr(task.runtime, "context", None), task.configurable):
        options: object = getattr(source, RUN_OPTIONS_KEY, None)
        if isinstance(source, Mapping):
            options = cast("Mapping[str, object]", source).get(RUN_OPTIONS_KEY)
        if options is not None and not isinstance(options, Mapping):
            raise ConfigurationError(
                f'{RUN_OPTIONS_KEY}={options!r} of a run must be a dict of options, such as {{"context_window": 128_000}}'
            )
        found |= cast("Mapping[str, Any]", options or {})
    return cast("CallOptions", found)  # a session checks names and values


def hide_from_stream(task: Task, view: Iterable[BaseMessage]) -> None:
    """Mark the messages of a view as shown for `stream_mode="messages"`.

    It shows all new messages that a node returns, and so would show the summary to the user.
    """
    for handler in cast("Iterable[object]", getattr(task.config.get("callbacks"), "handlers", ())):
        seen = getattr(handler, "seen", None)
        if isinstance(seen, set) and type(handler).__module__.startswith("langgraph."):
            cast("set[str | int]", seen).update(message.id for message in view if message.id is not None)
