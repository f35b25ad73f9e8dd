"""One call of a function that takes `messages=`: its arguments by name, and what they say of the model it is for."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias, cast

from compaction_adapters.kit import positive
from compaction_hooks import CallOptions
from compaction_hooks.errors import ConfigurationError

Arguments: TypeAlias = Mapping[str, object]
"""The arguments of a call, by name."""

_OWN_CALL: Final = ContextVar("compaction_hooks_own_call", default=False)


class Router(Protocol):
    """What is used of `litellm.Router`."""

    def get_model_list(self, model_name: str | None = None) -> list[Mapping[str, object]] | None:
        """The deployments behind a name."""
        ...


class Callee:
    """A function that takes `messages=`, called with keywords whatever way its caller chose.

    Attributes:
        is_async: Whether a call must be awaited.
        is_sdk: Whether it is `litellm.completion` or `litellm.acompletion`, also inside a `functools.partial`.
        router: The router whose method it is.

    Raises:
        ConfigurationError: it cannot be called, or takes no messages.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._args: tuple[object, ...] = ()
        self._keywords: Arguments = {}
        while isinstance(function, functools.partial):
            self._args = (*function.args, *self._args)
            self._keywords = {**function.keywords, **self._keywords}
            function = cast("Callable[..., object]", function.func)
        if not callable(function):
            raise ConfigurationError(f"with_compaction needs a function, not {type(function).__name__}")
        self._function = function
        self._positional, self._keyword_only, self._takes_any = _parameters(function)
        if not self.takes("messages"):
            raise ConfigurationError(f"with_compaction needs a function that takes messages=; {function!r} does not")
        self.is_async = any(map(inspect.iscoroutinefunction, _layers(function)))
        owner = getattr(function, "__self__", None)
        self.router = cast("Router", owner) if _is_router(owner) else None
        self.is_sdk = owner is None and _is_completion(function)

    def takes(self, name: str) -> bool:
        """Whether the function has this keyword."""
        return self._takes_any or name in self._positional or name in self._keyword_only

    def named(self, args: tuple[object, ...], kwargs: Arguments) -> Arguments:
        """Return a call's arguments by name.

        Raises:
            TypeError: there are more positional arguments than names for them.
        """
        positional = (*self._args, *args)
        if len(positional) > len(self._positional):
            raise TypeError(f"{len(positional)} positional arguments, where {len(self._positional)} have a name")
        return {**self._keywords, **dict(zip(self._positional, positional, strict=False)), **kwargs}

    def send(self, arguments: Arguments) -> object:
        """Call the function; a `CompactionCallback` leaves this call alone.

        Raises:
            ConfigurationError: it turns out to be async after all.
        """
        with own_call():
            response = self._function(**arguments)
        if inspect.iscoroutine(response):
            response.close()
            raise ConfigurationError(
                f"{self._function!r} gave a coroutine, but does not look async: wrap it in an `async def`"
            )
        return response

    async def send_async(self, arguments: Arguments) -> object:
        """As `send`, for an async function."""
        with own_call():
            return await cast("Awaitable[object]", self._function(**arguments))


def _parameters(function: Callable[..., object]) -> tuple[tuple[str, ...], frozenset[str], bool]:
    """The names for positional arguments, in order, those for keywords only, and whether any other keyword is taken.

    A function that hides its names (`*args, **kwargs`) is taken to be one like litellm's.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ("model", "messages"), frozenset(), True
    positional = tuple(one.name for one in parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keyword_only = frozenset(one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY)
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    is_hidden = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters) and not positional
    return ("model", "messages") if is_hidden and takes_any else positional, keyword_only, takes_any


def _layers(function: object) -> Iterator[object]:
    """A function, what it wraps, and the call of an object that is no function."""
    yield function
    yield inspect.unwrap(function) if callable(function) else None
    yield type(function).__dict__.get("__call__")


def _is_router(owner: object) -> bool:
    return any((kind.__module__, kind.__name__) == ("litellm.router", "Router") for kind in type(owner).__mro__)


def _is_completion(function: object) -> bool:
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
    return module.partition(".")[0] == "litellm" and name in ("completion", "acompletion")


@contextmanager
def own_call() -> Generator[None]:
    """While this lasts, a `CompactionCallback` does nothing: its work is done, or the call is one for a summary."""
    token = _OWN_CALL.set(True)
    try:
        yield
    finally:
        _OWN_CALL.reset(token)


def is_own_call() -> bool:
    """Whether `own_call` lasts."""
    return _OWN_CALL.get()


# -- what the arguments say


def messages_of(arguments: Arguments) -> list[Mapping[str, object]] | None:
    """Return the messages of a call; None without any, which is for the function to complain of."""
    messages = arguments.get("messages")
    if not messages or not isinstance(messages, list | tuple):
        return None
    found = cast("Sequence[Mapping[str, object]]", messages)
    return found if isinstance(found, list) else list(found)


def options_of(arguments: Arguments, router: Router | None = None) -> CallOptions:
    """Return the model of a call, its window where litellm knows it, its tools and the most it may answer."""
    name, window = _model(arguments, router)
    limit = arguments.get("max_completion_tokens") or arguments.get("max_tokens")
    return CallOptions(
        model=name,
        context_window=window,
        max_output_tokens=positive(limit),
        tools=arguments.get("tools") or arguments.get("functions"),
    )


def model_of(arguments: Arguments, router: Router | None = None) -> str | None:
    """Return the name of the model that a call is for, or None."""
    return _model(arguments, router)[0]


def _model(arguments: Arguments, router: Router | None) -> tuple[str | None, int | None]:
    """Return the model of a call, and its window where litellm knows it."""
    name = arguments.get("model")
    if router is not None and isinstance(name, str):
        return _behind(router, name)
    return (name if isinstance(name, str) else None), _window(arguments)


def _behind(router: Router, alias: str) -> tuple[str, int | None]:
    """The model behind a router's name for it, and its window: the smallest, where several models stand behind one name.

    Several models keep the router's name, so that what one of them counts is not taken for the size of another's input.
    """
    deployments = [_deployment(found) for found in router.get_model_list(model_name=alias) or ()]
    names = {name for name in (found.get("model") for found in deployments) if isinstance(name, str)}
    windows = [window for window in map(_window, deployments) if window is not None]
    return (names.pop() if len(names) == 1 else alias), min(windows, default=None)


def _deployment(entry: Mapping[str, object]) -> Arguments:
    """The arguments a router adds to a call for one deployment."""
    return {**cast("Arguments", entry.get("litellm_params") or {}), "model_info": entry.get("model_info")}


def _window(arguments: Arguments) -> int | None:
    """The input limit of a call's model in tokens, as far as litellm knows it."""
    limits = [entry.get("max_input_tokens") for entry in known_of_model(arguments)]
    return next(filter(None, map(positive, limits)), None)


def known_of_model(arguments: Arguments) -> Iterator[Arguments]:
    """Yield what is known of a call's model: its `model_info`, then entries of litellm's table in this process.

    The table also has what `litellm.register_model` added. It is read directly, because `litellm.get_model_info` prints, and
    raises for models it does not know.
    """
    info = arguments.get("model_info")
    own: Arguments = cast("Arguments", info) if isinstance(info, Mapping) else {}
    yield own
    table: Mapping[str, object] = getattr(sys.modules.get("litellm"), "model_cost", {})
    for name in (arguments.get("base_model"), own.get("base_model"), arguments.get("model")):
        if isinstance(name, str):
            found = [table.get(key) for key in (name, name.partition("/")[2])]
            yield from (cast("Arguments", entry) for entry in found if isinstance(entry, Mapping))
