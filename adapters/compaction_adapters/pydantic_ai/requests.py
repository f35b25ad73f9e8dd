"""What one model request tells the core: its model, what counts beside the messages, and what the framework counts on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    CompactionPart,
    InstructionPart,
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
            return self.open(known)
        return self.open_once(f"{known or uuid4()}:{ctx.run_id}")


def named_by(messages: Sequence[ModelMessage]) -> str | None:
    """Return the newest conversation id that the messages carry, or None."""
    return next((message.conversation_id for message in reversed(messages) if message.conversation_id), None)


# -- what counts


def options_of(
    model: object,
    messages: Sequence[ModelMessage],
    settings: Mapping[str, Any] | None,
    parameters: ModelRequestParameters,
    is_shown: Callable[[ToolDefinition], bool],
) -> CallOptions:
    """Return what counts for a request: its model and window, the instructions and tools that are not in the list.

    Args:
        is_shown: Whether the model has found a tool that is deferred.
    """
    answering = request_model(model)
    tools = [*parameters.function_tools, *parameters.output_tools]
    shown = [tool for tool in tools if not tool.defer_loading or is_shown(tool)]
    return CallOptions(
        model=model_name(answering, messages) if answering else None,
        context_window=answering.context_window if answering else None,
        max_output_tokens=positive((settings or {}).get("max_tokens")),
        system="\n\n".join(part.content for part in parameters.instruction_parts or ()),
        tools=[tool_schema(tool.name, tool.description, tool.parameters_json_schema) for tool in shown],
    )


def options_in(ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> CallOptions:
    """Return the same where the run is known, but no request."""
    tools = ctx.tool_manager.tools if ctx.tool_manager else None
    said = next((message.instructions for message in reversed(messages) if isinstance(message, ModelRequest)), None)
    parameters = ModelRequestParameters(
        function_tools=[tool.tool_def for tool in (tools or {}).values()],
        instruction_parts=[InstructionPart(said or "")],
    )
    return options_of(ctx.model, messages, ctx.model_settings, parameters, ctx.is_tool_available)


# -- models


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


def leaf_models(model: object) -> Iterator[Model[Any]]:
    """Yield the models that a request may reach behind wrappers and fallbacks, the first choice first."""
    if isinstance(model, WrapperModel):
        yield from leaf_models(model.wrapped)
    elif isinstance(model, FallbackModel):
        for candidate in model.models:
            yield from leaf_models(candidate)
    elif (answering := request_model(model)) is not None:
        yield answering


# -- what the framework and providers count on


def replaced_by_provider(messages: Sequence[ModelMessage], model: object) -> int:
    """Return how many messages at the head the provider's own compaction stands for; they are its business, not ours.

    The response that holds it is among them, and so is the request that answers the calls in it. 0 when there is none, or
    when the models of this request send everything all the same: only those with a compaction of their own leave anything out.
    """
    leaves = [*leaf_models(model)]
    systems = [leaf.system for leaf in leaves if type(leaf).compact_messages is not Model.compact_messages]
    if not systems or len(systems) < len(leaves):
        return 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, ModelResponse) and any(_is_boundary(part, systems) for part in message.parts):
            return min(index + 1 + any(isinstance(part, ToolCallPart) for part in message.parts), len(messages))
    return 0


def _is_boundary(part: object, systems: Sequence[str]) -> bool:
    if not isinstance(part, CompactionPart) or part.provider_name not in systems:
        return False
    return part.has_content() or "encrypted_content" in (part.provider_details or {})


def pin_evidence(session: CompactionSession[ModelMessage], messages: Sequence[ModelMessage]) -> None:
    """Pin the answers that say which tools were found and which capabilities were loaded, with the calls they answer.

    The framework takes both from the messages behind the newest summary: without them it would hide the tools again.
    """
    for message in messages:
        if isinstance(message, ModelRequest):
            if found := [part for part in message.parts if _is_evidence(part)]:
                session.keep(replace(message, parts=found))
        elif any(isinstance(part, NativeToolReturnPart) and _is_evidence(part) for part in message.parts) and any(
            isinstance(part, TextPart | ToolCallPart) for part in message.parts
        ):
            session.keep(message)  # found again by its words and calls: what a provider found itself is in no digest


def _is_evidence(part: object) -> bool:
    return getattr(part, "tool_kind", None) in EVIDENCE_KINDS
