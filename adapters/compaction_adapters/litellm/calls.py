"""Calls of litellm, and of other functions that take `messages=`: the function, and the facts and conversation in its arguments."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final, TypeAlias, cast
from uuid import UUID

from compaction_adapters.kit import ControllerKeywords, ModelCalls, opening_key, positive
from compaction_hooks import CallOptions, CompactionController, CompactionSession
from compaction_hooks.arguments import format_value
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import OpenAIChatFormat

Arguments: TypeAlias = Mapping[str, object]
"""The arguments of a call, by name."""
ChatMessage: TypeAlias = Mapping[str, object]
SessionId: TypeAlias = str | Callable[[Mapping[str, object]], str | None]
"""A conversation's id; or a function that finds it in a call's arguments, or returns None."""
OWN_CALL: Final = ContextVar("compaction_hooks_own_call", default=False)
"""Whether this adapter makes the call, so that a `CompactionCallback` leaves it alone."""
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
        self._signature = inspect.signature(function)
        names = {one.kind: one.name for one in self._signature.parameters.values()}
        self._others = names.get(inspect.Parameter.VAR_KEYWORD, "")

        # A function around litellm's may hide their arguments behind (*args, **kwargs).
        if names.keys() == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            chat = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("model", "messages")]
            self._signature = self._signature.replace(parameters=[*chat, self._signature.parameters[self._others]])
        if not self.takes("messages"):
            raise ConfigurationError(
                f"with_compaction needs a function that takes messages=; {format_value(function)} does not"
            )

        layers = (function, inspect.unwrap(function), type(function).__call__)
        self.is_async = any(map(inspect.iscoroutinefunction, layers))

        owner = getattr(function, "__self__", None)
        # From 1.110 on the methods of a router belong to an object inside it, whose class is in a module of its own.
        is_router = any(one.__module__.startswith("litellm.router") for one in type(owner).__mro__)
        self.router: Any = owner if is_router else None
        module, name = str(getattr(function, "__module__", None)), getattr(function, "__qualname__", None)
        self.is_sdk = module.partition(".")[0] == "litellm" and name in ("completion", "acompletion")
        self.is_litellms = self.is_sdk or is_router

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
        return self._call_async(arguments) if self.is_async else self._function(**arguments)

    async def _call_async(self, arguments: Arguments) -> object:
        token = OWN_CALL.set(True)
        try:
            return await self._function(**arguments)
        finally:
            OWN_CALL.reset(token)


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


# -- reading the arguments


def as_mapping(value: object) -> Arguments:
    """Return a mapping among the arguments; an empty one for anything else."""
    return cast("Arguments", value) if isinstance(value, Mapping) else {}


def messages_of(arguments: Arguments) -> list[ChatMessage] | None:
    """Return the messages of a call; None if there are none: the function itself raises for that."""
    given = arguments.get("messages")
    messages = list(cast("tuple[object, ...]", given)) if isinstance(given, tuple) else given
    return cast("list[ChatMessage]", messages) if isinstance(messages, list) else None


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


# -- the conversation


class LiteLLMFormat(OpenAIChatFormat):
    """Chat messages as dicts, as `litellm.Message` objects, or mixed, with Anthropic's blocks in litellm's own field."""

    def native(self, items: Sequence[Mapping[str, object]], /) -> list[ChatMessage]:
        """Return an assistant message of these blocks."""
        return [{"role": "assistant", "content": None, "provider_specific_fields": {"compaction_blocks": [*items]}}]


FORMAT: Final = LiteLLMFormat()


class Conversations(ModelCalls[ChatMessage]):
    """The conversations of a function or a callback, by the id in its calls, or by `session_id=` if that is a text."""

    _shares_ids = False

    def __init__(
        self,
        controller: CompactionController[Any] | None,
        keywords: ControllerKeywords,
        session_id: SessionId | None,
    ) -> None:
        super().__init__(controller, keywords, FORMAT)
        self._session_id = session_id

    def _own_conversation(self) -> str | None:
        return self._session_id if isinstance(self._session_id, str) else None

    def _session_of(
        self,
        conversation_id: str | None,
        messages: Sequence[ChatMessage],  # noqa: ARG002 - the caller's id decides, whatever the messages
    ) -> CompactionSession[ChatMessage]:
        return self._find_session(conversation_id)

    def _find_id(self, arguments: Arguments, messages: Sequence[ChatMessage]) -> str:
        """Return the id of a call's conversation. `user` names a person, not a conversation."""
        own_id = self._session_id(arguments) if callable(self._session_id) else self._session_id
        metadata = [as_mapping(arguments.get(name)) for name in ("metadata", "litellm_metadata")]
        ids = [
            *(fields.get(key) for key in ("conversation_id", "thread_id", "session_id") for fields in metadata),
            arguments.get("litellm_session_id"),
        ]
        named = next((str(id_) for id_ in ids if isinstance(id_, str | int | UUID) and id_), None)
        return own_id or named or f"litellm-{opening_key(FORMAT, messages)}"
