"""LangChain's chat models: name, window and limits, and a summarizer that asks one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig

from compaction_adapters.kit import asker, positive, require, summary_of, with_reasoning_room
from compaction_adapters.langchain_core.assistants import finish_reason
from compaction_adapters.langchain_core.messages import FORMAT, SUMMARY_SOURCE
from compaction_hooks import CallOptions, Summarizer, Summary, SummaryRequest
from compaction_hooks.arguments import format_name, is_model_name
from compaction_hooks.errors import ConfigurationError

ModelLike: TypeAlias = BaseChatModel | Runnable[LanguageModelInput, AIMessage]
"""A chat model, or a binding or other runnable around one."""

NO_STREAM_TAG: Final = "nostream"
"""`langgraph.constants.TAG_NOSTREAM`: keeps a call's tokens out of `stream_mode="messages"`."""
_LIMITS: Final = ("max_tokens", "max_output_tokens")
"""The integrations' names for the output limit, as a field and as an argument of a call (OpenAI, Anthropic ...; Google)."""
_REASONING_FIELDS: Final = ("thinking", "reasoning", "reasoning_effort", "thinking_budget", "thinking_level")


def summarizer(model: ModelLike | str, *, config: RunnableConfig | None = None) -> Summarizer:
    """Return a summarizer that asks this model.

    Its tokens stay out of `stream_mode="messages"`; callbacks and tracing, such as `astream_events`, see a separate child run.
    Tools bound to the model are not sent. If the model has a field for the limit of its output, it is asked for at most the summary
    and 8,192 tokens of reasoning; not if its reasoning is configured, because its own limit belongs to that.

    Args:
        model: A chat model, a runnable around one, or a name for `langchain.chat_models.init_chat_model`.
        config: Merged into the configuration of each call: callbacks, tags, metadata.

    Raises:
        ConfigurationError: `model` is none of these.
        MissingExtraError: `model` is a name and langchain is not installed.
    """
    asked = _runnable(model)
    if isinstance(asked, RunnableBinding) and "tools" in asked.kwargs:
        asked = cast(ModelLike, asked.bound)

    limit_name = _limit_name(chat_model_in(asked))

    def ask(request: SummaryRequest, limit: int) -> Summary | Awaitable[Summary]:
        messages: list[BaseMessage] = [SystemMessage(request.system), HumanMessage(request.prompt)]
        limits = {limit_name: limit} if limit_name else {}
        arguments: dict[str, Any] = {"input": messages, "config": summary_config(config), **limits}

        def read(answer: AIMessage) -> Summary:
            return summary_of(FORMAT.read(answer)[0], finish_reason(answer), limit=limit if limit_name else None)

        return asker(lambda _: asked.invoke(**arguments), lambda _: asked.ainvoke(**arguments), read)(request)

    return with_reasoning_room(ask) if limit_name else lambda request: ask(request, request.max_tokens)


def summary_config(config: RunnableConfig | None = None) -> RunnableConfig:
    """Return the configuration of a call that writes a summary, which keeps its tokens out of `stream_mode="messages"`."""
    base = config or {}
    # The mark of `langchain.agents` for inner calls of a middleware; without an agent the module is not loaded.
    module: Any = sys.modules.get("langchain.agents.middleware.internal_call_transformer")
    marks: Mapping[str, object] = module.internal_call_metadata() if module else {}
    return {
        "run_name": "compaction_summary",
        **base,
        "tags": [*(base.get("tags") or ()), NO_STREAM_TAG],
        "metadata": {**(base.get("metadata") or {}), "lc_source": SUMMARY_SOURCE, **marks},
    }


def _runnable(model: ModelLike | str) -> ModelLike:
    if isinstance(model, str):
        if not is_model_name(model):
            raise ConfigurationError(f"a summarizer needs a chat model or its name, not {format_name(model)}")
        require(f"the model name {model!r}", "langchain.chat_models", "langchain", "langchain")
        return cast(BaseChatModel, import_module("langchain.chat_models").init_chat_model(model))
    if not isinstance(model, Runnable):  # pyright: ignore[reportUnnecessaryIsInstance] - a user may pass any object
        raise ConfigurationError(f"a summarizer needs a chat model or its name, not {type(model).__name__}")
    return model


# -- facts about a model

_DYNAMIC: Final = ("langchain_core.runnables.configurable", "DynamicRunnable")
_INITIALIZED: Final = ("langchain.chat_models.base", "_ConfigurableModel")
"""The classes of a model that the configuration of a run selects; `init_chat_model(configurable_fields=...)` makes the second."""


def model_of_run(model: object, config: RunnableConfig) -> object:
    """Return the model that a run's configuration selects; any other model, and one that the run does not name, unchanged."""
    configurable: Any = model
    if is_instance(model, *_DYNAMIC):
        return model_of_run(*configurable.prepare(config))
    if not is_instance(model, *_INITIALIZED):
        return model
    is_named = "model" in {**configurable._default_config, **configurable._model_params(config)}
    return model_of_run(configurable._model(config), config) if is_named else model


def is_configurable(model: object) -> bool:
    """Return whether the configuration of a run selects the model."""
    return is_instance(model, *_DYNAMIC) or is_instance(model, *_INITIALIZED)


def is_instance(model: object, module: str, name: str) -> bool:
    """Return whether a model is of this class, without importing its module: it is imported if there is such a model."""
    return isinstance(model, getattr(sys.modules.get(module), name, ()))


def chat_model_in(model: object) -> BaseChatModel | None:
    """Return the first chat model inside bindings, sequences and fallbacks; None if there is none."""
    if isinstance(model, BaseChatModel):
        return model
    inner = [getattr(model, name, None) for name in ("bound", "runnable")]  # of a binding or retry; of fallbacks
    inner += cast("list[object]", getattr(model, "steps", None) or [])  # of a sequence
    found = (chat_model_in(part) for part in inner if part is not None)
    return next((part for part in found if part is not None), None)


def unbind(model: object) -> tuple[object, Mapping[str, Any]]:
    """Return the model inside all `bind` calls, and the arguments bound by them, such as tools and limits."""
    arguments: Mapping[str, Any] = {}
    while (bound := getattr(model, "bound", None)) is not None:
        arguments = {**cast("Any", model).kwargs, **arguments}
        model = bound
    return model, arguments


_SERVER_FIELDS: Final = ("context_management", "use_previous_response_id", "truncation", "model_kwargs", "extra_body")
"""The fields of chat models that may make the server compact (OpenAI, Anthropic)."""


def model_options(model: object, settings: Mapping[str, object] | None = None) -> CallOptions:
    """Return the options of all calls of this model; without a chat model inside, those of its arguments.

    Args:
        settings: As for `max_output_tokens`.
    """
    inner, arguments = chat_model_in(model), {**unbind(model)[1], **(settings or {})}
    options = CallOptions(
        max_output_tokens=max_output_tokens(model, settings), tools=arguments.get("tools"), request=arguments
    )

    if inner is not None:
        names = (getattr(inner, key, None) for key in ("model_name", "model", "model_id", "deployment_name"))
        options["model"] = next((name for name in names if isinstance(name, str) and name), None)
        options["context_window"] = positive(_profile(inner).get("max_input_tokens"))
        options["summarizer"] = summarizer(inner)
        known = type(inner).model_fields  # to ask a model for what it lacks takes pydantic long
        options["request"] = {**{name: getattr(inner, name) for name in _SERVER_FIELDS if name in known}, **arguments}
    return options


def max_output_tokens(model: object, settings: Mapping[str, object] | None = None) -> int | None:
    """Return the user's limit for an answer in tokens; None without one.

    Args:
        settings: Arguments of this call (`ModelRequest.model_settings`), which override bound and configured ones.
    """
    inner, arguments = chat_model_in(model), {**unbind(model)[1], **(settings or {})}
    limits = [arguments.get(key) for key in ("max_completion_tokens", *_LIMITS)]
    if inner is not None:
        maximum = _profile(inner).get("max_output_tokens")  # `ChatAnthropic` sets it as the limit itself
        own = [getattr(inner, name) for name in _LIMITS if name in inner.model_fields_set]
        limits += [limit for limit in own if limit != maximum]
    return next(filter(None, map(positive, limits)), None)


def _profile(model: BaseChatModel) -> Mapping[str, object]:
    profile = getattr(model, "profile", None)
    return cast("Mapping[str, object]", profile) if isinstance(profile, Mapping) else {}


def _limit_name(model: BaseChatModel | None) -> str | None:
    """Return the field for a limit of the output; None without one, and if reasoning is configured, which counts as output."""
    if model is None:
        return None
    values = [getattr(model, name, None) for name in _REASONING_FIELDS]
    if any(value and value not in ("none", {"type": "disabled"}) for value in values):
        return None
    return next((name for name in _LIMITS if name in type(model).model_fields), None)
