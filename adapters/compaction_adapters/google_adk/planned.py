"""Planned model calls, and the function on a model's instance by which they are made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import MethodType
from typing import Any, Final, TypeAlias

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
_METHOD: Final = "generate_content_async"


def plan(call: PlannedCall) -> None:
    """Let the call's model make it by `call.respond`, now that all callbacks have seen it.

    The function is put on the model's instance. ADK asks for the class of a model, so a model of a class of ours around it would be
    sent other requests.
    """
    _PLANNED.set(call)
    model = call.model
    found: Any = vars(model).get(_METHOD)
    if isinstance(found, _Diverted):
        if found.model is model:
            return
        found = None  # a copy of a model has the function of the first one
    own: Send = found or MethodType(type(model).generate_content_async, model)
    object.__setattr__(model, _METHOD, _Diverted(model, own))  # pydantic's own would refuse the name


@dataclass(frozen=True, slots=True)
class _Diverted:
    """A model's function that makes planned calls by their plugin, and all others as before."""

    model: BaseLlm
    send: Send

    def __call__(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse]:
        call = _PLANNED.get()
        if call is None or call.request is not llm_request:
            return self.send(llm_request, stream)
        return call.respond(call, self.send, stream)
