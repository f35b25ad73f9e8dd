"""The options that a run brings along, and the messages that its streams already know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime  # pyright: ignore[reportMissingTypeStubs]

from compaction_adapters.langchain_core import Task
from compaction_hooks import CallOptions
from compaction_hooks.errors import ConfigurationError

RUN_OPTIONS_KEY: Final = "compaction"
"""Under it, `config["configurable"]` and a run's context have options of its calls."""

ModelOfRun: TypeAlias = Callable[[Any, Runtime[Any]], object]
"""Picks the model of a run, as `create_react_agent` takes one: `(state, runtime) -> model`."""


def run_options(task: Task) -> CallOptions:
    """Return the options that a run brings along, those of its configuration before those of its context.

    Raises:
        ConfigurationError: they are no mapping.
    """
    found: dict[str, Any] = {}
    for source in (getattr(task.runtime, "context", None), task.configurable):
        given: object = getattr(source, RUN_OPTIONS_KEY, None)
        if isinstance(source, Mapping):
            given = cast("Mapping[str, object]", source).get(RUN_OPTIONS_KEY)
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(
                f'{RUN_OPTIONS_KEY}={given!r} of a run must be a dict of options, such as {{"context_window": 128_000}}'
            )
        found |= cast("Mapping[str, Any]", given or {})
    return cast("CallOptions", found)  # a session checks names and values


def keep_out_of_messages(task: Task, view: Iterable[BaseMessage]) -> None:
    """Let `stream_mode="messages"` take the messages of a view for known.

    It shows every message a node returns that it has not seen, and so would show the summary to the user.
    """
    for handler in cast("Iterable[object]", getattr(task.config.get("callbacks"), "handlers", ())):
        seen = getattr(handler, "seen", None)
        if isinstance(seen, set) and type(handler).__module__.startswith("langgraph."):
            cast("set[str | int]", seen).update(message.id for message in view if message.id is not None)
