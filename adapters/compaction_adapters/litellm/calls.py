"""Calls of litellm, and of other functions that take `messages=`: their arguments, and the model, window and tools in them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from compaction_adapters.kit import positive, tool_schema
from compaction_hooks import CallOptions
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.recall import RecallTool

Arguments: TypeAlias = Mapping[str, object]
"""The arguments of a call, by name."""
_LOCAL_TABLE: Final = "LITELLM_LOCAL_MODEL_COST_MAP"


class Callee:
    """A function that takes `messages=`; it is always called with keywords.

    Attributes:
        is_async: Whether a call must be awaited.
        is_sdk: Whether the function is `litellm.completion` or `litellm.acompletion`, also inside a `functools.partial`.
        router: The `litellm.Router` if the function is one of its methods, else None.
        is_litellms: Whether the function is one of these.

    Raises:
        ConfigurationError: the function cannot be called, or takes no messages.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ConfigurationError(f"with_compaction needs a function, not {type(function).__name__}")
        self._partial = functools.partial(function)  # a partial of a partial has the inner function and all arguments
        self._function = function = self._partial.func
        self._signature = _signature(function)
        parameters = self._signature.parameters.values()
        self._others = next((one.name for one in parameters if one.kind is one.VAR_KEYWORD), "")
        if not self.takes("messages"):
            raise ConfigurationError(f"with_compaction needs a function that takes messages=; {function!r} does not")
        layers = (function, inspect.unwrap(function), type(function).__call__)
        self.is_async = any(map(inspect.iscoroutinefunction, layers))
        owner = getattr(function, "__self__", None)
        # From 1.110 on the methods of a router belong to an object inside it, whose class is in a module of its own.
        is_router = any(one.__module__.startswith("litellm.router") for one in type(owner).__mro__)
        self.router: Any = owner if is_router else None
        module, name = str(getattr(function, "__module__", None)), getattr(function, "__qualname__", None)
        self.is_sdk = module.partition(".")[0] == "litellm" and name in ("completion", "acompletion")
        self.is_litellms = self.is_sdk or self.router is not None

    def takes(self, name: str) -> bool:
        """Return whether the function has this keyword."""
        return bool(self._others) or name in self._signature.parameters

    def bind(self, args: tuple[object, ...], kwargs: Arguments) -> Arguments:
        """Return a call's arguments by name; raise TypeError if the function does not take them."""
        keywords = {**self._partial.keywords, **kwargs}
        arguments = self._signature.bind_partial(*self._partial.args, *args, **keywords).arguments
        others = arguments.pop(self._others, {})
        return {**arguments, **others}

    def call(self, arguments: Arguments) -> Any:
        """Call the function; return its response, or the coroutine of an async function."""
        if self.is_async:
            return self._call_async(arguments)
        with _own_call():
            return self._function(**arguments)

    async def _call_async(self, arguments: Arguments) -> object:
        with _own_call():
            return await self._function(**arguments)


def _signature(function: Callable[..., object]) -> inspect.Signature:
    """Return a function's signature; for `(*args, **kwargs)`, litellm's own."""

    def hidden(model: object, messages: object, **others: object) -> None: ...

    found = inspect.signature(function)
    kinds = {one.kind for one in found.parameters.values()}
    is_hidden = kinds == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return inspect.signature(hidden) if is_hidden else found


def import_litellm() -> Any:
    """Import litellm; untyped, because type checkers need long for all of it.

    Its first import downloads a table of prices and windows, unless LITELLM_LOCAL_MODEL_COST_MAP is set: then the table in its
    wheel is used. Nothing is changed if the user's program has imported litellm, or has set the variable.
    """
    if "litellm" in sys.modules or _LOCAL_TABLE in os.environ:
        return import_module("litellm")
    os.environ[_LOCAL_TABLE] = "True"
    try:
        return import_module("litellm")
    finally:
        os.environ.pop(_LOCAL_TABLE, None)  # processes started later would inherit it


OWN_CALL: Final = ContextVar("compaction_hooks_own_call", default=False)
"""Whether this adapter makes the call, so that a `CompactionCallback` leaves it alone."""


@contextmanager
def _own_call() -> Generator[None]:
    token = OWN_CALL.set(True)
    try:
        yield
    finally:
        OWN_CALL.reset(token)


# -- reading the arguments


def as_mapping(value: object) -> Arguments:
    """Return a mapping among the arguments; an empty one for anything else."""
    return cast("Arguments", value) if isinstance(value, Mapping) else {}


def messages_of(arguments: Arguments) -> list[Arguments] | None:
    """Return the messages of a call; None if there are none: the function itself raises for that."""
    messages = cast("list[Arguments] | tuple[Arguments, ...] | None", arguments.get("messages"))
    if isinstance(messages, tuple):
        return list(messages)
    return messages if isinstance(messages, list) else None


def with_recall(arguments: Arguments) -> Arguments:
    """Return a call's arguments with the recall tool among its tools."""
    tools = cast("Sequence[object]", arguments.get("tools") or ())
    names = {as_mapping(as_mapping(tool).get("function")).get("name") for tool in tools}
    if RecallTool.name in names:
        return arguments
    function = tool_schema(RecallTool.name, RecallTool.description, RecallTool.parameters)
    return {**arguments, "tools": [*tools, {"type": "function", "function": function}]}


def options_of(arguments: Arguments, router: Any = None) -> CallOptions:
    """Return the model of a call, its window if litellm knows it, its tools and its output limit.

    For a router's model group the window is the smallest of its deployments. If they are different models, the group's name is
    kept, so that the usage of one model is not taken for the input size of another.
    """
    name, calls = arguments.get("model"), [arguments]
    if router is not None:
        # 1.109 has a registry, and its get_model_list is deprecated.
        find: Any = router.registry().deployments if hasattr(router, "registry") else router.get_model_list
        group: Sequence[Arguments] = find(model_name=name) or ()
        calls = [{**as_mapping(entry.get("litellm_params")), "model_info": entry.get("model_info")} for entry in group]
    names = {call.get("model") for call in calls}
    model = names.pop() if len(names) == 1 else name
    return CallOptions(
        model=model if isinstance(model, str) else None,
        context_window=min(filter(None, map(_window, calls)), default=None),
        max_output_tokens=positive(arguments.get("max_completion_tokens") or arguments.get("max_tokens")),
        tools=arguments.get("tools") or arguments.get("functions"),
        request={name: value for call in [*calls, arguments] for name, value in call.items()},
    )


def _window(arguments: Arguments) -> int | None:
    """Return the input limit of a call's model in tokens; None if litellm does not know it."""
    limits = (positive(entry.get("max_input_tokens")) for entry in model_entries(arguments))
    return next(filter(None, limits), None)


def model_entries(arguments: Arguments) -> Iterator[Arguments]:
    """Yield the facts about a call's model: its `model_info`, then its entries in litellm's table of models.

    The table includes the models of `litellm.register_model`. It is read directly, because `litellm.get_model_info` prints, and
    raises for models it does not know.
    """
    own = as_mapping(arguments.get("model_info"))
    yield own
    table: Mapping[str, Arguments] = getattr(sys.modules.get("litellm"), "model_cost", {})
    for name in (arguments.get("base_model"), own.get("base_model"), arguments.get("model")):
        if isinstance(name, str):
            yield from (table[key] for key in (name, name.partition("/")[2]) if key in table)
