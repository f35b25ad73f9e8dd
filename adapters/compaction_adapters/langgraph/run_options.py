"""What a run says about its own compactions: by its configuration, its context, or the model that it picks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime  # pyright: ignore[reportMissingTypeStubs]

from compaction_hooks import CallOptions
from compaction_hooks.errors import ConfigurationError

RUN_OPTIONS_KEY: Final = "compaction"
"""Under it, `config["configurable"]` and a run's context have options of its calls."""
RUNTIME: Final = "__pregel_runtime"
"""`langgraph._internal._constants.CONFIG_KEY_RUNTIME`: under it, a task finds the runtime of its run."""

ModelOfRun: TypeAlias = Callable[[Any, Runtime[Any]], object]
"""Picks the model of a run, as `create_react_agent` takes one: `(state, runtime) -> model`."""


def runtime_of(config: RunnableConfig) -> Any:
    """Return the runtime of the run a task belongs to; None outside a graph."""
    return cast("Mapping[str, Any]", config.get("configurable") or {}).get(RUNTIME)


def run_options(config: RunnableConfig) -> CallOptions:
    """Return the options that a run brings along, those of its configuration before those of its context.

    Raises:
        ConfigurationError: they are no mapping.
    """
    context = getattr(runtime_of(config), "context", None)
    found: dict[str, Any] = {}
    for source in (context, config.get("configurable")):
        keys = cast("Mapping[str, object]", source if isinstance(source, Mapping) else getattr(source, "__dict__", {}))
        given = keys.get(RUN_OPTIONS_KEY)
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(
                f'{RUN_OPTIONS_KEY}={given!r} of a run must be a dict of options, such as {{"context_window": 128_000}}'
            )
        found |= cast("Mapping[str, Any]", given or {})
    return cast("CallOptions", found)  # a session checks names and values
