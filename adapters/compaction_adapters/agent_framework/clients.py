"""The method by which chat clients send requests, made to send those of the middleware.

Middleware alone is no place to send a view from: if the framework keeps the history of each model call, it loads the earlier
messages after all middleware of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Final, TypeAlias

from agent_framework import Message as ChatMessage

from compaction_hooks.errors import ConfigurationError

Send: TypeAlias = Callable[..., Any]
"""Sends a request of a client: takes `messages`, `stream`, and other `options` if given."""
Deliver: TypeAlias = Callable[[Send, Sequence[ChatMessage], Mapping[str, Any], bool], Any]
"""Makes a model call: takes the function that sends, the messages, the options, and whether to stream."""
CALL: Final = "compaction_hooks_call"
"""The keyword by which the middleware gives the client's method a `Deliver` for a call."""
_METHOD: Final = "_inner_get_response"
_MARK: Final = "lets_deliver"


def find_send(client: object) -> Send:
    """Return the method of a client that sends requests.

    Raises:
        ConfigurationError: the client is none of the framework's.
    """
    send: Send | None = getattr(client, _METHOD, None)
    if send is None:
        raise ConfigurationError(
            f"{type(client).__name__} is no chat client of Agent Framework: derive it from BaseChatClient"
        )
    return send


def let_deliver(client: object) -> None:
    """Let the clients of this class deliver a model call by the function that the middleware gave, if it gave one.

    It changes the class, once: so copies of a client use their own connection. Calls without the middleware stay as they were.

    Raises:
        ConfigurationError: the client is none of the framework's.
    """
    find_send(client)
    kind = type(client)
    method: Send = getattr(kind, _METHOD)
    if hasattr(method, _MARK):
        return

    @wraps(method)
    def send_messages(
        self: object,
        *,
        messages: Sequence[ChatMessage],
        options: Mapping[str, Any],
        stream: bool = False,
        **kwargs: Any,
    ) -> Any:
        deliver: Deliver | None = kwargs.pop(CALL, None)
        send = partial(method, self, options=options, **kwargs)
        # A continuation asks for an answer that was begun before: it sends no messages.
        if deliver is None or options.get("continuation_token"):
            return send(messages=messages, stream=stream)
        return deliver(send, messages, options, stream)

    setattr(send_messages, _MARK, True)
    setattr(kind, _METHOD, send_messages)
