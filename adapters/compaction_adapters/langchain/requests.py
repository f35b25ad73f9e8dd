"""A `ModelRequest` as the options of its call, and with a view in place of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from langchain.agents.middleware.types import ModelRequest
from langchain.agents.structured_output import AutoStrategy, OutputToolBinding, ProviderStrategy, ToolStrategy
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from compaction_adapters.kit import NativeSummaries, tool_schema
from compaction_adapters.langchain_core import (
    Task,
    chat_model_in,
    model_of_run,
    model_options,
    native_arguments,
    native_summarizer,
    summarizer,
    without_response_ids,
)
from compaction_hooks import CallOptions


def call_options(request: ModelRequest[Any], task: Task, *, native: bool = False) -> CallOptions:
    """Return the options of a call: its model, its summarizer, everything that counts next to the messages, its event handler.

    Args:
        native: Whether the model's provider compacts if it can.
    """
    model: Any = model_of_run(request.model, task.config)
    return {
        **model_options(model, request.model_settings),
        "summarizer": (_native_summarizer(request, model) if native else None) or summarizer(model),
        "system": request.system_message.content if request.system_message is not None else None,
        "tools": [*map(_tool_schema, request.tools), *_answer_schemas(request.response_format)],
        "on_event": task.on_event,
    }


def _native_summarizer(request: ModelRequest[Any], model: Any) -> NativeSummaries | None:
    tools = [*request.tools]
    if isinstance(request.response_format, ToolStrategy):
        binding: Any = OutputToolBinding
        tools += [binding.from_schema_spec(spec).tool for spec in request.response_format.schema_specs]
    prefix = [request.system_message] if request.system_message is not None else []
    return native_summarizer(model, prefix, request.model_settings, tools)


def _tool_schema(tool: BaseTool | dict[str, Any]) -> object:
    return convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else tool


def _answer_schemas(form: object) -> list[object]:
    """Return the schemas of a structured answer. Sent as tools or as a response format, their size is about the same."""
    if form is None:
        return []
    strategy = cast("Any", form)
    if isinstance(form, AutoStrategy):
        strategy = ToolStrategy(strategy.schema)
    elif not isinstance(form, ToolStrategy | ProviderStrategy):
        strategy = ToolStrategy(strategy)  # a bare schema, which middleware may put there
    specs: Sequence[Any] = strategy.schema_specs if isinstance(strategy, ToolStrategy) else [strategy.schema_spec]
    return [tool_schema(spec.name, spec.description, spec.json_schema) for spec in specs]


def with_view(request: ModelRequest[Any], task: Task, view: list[BaseMessage]) -> ModelRequest[Any]:
    """Return the request that sends a view; the same request if it sends its own list in the same way."""
    if arguments := native_arguments(request.model, task.config, view, request.model_settings):
        request = request.override(model_settings={**request.model_settings, **arguments})
    if view is request.messages:
        return request
    if getattr(chat_model_in(request.model), "use_previous_response_id", False):
        view = without_response_ids(view)
    return request.override(messages=cast("list[AnyMessage]", view))
