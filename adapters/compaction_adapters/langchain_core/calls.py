"""One model call for a session: its answer, its stream, and the errors that the session must not handle."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ContextOverflowError as LangChainContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tracers.context import register_configure_hook

from compaction_adapters.kit import Flow, Twin, run, run_async
from compaction_adapters.langchain_core.conversations import Conversation
from compaction_adapters.langchain_core.messages import FORMAT, without_response_ids
from compaction_adapters.langchain_core.models import NO_STREAM_TAG, CallArguments
from compaction_hooks import ContextOverflowError, Message


class ModelContextOverflowError(ContextOverflowError, LangChainContextOverflowError):
    """A conversation that cannot be made to fit: this package's error and LangChain's in one. Its cause is the provider's error.

    For LangChain it is not retryable: the call is not repeated, and fallbacks go on to the next model.
    """


class _TokenWatch(BaseCallbackHandler):
    """A callback that records whether a model call has shown the user a token: such a call must not be made once more.

    A model streams when a consumer is attached (`stream_mode="messages"`, `astream_events`), or if it is configured to; `invoke`
    returns the whole message in any case, so that only its callbacks see the chunks. Calls hidden from the user do not count.

    Args:
        arguments: Notes what the model is called with; None: nothing notes it.
    """

    run_inline = True
    """Makes langchain call this in order with the stream, not from another thread."""

    def __init__(self, arguments: CallArguments | None) -> None:
        self._arguments = arguments
        self._view: list[BaseMessage] = []
        self._streamed: set[UUID] = set()
        self.has_broken = False
        """Whether a call failed after its first chunk."""

    @contextmanager
    def watch(self, view: list[BaseMessage]) -> Generator[None]:
        """Watch the model calls inside this context; a handler of LangChain takes no callbacks of ours."""
        self._view = view
        token = _WATCH.set(self)
        try:
            yield
        finally:
            _WATCH.reset(token)

    @property
    def has_tokens(self) -> bool:
        """Whether a call streamed at least one chunk."""
        return bool(self._streamed)

    def on_chat_model_start(
        self,
        serialized: Any,  # noqa: ARG002 - the signature is langchain's
        messages: list[list[BaseMessage]],
        *,
        invocation_params: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Note what the model is called with. Without this method langchain formats all messages as one text."""
        if self._arguments is not None:
            self._arguments.note(self._view, messages[0], invocation_params or {})

    def on_llm_new_token(self, token: Any, *, run_id: UUID, tags: list[str] | None = None, **_: Any) -> None:  # noqa: ARG002 - the signature is langchain's
        """Record that a call streamed a chunk."""
        if NO_STREAM_TAG not in (tags or ()):
            self._streamed.add(run_id)

    def on_stream_event(self, event: Any, **seen: Any) -> None:
        """Record that a call streamed an event (`astream_events(version="v3")`)."""
        self.on_llm_new_token(event, **seen)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - likewise
        """Record whether a call failed after its first chunk."""
        self.has_broken |= run_id in self._streamed


_WATCH: Final[ContextVar[_TokenWatch | None]] = ContextVar("compaction_token_watch", default=None)
register_configure_hook(_WATCH, inheritable=False)


@dataclass(frozen=True, slots=True)
class _Uncaught:
    """An error of a model call that must reach the caller unchanged.

    It is returned, not raised: the session would inspect an exception, and might find an overflow to recover from.
    """

    error: Exception


def make_call(
    conversation: Conversation,
    request: Callable[[list[BaseMessage]], Twin],
    options: Mapping[str, Any],
    message_of: Callable[[Any], object] = lambda answer: answer,
) -> Flow[Any]:
    """Make a model call with a view of a conversation that fits, and return its result.

    Args:
        request: Returns the call that sends a view.
        options: The options of the call for the session.
        message_of: Returns the model's message from the call's result.

    Raises:
        ModelContextOverflowError: no smaller view is valid, or the smaller one was rejected too; the provider's error is the cause.
    """
    arguments = options.get("request")
    watch = _TokenWatch(arguments if isinstance(arguments, CallArguments) else None)

    def attempt(view: list[BaseMessage]) -> Flow[Any]:
        sent = view if view is messages else without_response_ids(view)
        try:
            with watch.watch(sent):
                return (yield request(sent))
        except Exception as error:
            if _is_for_caller(error, watch):
                return _Uncaught(error)
            raise

    async def send_async(view: list[BaseMessage]) -> Any:
        return await run_async(attempt(view))

    def send(view: list[BaseMessage]) -> Any:
        return run(attempt(view))

    def read(answer: Any) -> Message | None:
        message = None if isinstance(answer, _Uncaught) else message_of(answer)
        return _read_answer(message, watch) if isinstance(message, AIMessage) else None

    session, messages = conversation.session, conversation.messages
    call, call_async = partial(session.call_sync, messages, send), partial(session.call, messages, send_async)
    try:
        answer = yield Twin(call, call_async, answer=read, **options)
    except ContextOverflowError as error:
        raise ModelContextOverflowError(
            str(error), tokens=error.tokens, window=error.window, part=error.part
        ) from error.__cause__
    if isinstance(answer, _Uncaught):
        raise answer.error
    return answer


def _is_for_caller(error: Exception, watch: _TokenWatch) -> bool:
    """Return whether an error is an interrupt, or came after the first chunk of a stream: only the caller can handle it."""
    from langgraph.errors import GraphBubbleUp  # a caller of models in a graph has it

    return isinstance(error, GraphBubbleUp) or watch.has_broken


def _read_answer(message: AIMessage, watch: _TokenWatch) -> Message:
    read = FORMAT.read(message)[0]
    # An answer that the user has seen must not be asked for again; the next call compacts first.
    is_seen = read.stop_reason in ("length", "window") and watch.has_tokens
    return replace(read, stop_reason=None) if is_seen else read
