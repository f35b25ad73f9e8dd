"""The options of one model request, its session, and the messages that the framework and the provider depend on."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

from pydantic_ai import RunContext
from pydantic_ai import messages as ai
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import ToolDefinition

from compaction_adapters.kit import Sessions, positive, tool_schema
from compaction_adapters.pydantic_ai.messages import PydanticAIFormat
from compaction_hooks import CallOptions, CompactionController, CompactionSession

EVIDENCE_KINDS: Final = ("tool-search", "capability-load")
"""Kinds of tools whose results are the framework's only record of found tools and loaded capabilities."""

_RESULTS: Final = (ai.ToolReturnPart, ai.NativeToolReturnPart)

Session: TypeAlias = CompactionSession[ModelMessage]


class RunSessions(Sessions[ModelMessage]):
    """The sessions of agents' runs.

    Attributes:
        last_calls: The request, without its messages, and the options of each session's last call.
    """

    def __init__(self, controller: CompactionController[Any]) -> None:
        super().__init__(controller, PydanticAIFormat())
        self.last_calls: WeakKeyDictionary[Session, tuple[ModelRequestContext, CallOptions]] = WeakKeyDictionary()
        self._searched: WeakKeyDictionary[Session, tuple[int, ModelMessage]] = WeakKeyDictionary()

    def of(self, ctx: RunContext[Any], messages: Sequence[ModelMessage]) -> Session:
        """Return the session of a conversation, by the framework's own id or the newest id in the messages.

        Without either, the session belongs to the run; outside a run it is used once. In a durable workflow it always belongs to
        the run: a replay must not find the summaries that the first execution left in memory, or it would not do the same.
        """
        known = ctx.conversation_id or find_conversation(messages) or ctx.run_id
        if known is not None and not ctx.in_durable_context:
            return self.open(known)
        return self.open_once(f"{known or uuid4()}:{ctx.run_id}")

    def pin_new_evidence(self, session: Session, messages: Sequence[ModelMessage]) -> None:
        """Pin the evidence in the messages that came after those of the session's last call.

        The last message of a call may be another object in the next one, with other instructions.
        """
        count, last = self._searched.get(session, (0, None))
        goes_on = 0 < count <= len(messages) and messages[count - 1] is last
        pin_evidence(session, messages[count:] if goes_on else messages)
        if len(messages) > 1:
            self._searched[session] = len(messages) - 1, messages[-2]


def find_conversation(messages: Sequence[ModelMessage]) -> str | None:
    """Return the newest conversation id in the messages, or None."""
    return next((message.conversation_id for message in reversed(messages) if message.conversation_id), None)


def is_continuation(messages: Sequence[ModelMessage]) -> bool:
    """Return whether a request only continues an answer that the provider paused: it is sent unchanged."""
    return not messages or isinstance(messages[-1], ModelResponse)


# -- options


def options_of(request: ModelRequestContext, is_shown: Callable[[ToolDefinition], bool]) -> CallOptions:
    """Return the options of a request: its model and window, and the instructions and tools that are not in the list.

    Args:
        is_shown: Whether the model has found a tool that is deferred.
    """
    client, parameters = request_model(request.model), request.model_request_parameters
    tools = [*parameters.function_tools, *parameters.output_tools]
    shown = [tool for tool in tools if not tool.defer_loading or is_shown(tool)]
    settings: Mapping[str, object] = request.model_settings or {}
    own = [dict(leaf.settings or {}) for leaf in leaf_models(request.model)]
    return CallOptions(
        model=model_name(client, request.messages) if client else None,
        context_window=client.context_window if client else None,
        max_output_tokens=positive(settings.get("max_tokens")),
        system="\n\n".join(part.content for part in parameters.instruction_parts or ()),
        tools=[tool_schema(tool.name, tool.description, tool.parameters_json_schema) for tool in shown],
        request=ChainMap({**settings}, *own),
    )


def native_capability(ctx: RunContext[Any]) -> str | None:
    """Return the name of the run's capability that asks OpenAI to compact between requests; no option of a request shows it."""
    names: list[str] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(lambda capability: names.append(type(capability).__name__))
    return "OpenAICompaction" if "OpenAICompaction" in names else None


def request_in(ctx: RunContext[Any], messages: list[ModelMessage]) -> ModelRequestContext:
    """Return a request with these messages, as a run that has none yet would make it."""
    tools = ctx.tool_manager.tools if ctx.tool_manager else None
    requests = (message for message in reversed(messages) if isinstance(message, ModelRequest))
    instructions = next((request.instructions for request in requests), None)
    parameters = ModelRequestParameters(
        function_tools=[tool.tool_def for tool in (tools or {}).values()],
        instruction_parts=[ai.InstructionPart(instructions or "")],
    )
    model: Any = ctx.model  # of any kind: `options_of` knows models that answer no requests
    settings: Any = ctx.model_settings
    return ModelRequestContext(
        model=model, messages=messages, model_settings=settings, model_request_parameters=parameters
    )


# -- models


def request_model(model: object) -> Model[Any] | None:
    """Return a model that answers requests; None for any other, such as a realtime model."""
    return model if isinstance(model, Model) else None  # pyright: ignore[reportUnknownVariableType] - of any client


def model_name(model: Model[Any], messages: Sequence[ModelMessage]) -> str:
    """Return a model's name; for a fallback model, the name of the candidate that answered last, else of the first."""
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
    elif (leaf := request_model(model)) is not None:
        yield leaf


# -- messages that the framework and the provider depend on


def pin_evidence(session: Session, messages: Sequence[ModelMessage]) -> None:
    """Pin the results that record found tools and loaded capabilities, with their tool calls.

    The framework reads both from the messages after the newest summary: without them it would hide the tools again.
    """
    for message in messages:
        found = [part for part in message.parts if isinstance(part, _RESULTS) and part.tool_kind in EVIDENCE_KINDS]
        if not found:
            continue
        if isinstance(message, ModelRequest):
            session.keep(replace(message, parts=cast("list[ai.ModelRequestPart]", found)))
        elif any(isinstance(part, ai.TextPart | ai.ToolCallPart) for part in message.parts):
            # A digest leaves out the provider's own tool results: other parts identify the response.
            session.keep(message)
