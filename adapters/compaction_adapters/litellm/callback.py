"""`CompactionCallback`: one of litellm's own callbacks, for `litellm.callbacks` and for the proxy's `callbacks:`."""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar, Unpack, cast

from compaction_adapters.kit import ControllerKeywords, controller_from, is_curable
from compaction_adapters.litellm.answers import usage_of
from compaction_adapters.litellm.calls import Arguments, Callee, is_own_call, messages_of, model_of
from compaction_adapters.litellm.conversations import FORMAT, ChatMessage, Conversations, SessionId
from compaction_adapters.litellm.imports import imported, local_table
from compaction_adapters.litellm.summaries import call_options
from compaction_hooks import CompactionController, CompactionSession
from compaction_hooks.errors import CompactionError

with local_table():
    from litellm.integrations.custom_logger import CustomLogger

V = TypeVar("V")

logger = logging.getLogger("compaction_hooks")

MAX_CALLS: Final = 1_000
"""Calls under way, and curable errors not yet acted on, that are remembered at once."""
_CHAT_CALLS: Final = ("completion", "acompletion")
_PROXY: Final = "litellm.proxy.proxy_server"


class ApiKey(Protocol):
    """What is used of the proxy's `UserAPIKeyAuth`."""

    @property
    def api_key(self) -> str | None:
        """The hash of the key."""
        ...


@dataclass(frozen=True, slots=True)
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
        self._under_way: OrderedDict[str, _UnderWay] = OrderedDict()
        self._curable: OrderedDict[str, Exception] = OrderedDict()

    def session(self, conversation_id: str, owner: str = "") -> CompactionSession[ChatMessage]:
        """Return the session of a conversation, by the id that its calls give, as `with_compaction` has it.

        Args:
            owner: In the proxy, the hash of the API key whose conversation it is.
        """
        return self._conversations.owned(conversation_id, owner)

    # -- before a call

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: object) -> dict[str, Any] | None:
        """Called by litellm when it is known which model of which provider is asked: change the messages."""
        messages = messages_of(kwargs)
        if is_own_call() or not _is_chat(call_type) or messages is None:
            return None
        known = self._under_way.get(_call_id(kwargs))
        callee = Callee(imported().acompletion)
        # Anybody may give a call an id; that the messages are those handed out for it tells whose it is.
        if known is not None and known.is_proxied and known.view == messages:
            view = await self._view(known.session, known.messages, callee, kwargs)
            self._note(kwargs, replace(known, view=view))
            return {**kwargs, "messages": view}
        with _going_on():
            session = self._conversations.session(kwargs, messages)
            view = await self._view(session, messages, callee, kwargs)
            self._note(kwargs, _UnderWay(session, messages, view, is_proxied=False))
            return None if view is messages else {**kwargs, "messages": view}

    async def async_pre_call_hook(
        self,
        user_api_key_dict: ApiKey,
        cache: object,  # noqa: ARG002 - litellm gives it by name
        data: dict[str, Any],
        call_type: object,
    ) -> dict[str, Any] | None:
        """Called by the proxy for each request, before its router looks for a deployment: change the messages."""
        messages = messages_of(data)
        if not _is_chat(call_type) or messages is None:
            return None
        router = getattr(sys.modules.get(_PROXY), "llm_router", None)
        callee = Callee(imported().acompletion if router is None else router.acompletion)
        with _going_on():
            session = self._conversations.session(data, messages, owner=user_api_key_dict.api_key or "")
            view = await self._view(session, messages, callee, data)
            self._note(data, _UnderWay(session, messages, view, is_proxied=True))
            return {**data, "messages": view}

    async def _view(
        self,
        session: CompactionSession[ChatMessage],
        messages: list[ChatMessage],
        callee: Callee,
        arguments: Arguments,
    ) -> list[ChatMessage]:
        """The messages to send. After an error that other messages cure, they are those."""
        options = call_options(callee, arguments)
        curable = self._curable.pop(session.id, None)
        if curable is not None:
            try:
                return await session.recover(curable, messages, **options)
            except (CompactionError, type(curable)) as error:
                logger.warning("an error could not be cured (%s)", type(error).__name__)
        return await session.transform_context(messages, **options)

    # -- after a call

    async def async_log_success_event(
        self,
        kwargs: dict[str, Any],
        response_obj: object,
        start_time: object,  # noqa: ARG002
        end_time: object,  # noqa: ARG002
    ) -> None:
        """Called by litellm with every answer, of a stream when it has ended: learn what was counted."""
        known = self._under_way.pop(_call_id(kwargs), None)
        usage = usage_of(response_obj) if _is_counted(kwargs) else None
        if known is not None and usage is not None:
            known.session.report_usage(usage, view=known.view)

    async def async_log_failure_event(
        self,
        kwargs: dict[str, Any],
        response_obj: object,  # noqa: ARG002 - litellm gives it by name
        start_time: object,  # noqa: ARG002
        end_time: object,  # noqa: ARG002
    ) -> None:
        """Called by litellm with every failed attempt: the next call is sent what cures an overflow or a refusal of reasoning."""
        known = self._under_way.get(_call_id(kwargs))
        error = kwargs.get("exception")
        patterns = self._conversations.controller.settings_for(model_of(kwargs)).overflow_patterns
        if known is not None and isinstance(error, Exception) and is_curable(error, patterns):
            _remember(self._curable, known.session.id, error)
        if known is not None and not known.is_proxied:
            self._under_way.pop(_call_id(kwargs), None)

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,  # noqa: ARG002 - litellm gives it by name
        user_api_key_dict: ApiKey,  # noqa: ARG002
        traceback_str: str | None = None,  # noqa: ARG002
    ) -> None:
        """Called by the proxy when no deployment could answer: the request is over."""
        self._under_way.pop(_call_id(request_data), None)

    def _note(self, arguments: Arguments, call: _UnderWay) -> None:
        _remember(self._under_way, _call_id(arguments), call)


@contextmanager
def _going_on() -> Generator[None]:
    """Let the messages go on as they are where they cannot be read: other calls of the program are none of our business."""
    try:
        yield
    except CompactionError as error:
        logger.warning("the messages go on as they are (%s)", type(error).__name__)


def _remember(table: OrderedDict[str, V], key: str, value: V) -> None:
    table.pop(key, None)
    table[key] = value
    if len(table) > MAX_CALLS:
        table.popitem(last=False)


def _is_chat(call_type: object) -> bool:
    """Whether messages are chat messages here; the proxy gives the name, litellm itself an enumeration's member."""
    return getattr(call_type, "value", call_type) in _CHAT_CALLS


def _is_counted(arguments: Arguments) -> bool:
    """Whether the usage of an answer is the provider's: where a stream is not asked for it, litellm makes up its own."""
    stream_options = arguments.get("stream_options")
    is_asked = isinstance(stream_options, Mapping) and cast("Arguments", stream_options).get("include_usage")
    return not arguments.get("stream") or bool(is_asked)


def _call_id(arguments: Arguments) -> str:
    return str(arguments.get("litellm_call_id"))
