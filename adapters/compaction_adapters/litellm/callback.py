"""`CompactionCallback`: one of litellm's own callbacks, for `litellm.callbacks` and for the proxy's `callbacks:`."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Any, Final, Unpack
from weakref import WeakKeyDictionary

from compaction_adapters.kit import ControllerKeywords, controller_from
from compaction_adapters.litellm.answers import usage_of
from compaction_adapters.litellm.calls import OWN_CALL, Arguments, Callee, as_mapping, messages_of, options_of
from compaction_adapters.litellm.conversations import FORMAT, ChatMessage, Conversations, SessionId
from compaction_adapters.litellm.imports import imported, local_table
from compaction_adapters.litellm.summaries import call_options
from compaction_hooks import CallOptions, CompactionController, CompactionSession
from compaction_hooks.errors import CompactionError

with local_table():
    from litellm.integrations.custom_logger import CustomLogger

logger = logging.getLogger("compaction_hooks")

MAX_CALLS: Final = 1_000
"""Calls under way that are remembered at once."""
_CHAT_CALLS: Final = ("completion", "acompletion")
_PROXY: Final = "litellm.proxy.proxy_server"


@dataclass(slots=True)
class _UnderWay:
    """A call that was handed a view.

    Attributes:
        messages: What the caller sent.
        is_proxied: Whether the proxy took the call in, which hands it on to one or more deployments.
    """

    session: CompactionSession[ChatMessage]
    messages: list[ChatMessage]
    view: list[ChatMessage]
    is_proxied: bool


class CompactionCallback(CustomLogger):
    """Keeps the conversations of every async call inside the window, before it goes to the model.

    In a program: `litellm.callbacks = [CompactionCallback(...)]`. litellm asks it before `acompletion` and `Router.acompletion`,
    not before sync calls, nor where messages are given by position. From an overflow it can only learn: the next call of the
    conversation is compacted. Where the call itself is in reach, `with_compaction` does more; what it sends is left alone here.

    In the proxy: `callbacks: module.instance`. Conversations of different API keys are kept apart.

    Args:
        controller: A controller, shared or not, whatever its format; or none, and its keywords here.
        session_id: As in `with_compaction`.

    Raises:
        ConfigurationError: both a controller and keywords.
    """

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        session_id: SessionId | None = None,
        **keywords: Unpack[ControllerKeywords],
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] - litellm leaves its keywords untyped
        # litellm takes callbacks of one class with equal public numbers and strings for one, and tells only the first.
        self.instance: Final = id(self)
        shared = controller_from(controller, keywords, FORMAT, taker=type(self), sees_model=True)
        self._conversations = Conversations(shared, session_id)
        self._under_way: dict[str, _UnderWay] = {}
        self._curable: WeakKeyDictionary[CompactionSession[ChatMessage], Exception] = WeakKeyDictionary()

    def session(self, conversation_id: str, owner: str = "") -> CompactionSession[ChatMessage]:
        """Return the session of a conversation, by the id that its calls give, as `with_compaction` has it.

        Args:
            owner: In the proxy, the hash of the API key whose conversation it is.
        """
        return self._conversations.owned(conversation_id, owner)

    # -- before a call

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: object) -> dict[str, Any] | None:
        """Called by litellm when it is known which model of which provider is asked: change the messages."""
        return None if OWN_CALL.get() else await self._change(kwargs, call_type, None, owner=None)

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: object,  # noqa: ARG002 - litellm gives it by name
        data: dict[str, Any],
        call_type: object,
    ) -> dict[str, Any] | None:
        """Called by the proxy for each request, before its router looks for a deployment: change the messages."""
        router = getattr(sys.modules.get(_PROXY), "llm_router", None)
        return await self._change(data, call_type, router, owner=user_api_key_dict.api_key or "")

    async def _change(
        self, arguments: dict[str, Any], call_type: object, router: Any, owner: str | None
    ) -> dict[str, Any] | None:
        """Return the arguments with the view for messages; None where those go on as they are.

        Args:
            owner: Whose call the proxy takes in; None where a deployment is asked.
        """
        messages = messages_of(arguments)
        # The proxy gives the name of the type, litellm itself an enumeration's member.
        if messages is None or getattr(call_type, "value", call_type) not in _CHAT_CALLS:
            return None
        callee = Callee((imported() if router is None else router).acompletion)
        try:
            call = self._call(arguments, messages, owner)
            call.view = await self._view(call, call_options(callee, arguments))
        except CompactionError as error:  # other calls of the program are none of our business
            logger.warning("the messages go on as they are (%s)", type(error).__name__)
            return None
        self._under_way[_call_id(arguments)] = call
        if len(self._under_way) > MAX_CALLS:
            del self._under_way[next(iter(self._under_way))]
        return None if call.view is messages else {**arguments, "messages": call.view}

    def _call(self, arguments: Arguments, messages: list[ChatMessage], owner: str | None) -> _UnderWay:
        known = self._under_way.get(_call_id(arguments))
        # Anybody may give a call an id; that the messages are those handed out for it tells whose it is.
        if owner is None and known is not None and known.is_proxied and known.view == messages:
            return known
        session = self._conversations.of(arguments, messages, owner or "")
        return _UnderWay(session, messages, messages, is_proxied=owner is not None)

    async def _view(self, call: _UnderWay, options: CallOptions) -> list[ChatMessage]:
        """The messages to send. After an error that other messages cure, they are those."""
        curable = self._curable.pop(call.session, None)
        if curable is not None:
            try:
                return await call.session.recover(curable, call.messages, **options)
            except (CompactionError, type(curable)) as error:
                logger.warning("an error could not be cured (%s)", type(error).__name__)
        return await call.session.transform_context(call.messages, **options)

    # -- after a call

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: object, *_: object, **__: object
    ) -> None:
        """Called by litellm with every answer, of a stream when it has ended: learn what was counted."""
        call = self._under_way.pop(_call_id(kwargs), None)
        usage = usage_of(response_obj) if _is_counted(kwargs) else None
        if call is not None and usage is not None:
            call.session.report_usage(usage, view=call.view)

    async def async_log_failure_event(self, kwargs: dict[str, Any], *_: object, **__: object) -> None:
        """Called by litellm with every failed attempt: the next call is sent what cures an overflow or a refusal of reasoning."""
        call, error = self._under_way.get(_call_id(kwargs)), kwargs.get("exception")
        if call is None:
            return
        if isinstance(error, Exception) and self._conversations.is_curable(error, options_of(kwargs).get("model")):
            self._curable[call.session] = error
        if not call.is_proxied:
            self._under_way.pop(_call_id(kwargs), None)

    async def async_post_call_failure_hook(self, request_data: dict[str, Any], *_: object, **__: object) -> None:
        """Called by the proxy when no deployment could answer: the request is over."""
        self._under_way.pop(_call_id(request_data), None)


def _is_counted(arguments: Arguments) -> bool:
    """Whether the usage of an answer is the provider's: where a stream is not asked for it, litellm makes up its own."""
    return not arguments.get("stream") or bool(as_mapping(arguments.get("stream_options")).get("include_usage"))


def _call_id(arguments: Arguments) -> str:
    return str(arguments.get("litellm_call_id"))
