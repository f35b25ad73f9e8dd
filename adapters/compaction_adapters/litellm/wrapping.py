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
    """A function whose messages are compacted to fit the window, with access to the sessions of its conversations."""

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""
        ...

    def session(self, conversation_id: str, /) -> CompactionSession[ChatMessage]:
        """Return the session of a conversation by its id: `state()`, `compact()`, `pin()`, `undo()`, `history()`, between calls.

        In a new process with a store, `load()` it first.
        """
        ...


def with_compaction(
    function: Callable[P, R],
    controller: CompactionController[Any] | None = None,
    *,
    session_id: SessionId | None = None,
    **keywords: Unpack[ControllerKeywords],
) -> CompactingFunction[P, R]:
    """Return a function with the same arguments that sends messages that fit; its `session(id)` gives access to a conversation.

    A context overflow is compacted and sent once more, before litellm's own retries and fallbacks see it. The caller's list is
    never changed. A stream is guarded up to its first chunk. If the controller has no summarizer, the called model writes the
    summary, with those arguments of the call that locate it.

    Args:
        function: `litellm.completion`, `litellm.acompletion`, these methods of a `litellm.Router`, a `functools.partial` of one of
            them, or any other sync or async function that takes chat messages as `messages=`.
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        session_id: The conversation's id, or a function that finds it in the call's arguments. None: the id in the call's
            `metadata` or `litellm_session_id`, else a hash of the text up to the first user message.

    Raises:
        ConfigurationError: `function` takes no messages; or both a controller and keywords are given.
    """
    callee = Callee(function)
    shared = controller_from(controller, keywords, FORMAT, taker=with_compaction, sees_model=True)
    conversations = Conversations(shared, session_id)

    async def answer(*args: P.args, **kwargs: P.kwargs) -> object:
        return await run_async(_answer(callee, conversations, callee.bind(args, kwargs)))

    def answer_sync(*args: P.args, **kwargs: P.kwargs) -> object:
        return run(_answer(callee, conversations, callee.bind(args, kwargs)))

    wrapper = functools.update_wrapper(answer if callee.is_async else answer_sync, function)
    wrapper.__dict__["session"] = conversations.open
    # R is the function's own result: for an async function, a coroutine.
    return cast("CompactingFunction[P, R]", wrapper)


def _answer(callee: Callee, conversations: Conversations, arguments: Arguments) -> Flow[object]:
    """Make one call, then its fallbacks."""
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
        fallback = next_request(arguments, error, patterns) if callee.is_sdk else None
        if fallback is None:
            raise
    return (yield from _answer(callee, conversations, fallback))
