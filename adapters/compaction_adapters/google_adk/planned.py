"""Planned model calls, and the function on a model's class by which they are made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from types import MethodType
from typing import Final, TypeAlias

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse

Send: TypeAlias = Callable[[LlmRequest, bool], AsyncGenerator[LlmResponse]]
"""A model's `generate_content_async`."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A model call that a plugin has seen, and that the model is about to make.

    Attributes:
        own_compaction: The compaction of events that the app itself has; None without one.
        respond: Returns the responses, given the model's own function and whether to stream.
    """

    request: LlmRequest
    model: BaseLlm
    conversation_id: str
    own_compaction: object
    respond: Callable[[PlannedCall, Send, bool], AsyncGenerator[LlmResponse]]


_PLANNED: Final[ContextVar[PlannedCall | None]] = ContextVar("compaction_hooks_planned_call", default=None)
_MARK: Final = "makes_planned_calls"


def plan(call: PlannedCall) -> None:
    """Let the call's model make it by `call.respond`, now that all callbacks have seen it.

    The method of the model's class is changed, once. ADK asks for the class of a model, so a model of a class of ours around it
    would be sent other requests; and copies of a model have its instance's attributes.
    """
    _PLANNED.set(call)
    kind = type(call.model)
    method: Callable[[BaseLlm, LlmRequest, bool], AsyncGenerator[LlmResponse]] = kind.generate_content_async
    if hasattr(method, _MARK):
        return

    @wraps(method)
    def generate(model: BaseLlm, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse]:
        planned = _PLANNED.get()
        if planned is None or planned.request is not llm_request:
            return method(model, llm_request, stream)
        return planned.respond(planned, MethodType(method, model), stream)

    setattr(generate, _MARK, True)
    setattr(kind, method.__name__, generate)
