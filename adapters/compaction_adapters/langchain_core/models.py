"""LangChain's chat models: name, window and limits, and a summarizer that asks one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig

from compaction_adapters.kit import ask_in_place, asker, positive, require, summary_of, with_reasoning_room
from compaction_adapters.langchain_core.assistants import finish_reason
from compaction_adapters.langchain_core.messages import FORMAT, SUMMARY_SOURCE
from compaction_hooks import CallOptions, LiveCall, Summarizer, Summary, SummaryRequest
from compaction_hooks.arguments import format_name, is_model_name
from compaction_hooks.errors import ConfigurationError, SummaryRefusedError

ModelLike: TypeAlias = BaseChatModel | Runnable[LanguageModelInput, AIMessage]
"""A chat model, or a binding or other runnable around one."""

NO_STREAM_TAG: Final = "nostream"
"""`langgraph.constants.TAG_NOSTREAM`: keeps a call's tokens out of `stream_mode="messages"`."""
_LIMITS: Final = ("max_tokens", "max_output_tokens")
"""The integrations' names for the output limit, as a field and as an argument of a call (OpenAI, Anthropic ...; Google)."""
_ALL_LIMITS: Final = ("max_completion_tokens", *_LIMITS)
_REASONING_FIELDS: Final = ("thinking", "reasoning", "reasoning_effort", "thinking_budget", "thinking_level")


def summarizer(model: ModelLike | str, *, config: RunnableConfig | None = None) -> Summarizer:
    """Return a summarizer that asks this model.

    Its tokens stay out of `stream_mode="messages"`; callbacks and tracing, such as `astream_events`, see a separate child run, but
    none of a summary in the background.
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

    def ask(request: SummaryRequest) -> Summary | Awaitable[Summary]:
        messages = [SystemMessage(request.system), HumanMessage(request.prompt)]
        return _ask(asked, request, {"input": messages, "config": summary_config(config)}, limit_name)

    return ask


def in_place(model: ModelLike | str, *, config: RunnableConfig | None = None) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. It is sent with what the last call was sent with, as the middleware or the
    model that `CompactionNode.wrap` returned saw it: system prompt, tools and options, those of middleware inside included. Only
    the limit of the answer is that of `summarizer(model)`. Otherwise the model is asked as by `summarizer(model)`: if a transcript
    costs less, if the call is not known, if it was a call of another model, and once if the answer is no summary.

    Args:
        model: The model of the conversation, as the agent or the model node has it. Arguments of its calls replace bound ones.
        config: Merged into the configuration of each call: callbacks, tags, metadata.

    Raises:
        ConfigurationError: as for `summarizer`.
        MissingExtraError: likewise.
    """
    asked = _runnable(model)
    inner = chat_model_in(asked)

    def ask(live: LiveCall, request: SummaryRequest) -> Summary | Awaitable[Summary]:
        made = live.request
        if inner is None or not isinstance(made, CallArguments) or made.sent is None:
            raise SummaryRefusedError("what the last call was sent with is not known")
        if live.model not in (None, name_of(inner)):
            raise SummaryRefusedError(f"in_place() has another model than the call of {live.model}")

        arguments = _given(inner, made.sent)
        tools = [cast("Mapping[str, object]", one) for one in arguments.get("tools") or () if isinstance(one, Mapping)]
        if any(tool.get("type") == "mcp" for tool in tools):
            raise SummaryRefusedError("LangChain hides the headers of MCP servers, which the request would need")
        limit_name = _limit_name(inner, arguments)
        if limit_name:
            arguments = {name: value for name, value in arguments.items() if name not in _ALL_LIMITS}
        arguments |= {"input": [*made.prefix, *live.messages], "config": summary_config(config)}
        return _ask(asked, request, arguments, limit_name)

    return ask_in_place(ask, lambda summary: summary, summarizer(asked, config=config))


def _ask(
    model: ModelLike, request: SummaryRequest, arguments: Mapping[str, Any], limit_name: str | None
) -> Summary | Awaitable[Summary]:
    """Ask a model for a summary, sync or async as the caller is, and for at most the summary and its reasoning.

    Args:
        limit_name: The argument for the limit; None: no limit.
    """

    def ask(request: SummaryRequest, limit: int) -> Summary | Awaitable[Summary]:
        given: dict[str, Any] = {**arguments, **({limit_name: limit} if limit_name else {})}

        def read(answer: AIMessage) -> Summary:
            return summary_of(FORMAT.read(answer)[0], finish_reason(answer), limit=limit if limit_name else None)

        return asker(lambda _: model.invoke(**given), lambda _: model.ainvoke(**given), read)(request)

    if limit_name is None:
        return ask(request, request.max_tokens)
    return cast("Summary | Awaitable[Summary]", with_reasoning_room(ask)(request))


class CallArguments(dict[str, object]):
    """The options of a call for the session, and what the model was then called with, for a summary in place.

    Attributes:
        prefix: The messages that were sent before the view.
        sent: The arguments of the call, with or without the fields of the model; None if they are not known.
    """

    prefix: Sequence[BaseMessage] = ()
    sent: Mapping[str, Any] | None = None

    def note(self, view: Sequence[BaseMessage], messages: Sequence[BaseMessage], sent: Mapping[str, Any]) -> None:
        """Note a call of a model, if it was sent the view: not one of another model, nor with a view that was changed."""
        start = len(messages) - len(view)
        behind = messages[max(start, 0) :]
        if start < 0 or any(one is not other and one != other for one, other in zip(view, behind, strict=True)):
            return
        self.prefix, self.sent = messages[:start], sent
        # Options of middleware inside, by which the session may tell that the answer could be no summary.
        self.update({name: value for name, value in sent.items() if self.get(name) is None})


_OF_THE_CALL: Final = frozenset({"stream", "stream_options", "n"})
"""Arguments of a call that would shape the answer to the user."""


def _given(model: Any, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that are not the fields of its model."""
    fields: Mapping[str, Any] = model._get_invocation_params()
    return {
        name: value
        for name, value in sent.items()
        if name not in _OF_THE_CALL and (name not in fields or fields[name] != value)
    }


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
        max_output_tokens=max_output_tokens(model, settings),
        tools=arguments.get("tools"),
        request=CallArguments(arguments),
    )

    if inner is not None:
        options["model"] = name_of(inner)
        options["context_window"] = positive(_profile(inner).get("max_input_tokens"))
        options["summarizer"] = in_place(inner)
        known = type(inner).model_fields  # to ask a model for what it lacks takes pydantic long
        fields: dict[str, Any] = {name: getattr(inner, name) for name in _SERVER_FIELDS if name in known}
        options["request"] = CallArguments({**fields, **arguments})
    return options


def name_of(model: BaseChatModel) -> str | None:
    """Return the name of a chat model, by whatever field it has."""
    names = (getattr(model, key, None) for key in ("model_name", "model", "model_id", "deployment_name"))
    return next((name for name in names if isinstance(name, str) and name), None)


def max_output_tokens(model: object, settings: Mapping[str, object] | None = None) -> int | None:
    """Return the user's limit for an answer in tokens; None without one.

    Args:
        settings: Arguments of this call (`ModelRequest.model_settings`), which override bound and configured ones.
    """
    inner, arguments = chat_model_in(model), {**unbind(model)[1], **(settings or {})}
    limits = [arguments.get(key) for key in _ALL_LIMITS]
    if inner is not None:
        maximum = _profile(inner).get("max_output_tokens")  # `ChatAnthropic` sets it as the limit itself
        own = [getattr(inner, name) for name in _LIMITS if name in inner.model_fields_set]
        limits += [limit for limit in own if limit != maximum]
    return next(filter(None, map(positive, limits)), None)


def _profile(model: BaseChatModel) -> Mapping[str, object]:
    profile = getattr(model, "profile", None)
    return cast("Mapping[str, object]", profile) if isinstance(profile, Mapping) else {}


def _limit_name(model: BaseChatModel | None, arguments: Mapping[str, Any] | None = None) -> str | None:
    """Return the field for a limit of the output; None without one, and if reasoning is configured, which counts as output.

    Args:
        arguments: Those of the call.
    """
    if model is None:
        return None
    values = [(arguments or {}).get(name) or getattr(model, name, None) for name in _REASONING_FIELDS]
    if any(value and value not in ("none", {"type": "disabled"}) for value in values):
        return None
    return next((name for name in _LIMITS if name in type(model).model_fields), None)
