"""`CompactionCallback`: one of litellm's own callbacks, for `litellm.callbacks` and for the proxy's `callbacks:`."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Any, Final, Unpack
from weakref import WeakKeyDictionary

from compaction_adapters.kit import ControllerKeywords, join_id
from compaction_adapters.litellm.calls import (
    OWN_CALL,
    Arguments,
    Callee,
    ChatMessage,
    Conversations,
    SessionId,
    as_mapping,
    import_litellm,
    messages_of,
)
from compaction_adapters.litellm.summaries import call_options
from compaction_hooks import CallOptions, CompactionController, CompactionSession
from compaction_hooks.errors import CompactionError

import_litellm()
from litellm.integrations.custom_logger import CustomLogger  # noqa: E402

logger = logging.getLogger("compaction_hooks")

MAX_CALLS: Final = 1_000
"""Number of unfinished calls that are remembered at once; beyond it the oldest is forgotten."""


@dataclass(slots=True)
class _OpenCall:
    """An unfinished call whose messages were replaced by a view; if the proxy received it, it goes to one or more deployments."""

    session: CompactionSession[ChatMessage]
    messages: list[ChatMessage]
    view: list[ChatMessage]
    is_proxied: bool


class CompactionCallback(Conversations, CustomLogger):
    """Keeps the conversation of every async call inside the window, before the call reaches the model.

    In a program: `litellm.callbacks = [CompactionCallback(...)]`. litellm runs it before `acompletion` and `Router.acompletion`,
    not if messages are given by position. In the proxy: `callbacks: module.instance`. An overflow ends its call, and the next call
    of the conversation is compacted. Calls of `with_compaction`, which does more, are left alone.

    In the proxy an id belongs to an API key: its methods take `callback.session(id, owner).id` for the conversation's id.

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
        CustomLogger.__init__(self)  # pyright: ignore[reportUnknownMemberType] - litellm leaves its keywords untyped
        # litellm takes callbacks of one class with equal public numbers and strings for the same, and runs only the first.
        self.instance: Final = id(self)
        Conversations.__init__(self, controller, keywords, session_id)
        self._open_calls: dict[str, _OpenCall] = {}
        self._curable: WeakKeyDictionary[CompactionSession[ChatMessage], Exception] = WeakKeyDictionary()

    def session(self, conversation_id: str, owner: str = "") -> CompactionSession[ChatMessage]:
        """Return the session of a conversation by the id in its calls; in the proxy, `owner` is the hash of the API key."""
        return self._sessions.open(join_id(owner, conversation_id) if owner else conversation_id)

    # -- before a call

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: object) -> dict[str, Any] | None:
        """Change the messages. litellm calls this when it has chosen the model and provider."""
        return None if OWN_CALL.get() else await self._change(kwargs, call_type, owner=None)

    async def async_pre_call_hook(
        self,
        user_api_key_dict: Any,
        cache: object,  # noqa: ARG002 - litellm gives it by name
        data: dict[str, Any],
        call_type: object,
    ) -> dict[str, Any] | None:
        """Change the messages. The proxy calls this for each request, before its router chooses a deployment."""
        return await self._change(data, call_type, owner=user_api_key_dict.api_key or "")

    async def _change(self, arguments: dict[str, Any], call_type: object, owner: str | None) -> dict[str, Any] | None:
        """Return the arguments with the view for messages; None to send the messages as they are.

        `owner` is the hash of the caller's API key in the proxy; None for the call to a deployment.
        """
        messages = messages_of(arguments)
        # The proxy passes the name of the type, litellm itself an enumeration's member.
        if messages is None or getattr(call_type, "value", call_type) not in ("completion", "acompletion"):
            return None

        router = None if owner is None else getattr(sys.modules.get("litellm.proxy.proxy_server"), "llm_router", None)
        call = self._open_calls.get(_call_id(arguments))
        try:
            # A client of the proxy may choose any id for its call: only equal messages prove that it is the same call.
            if call is None or call.view != messages or owner is not None:
                session = self.session(self._find_id(arguments, messages), owner or "")
                call = _OpenCall(session, messages, messages, is_proxied=owner is not None)
            options = call_options(Callee((router or import_litellm()).acompletion), arguments)
            self._sessions.remember_call(call.session, options)
            call.view = await self._view(call, options)
        except CompactionError as error:  # the callback sees all calls of the program, also those it was not meant for
            of = f"session {call.session.id}: " if call is not None else ""
            logger.warning("%sthe messages go on as they are (%s)", of, type(error).__name__)
            return None

        self._open_calls[_call_id(arguments)] = call
        if len(self._open_calls) > MAX_CALLS:
            del self._open_calls[next(iter(self._open_calls))]
        return None if call.view is messages else {**arguments, "messages": call.view}

    async def _view(self, call: _OpenCall, options: CallOptions) -> list[ChatMessage]:
        """Return the messages to send: a smaller view if the conversation's last call failed with a curable error."""
        curable = self._curable.pop(call.session, None)
        if curable is not None:
            try:
                return await call.session.recover(curable, call.messages, **options)
            except (CompactionError, type(curable)) as error:
                told = call.session.id, type(error).__name__
                logger.warning("session %s: an error could not be cured (%s)", *told)
        return await call.session.transform_context(call.messages, **options)

    # -- after a call

    async def async_log_success_event(self, kwargs: Arguments, response_obj: object, *_: object, **__: object) -> None:
        """Report the usage to the session. litellm calls this with every answer, for a stream at its end."""
        call = self._open_calls.pop(_call_id(kwargs), None)
        # For a stream that does not request usage, litellm estimates it.
        is_estimate = kwargs.get("stream") and not as_mapping(kwargs.get("stream_options")).get("include_usage")
        if call is not None and not is_estimate:
            call.session.report_usage(getattr(response_obj, "usage", None), view=call.view)

    async def async_log_failure_event(self, kwargs: dict[str, Any], *_: object, **__: object) -> None:
        """Remember a curable error for the conversation's next call. litellm calls this with every failed attempt."""
        call, error = self._open_calls.get(_call_id(kwargs)), kwargs.get("exception")
        if call is not None and isinstance(error, Exception) and self._sessions.is_curable(error, kwargs.get("model")):
            self._curable[call.session] = error
        if call is not None and not call.is_proxied:
            self._open_calls.pop(_call_id(kwargs), None)

    async def async_post_call_failure_hook(self, request_data: dict[str, Any], *_: object, **__: object) -> None:
        """Forget the call. The proxy calls this when no deployment could answer."""
        self._open_calls.pop(_call_id(request_data), None)


def _call_id(arguments: Arguments) -> str:
    return str(arguments.get("litellm_call_id"))
