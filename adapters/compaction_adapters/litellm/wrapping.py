"""`with_compaction`: a function that takes messages, with the conversation kept inside the window of the model it calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast

from compaction_adapters.kit import ControllerKeywords, Flow, Twin, controller_from, run, run_async
from compaction_adapters.litellm.calls import Arguments, Callee, messages_of
from compaction_adapters.litellm.conversations import FORMAT, ChatMessage, Conversations, SessionId
from compaction_adapters.litellm.sending import Sender, next_request
from compaction_adapters.litellm.summaries import call_options
from compaction_hooks import CompactionController, CompactionSession

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class CompactingFunction(Protocol[P, R_co]):
    """A function whose messages are kept inside the window, with the sessions of its conversations."""

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""
        ...

    def session(self, conversation_id: str, /) -> CompactionSession[ChatMessage]:
        """Return the session of a conversation, by the id that its calls give: `state()`, `compact()` by hand, `pin()`, `undo()`,
        `history()`, between its calls. In a new process that has a store, `load()` it first.
        """
        ...


def with_compaction(
    function: Callable[P, R],
    controller: CompactionController[Any] | None = None,
    *,
    session_id: SessionId | None = None,
    **keywords: Unpack[ControllerKeywords],
) -> CompactingFunction[P, R]:
    """Return a function that is called like the one given and sends the messages that fit; its `session(id)` is the conversation's.

    A context overflow is compacted and sent once more, before litellm's own retries and fallbacks see it. The caller's list is
    never changed. A stream is guarded up to its first chunk. Where the controller has no summariser, the called model is asked,
    with those arguments of the call that say where it is.

    Args:
        function: `litellm.completion`, `litellm.acompletion`, these methods of a `litellm.Router`, a `functools.partial` of one of
            them, or any other sync or async function that takes chat messages as `messages=`.
        controller: A controller, shared or not, whatever its format; or none, and its keywords here.
        session_id: The conversation's id, or a function that finds it in the call's arguments. None: what the call says
            (`metadata`, `litellm_session_id`), else what was said first.

    Raises:
        ConfigurationError: `function` takes no messages; both a controller and keywords.
    """
    callee = Callee(function)
    shared = controller_from(controller, keywords, FORMAT, taker=with_compaction, sees_model=True)
    conversations = Conversations(shared, session_id)

    async def answer(*args: P.args, **kwargs: P.kwargs) -> object:
        return await run_async(_answer(callee, conversations, callee.named(args, kwargs)))

    def answer_sync(*args: P.args, **kwargs: P.kwargs) -> object:
        return run(_answer(callee, conversations, callee.named(args, kwargs)))

    made = functools.update_wrapper(answer if callee.is_async else answer_sync, function)
    made.__dict__["session"] = conversations.open
    # R is what the function gives, or what awaiting it gives, in a coroutine.
    return cast("CompactingFunction[P, R]", made)


def _answer(callee: Callee, conversations: Conversations, arguments: Arguments) -> Flow[object]:
    """Make one call, and those to which it falls back."""
    messages = messages_of(arguments)
    if messages is None:
        return (yield Twin(callee.call, callee.call, arguments))
    session = conversations.of(arguments, messages)
    options = call_options(callee, arguments)
    model = options.get("model")
    sender = Sender(callee, arguments, lambda error: conversations.is_curable(error, model))
    call = functools.partial(session.call_sync, messages, lambda view: run(sender.send(view)))
    call_async = functools.partial(session.call, messages, lambda view: run_async(sender.send(view)))
    try:
        return (yield Twin(call, call_async, answer=sender.read, **options))
    except Exception as error:
        patterns = conversations.controller.settings_for(model).overflow_patterns
        following = next_request(arguments, error, patterns) if callee.is_sdk else None
        if following is None:
            raise
    return (yield from _answer(callee, conversations, following))
