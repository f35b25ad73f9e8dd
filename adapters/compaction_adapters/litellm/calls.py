"""One call of a function that takes `messages=`: its arguments by name, and what they say of the model it is for."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, cast

from compaction_adapters.kit import positive
from compaction_hooks import CallOptions
from compaction_hooks.errors import ConfigurationError

Arguments: TypeAlias = Mapping[str, object]
"""The arguments of a call, by name."""


class Callee:
    """A function that takes `messages=`, called with keywords whatever way its caller chose.

    Attributes:
        is_async: Whether a call must be awaited.
        is_sdk: Whether it is `litellm.completion` or `litellm.acompletion`, also inside a `functools.partial`.
        router: The `litellm.Router` whose method it is, or None.
        is_litellms: Whether it is one of these.

    Raises:
        ConfigurationError: it cannot be called, or takes no messages.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise ConfigurationError(f"with_compaction needs a function, not {type(function).__name__}")
        self._given = functools.partial(function)  # one of a partial is that partial's function with all that was given
        self._function = function = self._given.func
        self._signature = _signature(function)
        parameters = self._signature.parameters.values()
        self._others = next((one.name for one in parameters if one.kind is one.VAR_KEYWORD), "")
        if not self.takes("messages"):
            raise ConfigurationError(f"with_compaction needs a function that takes messages=; {function!r} does not")
        layers = (function, inspect.unwrap(function), type(function).__call__)
        self.is_async = any(map(inspect.iscoroutinefunction, layers))
        owner = getattr(function, "__self__", None)
        router_class = getattr(sys.modules.get("litellm.router"), "Router", ())
        self.router: Any = owner if isinstance(owner, router_class) else None
        module, name = str(getattr(function, "__module__", None)), getattr(function, "__qualname__", None)
        is_own = module.partition(".")[0] == "litellm" and name in ("completion", "acompletion")
        self.is_sdk = is_own and owner is None
        self.is_litellms = self.is_sdk or self.router is not None

    def takes(self, name: str) -> bool:
        """Whether the function has this keyword."""
        return bool(self._others) or name in self._signature.parameters

    def named(self, args: tuple[object, ...], kwargs: Arguments) -> Arguments:
        """Return a call's arguments by name.

        Raises:
            TypeError: the function does not take them.
        """
        keywords = {**self._given.keywords, **kwargs}
        arguments = self._signature.bind_partial(*self._given.args, *args, **keywords).arguments
        others = arguments.pop(self._others, {})
        return {**arguments, **others}

    def call(self, arguments: Arguments) -> Any:
        """Call the function, and return the response, or for an async function what is to be awaited for it.

        Raises:
            ConfigurationError: it turns out to be async after all.
        """
        if self.is_async:
            return self._call_async(arguments)
        with _own_call():
            response = self._function(**arguments)
        if inspect.iscoroutine(response):
            response.close()
            raise ConfigurationError(
                f"{self._function!r} gave a coroutine, but does not look async: wrap it in an `async def`"
            )
        return response

    async def _call_async(self, arguments: Arguments) -> object:
        with _own_call():
            return await self._function(**arguments)


def _signature(function: Callable[..., object]) -> inspect.Signature:
    """The parameters of a function; those of litellm's where it hides its own (`*args, **kwargs`)."""

    def hidden(model: object, messages: object, **others: object) -> None: ...

    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.signature(hidden)
    kinds = {one.kind for one in found.parameters.values()}
    is_hidden = kinds == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return inspect.signature(hidden) if is_hidden else found


OWN_CALL: Final = ContextVar("compaction_hooks_own_call", default=False)
"""Whether a call is made here: then a `CompactionCallback` has nothing to do, or it is one for a summary."""


@contextmanager
def _own_call() -> Generator[None]:
    token = OWN_CALL.set(True)
    try:
        yield
    finally:
        OWN_CALL.reset(token)


# -- what the arguments say


def as_mapping(value: object) -> Arguments:
    """Return a mapping among the arguments; an empty one for anything else."""
    return cast("Arguments", value) if isinstance(value, Mapping) else {}


def messages_of(arguments: Arguments) -> list[Mapping[str, object]] | None:
    """Return the messages of a call; None without any, which is for the function to complain of."""
    messages = arguments.get("messages")
    if not messages or not isinstance(messages, list | tuple):
        return None
    found = cast("Sequence[Mapping[str, object]]", messages)
    return found if isinstance(found, list) else list(found)


def options_of(arguments: Arguments, router: Any = None) -> CallOptions:
    """Return the model of a call, its window where litellm knows it, its tools and the most it may answer.

    Behind a router's name it is the smallest window. Several models keep that name, so that what one of them counts is not
    taken for the size of another's input.
    """
    name = arguments.get("model")
    deployments = [arguments] if router is None else [*map(_deployment, router.get_model_list(model_name=name) or ())]
    names = {found.get("model") for found in deployments}
    model = names.pop() if len(names) == 1 else name
    return CallOptions(
        model=model if isinstance(model, str) else None,
        context_window=min(filter(None, map(_window, deployments)), default=None),
        max_output_tokens=positive(arguments.get("max_completion_tokens") or arguments.get("max_tokens")),
        tools=arguments.get("tools") or arguments.get("functions"),
    )


def _deployment(entry: Mapping[str, Any]) -> Arguments:
    """The arguments that a router adds to a call for one deployment."""
    return {**(entry.get("litellm_params") or {}), "model_info": entry.get("model_info")}


def _window(arguments: Arguments) -> int | None:
    """The input limit of a call's model in tokens, as far as litellm knows it."""
    limits = (positive(entry.get("max_input_tokens")) for entry in known_of_model(arguments))
    return next(filter(None, limits), None)


def known_of_model(arguments: Arguments) -> Iterator[Arguments]:
    """Yield what is known of a call's model: its `model_info`, then entries of litellm's table in this process.

    The table also has what `litellm.register_model` added. It is read directly, because `litellm.get_model_info` prints, and
    raises for models it does not know.
    """
    own = as_mapping(arguments.get("model_info"))
    yield own
    table: Mapping[str, Arguments] = getattr(sys.modules.get("litellm"), "model_cost", {})
    for name in (arguments.get("base_model"), own.get("base_model"), arguments.get("model")):
        if isinstance(name, str):
            yield from (table[key] for key in (name, name.partition("/")[2]) if key in table)
