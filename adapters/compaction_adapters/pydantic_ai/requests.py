"""What one model request tells the core: its model, what counts beside the messages, and what the framework counts on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolReturnPart,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from compaction_adapters.kit import Sessions, positive, tool_schema
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat
from compaction_hooks import CallOptions, CompactionController, CompactionSession

EVIDENCE_KINDS: Final = ("tool-search", "capability-load")
"""Tool kinds whose results are what the framework knows of: which tools were found, which capabilities were loaded."""


class RunSessions(Sessions[ModelMessage]):
    """The sessions of agents' runs."""

    def __init__(self, controller: CompactionController[Any]) -> None:
        super().__init__(controller, PydanticAIFormat())

    def of(self, ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> CompactionSession[ModelMessage]:
        """Return the session of a conversation: the framework's own id, or the newest one that the messages carry.

        If neither tells, the session is the run's; outside a run it is used once. In a durable workflow it is this very run's:
        a replay must not find what the run it replays has left in memory, or it would do something else.
        """
        known = ctx.conversation_id or named_by(messages) or ctx.run_id
        if known is not None and not ctx.in_durable_context:
            return self.named(known)
        return self.once(f"{known or uuid4()}:{ctx.run_id}")


def named_by(messages: Sequence[ModelMessage]) -> str | None:
    """Return the newest conversation id that the messages carry, or None."""
    return next((message.conversation_id for message in reversed(messages) if message.conversation_id), None)


def options_of(
    model: Model[Any],
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
    is_shown: Callable[[ToolDefinition], bool],
) -> CallOptions:
    """Return what counts for a request: its model and window, the instructions and tools that are not in the list.

    Args:
        is_shown: Whether the model has found a tool that is deferred.
    """
    tools = [*parameters.function_tools, *parameters.output_tools]
    return CallOptions(
        model=model_name(model, messages),
        context_window=model.context_window,
        max_output_tokens=positive((settings or {}).get("max_tokens")),
        system="\n\n".join(part.content for part in parameters.instruction_parts or ()),
        tools=[_schema(tool) for tool in tools if not tool.defer_loading or is_shown(tool)],
    )


def options_between(ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> CallOptions:
    """Return the same where the run is known, but no request."""
    newest = next((message for message in reversed(messages) if isinstance(message, ModelRequest)), None)
    options = CallOptions(system=newest.instructions if newest else None)
    model = request_model(ctx.model)
    if model is not None:
        options["model"], options["context_window"] = model_name(model, messages), model.context_window
    if ctx.model_settings is not None:
        options["max_output_tokens"] = positive(ctx.model_settings.get("max_tokens"))
    if ctx.tool_manager is not None:
        shown = [tool.tool_def for tool in (ctx.tool_manager.tools or {}).values()]
        options["tools"] = [_schema(tool) for tool in shown if not tool.defer_loading or ctx.is_tool_available(tool)]
    return options


def _schema(tool: ToolDefinition) -> Mapping[str, object]:
    return tool_schema(tool.name, tool.description, tool.parameters_json_schema)


def request_model(model: object) -> Model[Any] | None:
    """Return a model that answers requests; None for any other, such as one that speaks in real time."""
    return model if isinstance(model, Model) else None  # pyright: ignore[reportUnknownVariableType] - of any client


def model_name(model: Model[Any], messages: Sequence[ModelMessage]) -> str:
    """Return a model's name; of a fallback model the name of the one that answered last, else of the first."""
    names = [leaf.model_name for leaf in leaf_models(model)]
    if len(names) == 1:
        return model.model_name
    answered = next((m.model_name for m in reversed(messages) if isinstance(m, ModelResponse) and m.model_name), "")
    return next((name for name in names if answered.startswith(name)), names[0])


def leaf_models(model: Model[Any]) -> Iterator[Model[Any]]:
    """Yield the models that a request may reach behind wrappers and fallbacks, the first choice first."""
    if isinstance(model, WrapperModel):
        yield from leaf_models(model.wrapped)
    elif isinstance(model, FallbackModel):
        for candidate in model.models:
            yield from leaf_models(candidate)
    else:
        yield model


def replaced_by_provider(messages: Sequence[ModelMessage], model: Model[Any]) -> int:
    """Return how many messages at the head the provider's own compaction stands for; they are its business, not ours.

    The response that holds it is among them, and so is the request that answers the calls in it. 0 when there is none, or
    when the models of this request send everything all the same.
    """
    systems = [leaf.system for leaf in leaf_models(model) if _compacts_itself(leaf)]
    if not systems or len(systems) < len(list(leaf_models(model))):
        return 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, ModelResponse) and any(_is_boundary(part, systems) for part in message.parts):
            return min(index + 1 + any(isinstance(part, ToolCallPart) for part in message.parts), len(messages))
    return 0


def _compacts_itself(model: Model[Any]) -> bool:
    """Whether a model has a compaction of its own: those leave out what lies before its product."""
    return type(model).compact_messages is not Model.compact_messages


def _is_boundary(part: object, systems: Sequence[str]) -> bool:
    if not isinstance(part, CompactionPart) or part.provider_name not in systems:
        return False
    return part.has_content() or "encrypted_content" in (part.provider_details or {})


def pin_evidence(session: CompactionSession[ModelMessage], messages: Sequence[ModelMessage]) -> None:
    """Pin the answers that say which tools were found and which capabilities were loaded, with the calls they answer.

    The framework takes both from the messages behind the newest summary: without them it would hide the tools again.
    """
    for evidence in _evidence(messages):
        session.keep(evidence)


def _evidence(messages: Sequence[ModelMessage]) -> Iterator[ModelMessage]:
    for message in messages:
        if isinstance(message, ModelRequest):
            found = [part for part in message.parts if _is_evidence(part)]
            if found:
                yield replace(message, parts=found)
        elif any(map(_is_own_search, message.parts)) and any(map(_has_name, message.parts)):
            yield message


def _is_evidence(part: object) -> bool:
    return getattr(part, "tool_kind", None) in EVIDENCE_KINDS


def _has_name(part: object) -> bool:
    """Whether a pin can be found again by what this part says; what a provider found itself is in no digest."""
    return isinstance(part, TextPart | ToolCallPart)


def _is_own_search(part: object) -> bool:
    return _is_evidence(part) and isinstance(part, NativeToolReturnPart)
