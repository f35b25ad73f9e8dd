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
from compaction_adapters.litellm.imports import import_litellm, local_table
from compaction_adapters.litellm.summaries import call_options
from compaction_hooks import CallOptions, CompactionController, CompactionSession
from compaction_hooks.errors import CompactionError

with local_table():
    from litellm.integrations.custom_logger import CustomLogger

logger = logging.getLogger("compaction_hooks")

MAX_CALLS: Final = 1_000
"""Number of unfinished calls that are remembered at once; beyond it the oldest is forgotten."""
_CHAT_CALLS: Final = ("completion", "acompletion")
_PROXY: Final = "litellm.proxy.proxy_server"


@dataclass(slots=True)
class _OpenCall:
    """An unfinished call whose messages were replaced by a view.

    Attributes:
        messages: The caller's messages.
        is_proxied: Whether the proxy received the call; it passes it on to one or more deployments.
    """

    session: CompactionSession[ChatMessage]
    messages: list[ChatMessage]
    view: list[ChatMessage]
    is_proxied: bool


class CompactionCallback(CustomLogger):
    """Keeps the conversation of every async call inside the window, before the call reaches the model.

    In a program: `litellm.callbacks = [CompactionCallback(...)]`. litellm runs it before `acompletion` and `Router.acompletion`,
    not before sync calls, nor if messages are given by position. After an overflow it cannot send the call again, but it compacts
    the next call of the conversation. If you make the call yourself, `with_compaction` does more; its calls are left alone here.

    In the proxy: `callbacks: module.instance`. Conversations of different API keys are kept apart.

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        session_id: As in `with_compaction`.

    Raises:
        ConfigurationError: both a controller and keywords are given.
    """

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        session_id: SessionId | None = None,
        **keywords: Unpack[ControllerKeywords],
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] - litellm leaves its keywords untyped
        # litellm takes callbacks of one class with equal public numbers and strings for the same, and runs only the first.
        self.instance: Final = id(self)
        shared = controller_from(controller, keywords, FORMAT, taker=type(self), sees_model=True)
        self._conversations = Conversations(shared, session_id)
        self._open_calls: dict[str, _OpenCall] = {}
        self._curable: WeakKeyDictionary[CompactionSession[ChatMessage], Exception] = WeakKeyDictionary()

    def session(self, conversation_id: str, owner: str = "") -> CompactionSession[ChatMessage]:
        """Return the session of a conversation by the id in its calls, as in `with_compaction`.

        Args:
            owner: In the proxy, the hash of the API key that the conversation belongs to.
        """
        return self._conversations.open_for(owner, conversation_id)

    # -- before a call

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: object) -> dict[str, Any] | None:
        """Change the messages. litellm calls this when it has chosen the model and provider."""
        return None if OWN_CALL.get() else await self._change(kwargs, call_type, None, owner=None)

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: object,  # noqa: ARG002 - litellm gives it by name
        data: dict[str, Any],
        call_type: object,
    ) -> dict[str, Any] | None:
        """Change the messages. The proxy calls this for each request, before its router chooses a deployment."""
        router = getattr(sys.modules.get(_PROXY), "llm_router", None)
        return await self._change(data, call_type, router, owner=user_api_key_dict.api_key or "")

    async def _change(
        self, arguments: dict[str, Any], call_type: object, router: Any, owner: str | None
    ) -> dict[str, Any] | None:
        """Return the arguments with the view for messages; None to send the messages as they are.

        Args:
            owner: The hash of the caller's API key in the proxy; None for the call to a deployment.
        """
        messages = messages_of(arguments)
        # The proxy passes the name of the type, litellm itself an enumeration's member.
        if messages is None or getattr(call_type, "value", call_type) not in _CHAT_CALLS:
            return None

        callee = Callee((import_litellm() if router is None else router).acompletion)
        try:
            call = self._find_call(arguments, messages, owner)
            call.view = await self._view(call, call_options(callee, arguments))
        except CompactionError as error:  # the callback sees all calls of the program, also those it was not meant for
            logger.warning("the messages go on as they are (%s)", type(error).__name__)
            return None

        self._open_calls[_call_id(arguments)] = call
        if len(self._open_calls) > MAX_CALLS:
            del self._open_calls[next(iter(self._open_calls))]
        return None if call.view is messages else {**arguments, "messages": call.view}

    def _find_call(self, arguments: Arguments, messages: list[ChatMessage], owner: str | None) -> _OpenCall:
        known = self._open_calls.get(_call_id(arguments))
        # A client of the proxy may choose any id for its call: only equal messages prove that it is the same call.
        if owner is None and known is not None and known.is_proxied and known.view == messages:
            return known
        session = self._conversations.of(arguments, messages, owner or "")
        return _OpenCall(session, messages, messages, is_proxied=owner is not None)

    async def _view(self, call: _OpenCall, options: CallOptions) -> list[ChatMessage]:
        """Return the messages to send: a smaller view if the conversation's last call failed with a curable error."""
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
        """Report the usage to the session. litellm calls this with every answer, for a stream at its end."""
        call = self._open_calls.pop(_call_id(kwargs), None)
        usage = usage_of(response_obj) if _has_provider_usage(kwargs) else None
        if call is not None and usage is not None:
            call.session.report_usage(usage, view=call.view)

    async def async_log_failure_event(self, kwargs: dict[str, Any], *_: object, **__: object) -> None:
        """Remember a curable error for the conversation's next call. litellm calls this with every failed attempt."""
        call, error = self._open_calls.get(_call_id(kwargs)), kwargs.get("exception")
        if call is None:
            return
        if isinstance(error, Exception) and self._conversations.is_curable(error, options_of(kwargs).get("model")):
            self._curable[call.session] = error
        if not call.is_proxied:
            self._open_calls.pop(_call_id(kwargs), None)

    async def async_post_call_failure_hook(self, request_data: dict[str, Any], *_: object, **__: object) -> None:
        """Forget the call. The proxy calls this when no deployment could answer."""
        self._open_calls.pop(_call_id(request_data), None)


def _has_provider_usage(arguments: Arguments) -> bool:
    """Return whether the usage is the provider's: for a stream that does not request usage, litellm estimates it."""
    return not arguments.get("stream") or bool(as_mapping(arguments.get("stream_options")).get("include_usage"))


def _call_id(arguments: Arguments) -> str:
    return str(arguments.get("litellm_call_id"))
