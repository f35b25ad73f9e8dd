"""LangChain's chat models: their name, their window, and how one of them writes a summary."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langchain_core.runnables.configurable import DynamicRunnable

from compaction_adapters.kit import asker, positive, summary_of
from compaction_adapters.langchain_core.messages import FORMAT, SUMMARY_SOURCE
from compaction_adapters.langchain_core.usage import finish_reason
from compaction_hooks import CallOptions, Summarizer, Summary, SummaryRequest
from compaction_hooks.errors import ConfigurationError, MissingExtraError

ModelLike: TypeAlias = BaseChatModel | Runnable[LanguageModelInput, AIMessage]
"""A chat model, or one with something bound to it or around it."""

NO_STREAM_TAG: Final = "nostream"
"""`langgraph.constants.TAG_NOSTREAM`: keeps a call's tokens out of `stream_mode="messages"`."""
_LIMITS: Final = ("max_tokens", "max_output_tokens")
"""How integrations call the limit of an answer, both as a field and as an argument of a call (OpenAI, Anthropic ...; Google)."""
_REASONING_FIELDS: Final = ("thinking", "reasoning", "reasoning_effort", "thinking_budget", "thinking_level")


def summarizer(model: ModelLike | str, *, config: RunnableConfig | None = None) -> Summarizer:
    """Return a summariser that asks this model.

    Its tokens stay out of `stream_mode="messages"`; callbacks and tracing, `astream_events` among them, see a child run of its own.
    Tools bound to the model are not offered to it. An answer's limit is sent where the model has such a field, except to models
    that reason: there it would bound the reasoning too.

    Args:
        model: A chat model, a runnable around one, or a name for `langchain.chat_models.init_chat_model`.
        config: Merged into the configuration of each call: callbacks, tags, metadata.

    Raises:
        ConfigurationError: `model` is neither.
        MissingExtraError: a name is given and langchain is not installed.
    """
    asked = _runnable(model)
    if isinstance(asked, RunnableBinding) and "tools" in asked.kwargs:
        asked = cast(ModelLike, asked.bound)
    limit = _limit_name(chat_model_in(model))

    def arguments(request: SummaryRequest) -> dict[str, Any]:
        messages: list[BaseMessage] = [SystemMessage(request.system), HumanMessage(request.prompt)]
        limits = {limit: request.max_tokens} if limit else {}
        return {"input": messages, "config": summary_config(config), **limits}

    def read(answer: AIMessage) -> Summary:
        return summary_of(FORMAT.read(answer)[0], finish_reason(answer))

    return asker(
        lambda request: asked.invoke(**arguments(request)),
        lambda request: asked.ainvoke(**arguments(request)),
        read,
    )


def summary_config(config: RunnableConfig | None = None) -> RunnableConfig:
    """Return the configuration of a call that writes a summary: no token of it reaches `stream_mode="messages"`."""
    given = config or {}
    # What `langchain.agents` marks the inner calls of a middleware with; nothing where no agent has loaded it.
    module: Any = sys.modules.get("langchain.agents.middleware.internal_call_transformer")
    marks: Mapping[str, object] = module.internal_call_metadata() if module else {}
    return {
        "run_name": "compaction_summary",
        **given,
        "tags": [*(given.get("tags") or ()), NO_STREAM_TAG],
        "metadata": {**(given.get("metadata") or {}), "lc_source": SUMMARY_SOURCE, **marks},
    }


def _runnable(model: ModelLike | str) -> ModelLike:
    if isinstance(model, str):
        try:
            return cast(BaseChatModel, import_module("langchain.chat_models").init_chat_model(model))
        except ModuleNotFoundError as error:
            if error.name not in ("langchain", "langchain.chat_models"):
                raise
            raise MissingExtraError(f"the model name {model!r}", "langchain", "langchain") from error
    if not isinstance(model, Runnable):  # pyright: ignore[reportUnnecessaryIsInstance] - whatever a user gave
        raise ConfigurationError(f"a summarizer needs a chat model or its name, not {type(model).__name__}")
    return model


# -- what a model is


def model_of_run(model: object, config: RunnableConfig) -> object:
    """Return what a run makes of a configurable model; any other model, and one that the run does not name, as it is."""
    while isinstance(model, DynamicRunnable):
        model, config = cast("tuple[object, RunnableConfig]", cast("Any", model).prepare(config))
    if not _is_of_init_chat_model(model):
        return model
    made: Any = model
    is_named = "model" in {**made._default_config, **made._model_params(config)}
    return model_of_run(made._model(config), config) if is_named else made


def is_configurable(model: object) -> bool:
    """Return whether the configuration of a run says which model this is."""
    return isinstance(model, DynamicRunnable) or _is_of_init_chat_model(model)


def _is_of_init_chat_model(model: object) -> bool:
    """Whether it is what `init_chat_model(configurable_fields=...)` returns, in LangChain, which is not loaded for that."""
    module = sys.modules.get("langchain.chat_models.base")
    return module is not None and isinstance(model, cast("type", getattr(module, "_ConfigurableModel", ())))


def chat_model_in(model: object) -> BaseChatModel | None:
    """Return the chat model inside bindings, sequences and fallbacks (the first one); None when there is none."""
    if isinstance(model, BaseChatModel):
        return model
    inner = [getattr(model, name, None) for name in ("bound", "runnable")]  # of a binding or retry; of fallbacks
    inner += cast("list[object]", getattr(model, "steps", None) or [])  # of a sequence
    found = (chat_model_in(part) for part in inner if part is not None)
    return next((part for part in found if part is not None), None)


def model_options(model: object, settings: Mapping[str, object] | None = None) -> CallOptions:
    """Return what a session is told of every call of this model; nothing where there is no chat model.

    Args:
        settings: As for `max_output_tokens`.
    """
    inner = chat_model_in(model)
    if inner is None:
        return {}
    names = (getattr(inner, key, None) for key in ("model_name", "model", "model_id", "deployment_name"))
    return {
        "model": next((name for name in names if isinstance(name, str) and name), None),
        "context_window": positive(_profile(inner).get("max_input_tokens")),
        "max_output_tokens": max_output_tokens(model, settings),
        "tools": _bound_arguments(model).get("tools"),
        "summarizer": summarizer(inner),
    }


def max_output_tokens(model: object, settings: Mapping[str, object] | None = None) -> int | None:
    """Return what the user limited an answer to, in tokens; None when they did not.

    Args:
        settings: Arguments of the very call (`ModelRequest.model_settings`), which win over what is bound or configured.
    """
    bound = {**_bound_arguments(model), **(settings or {})}
    for source in (bound, _set_by_user(chat_model_in(model))):
        for key in ("max_completion_tokens", *_LIMITS):
            if limit := positive(source.get(key)):
                return limit
    return None


def _bound_arguments(model: object) -> Mapping[str, object]:
    """Return the arguments bound to a model: tools, limits, whatever `bind` was given."""
    bound = getattr(model, "bound", None)
    own = cast("Mapping[str, object]", getattr(model, "kwargs", {}))
    return {} if bound is None else {**_bound_arguments(bound), **own}


def _set_by_user(model: BaseChatModel | None) -> Mapping[str, object]:
    """The limits among a model's fields; what `ChatAnthropic` fills in itself, the model's own maximum, is none of the user's."""
    if model is None:
        return {}
    filled_in = _profile(model).get("max_output_tokens")
    given = {name: getattr(model, name) for name in _LIMITS if name in model.model_fields_set}
    return {name: limit for name, limit in given.items() if limit != filled_in}


def _profile(model: BaseChatModel) -> Mapping[str, object]:
    profile = getattr(model, "profile", None)
    return cast("Mapping[str, object]", profile) if isinstance(profile, Mapping) else {}


def _limit_name(model: BaseChatModel | None) -> str | None:
    if model is None or _reasons(model):
        return None
    return next((name for name in _LIMITS if name in type(model).model_fields), None)


def _reasons(model: BaseChatModel) -> bool:
    """Whether reasoning is counted with the answer: asked for, or (but for Anthropic, where it is off by default) inborn."""
    for name in _REASONING_FIELDS:
        value = getattr(model, name, None)
        is_off = isinstance(value, Mapping) and cast("Mapping[str, object]", value).get("type") == "disabled"
        if value and not is_off and value != "none":
            return True
    is_inborn = _profile(model).get("reasoning_output") is True
    return is_inborn and "thinking" not in type(model).model_fields
