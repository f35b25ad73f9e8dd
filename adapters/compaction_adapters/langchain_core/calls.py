"""One model call as a session is shown it: its answer, its stream, and the errors that are none of the session's business."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ContextOverflowError as LangChainContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage

from compaction_adapters.kit import Flow, Twin, run, run_async
from compaction_adapters.langchain_core.conversations import Conversation
from compaction_adapters.langchain_core.messages import FORMAT
from compaction_hooks import ContextOverflowError, Message


class ModelContextOverflowError(ContextOverflowError, LangChainContextOverflowError):
    """The conversation cannot be made to fit: this package's error and LangChain's in one, with the provider's as its cause.

    As LangChain's it is not retryable: what cannot succeed is not repeated, and fallbacks go on to the next model.
    """

    @classmethod
    def of(cls, error: ContextOverflowError) -> ModelContextOverflowError:
        """Return the same error in both families."""
        return cls(str(error), tokens=error.tokens, window=error.window, part=error.part)


class TokenWatch(BaseCallbackHandler):
    """Watches whether the user has seen a token of the model calls it is a callback of: such a call must not be made once more.

    A model streams when somebody listens (`stream_mode="messages"`, `astream_events`), or when it is told to; `invoke` returns
    the whole message all the same, so that its callbacks are the only sign.
    """

    run_inline = True
    """Called in order with the stream, not from another thread."""

    def __init__(self) -> None:
        self._streamed: set[UUID] = set()
        self.has_broken = False
        """Whether a call failed after its first chunk."""

    def watching(self) -> AbstractContextManager[object]:
        """Return a context of each request, for a watch that is no callback of it."""
        return nullcontext()

    @property
    def has_tokens(self) -> bool:
        """Whether a call gave at least one chunk."""
        return bool(self._streamed)

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Take no notice. Without this method langchain writes all messages out as one text for `on_llm_start`."""

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - the signature is langchain's
        """Note that a call gave a chunk."""
        self._streamed.add(run_id)

    def on_stream_event(self, event: Any, **seen: Any) -> None:
        """Note that a call gave an event (`astream_events(version="v3")`)."""
        self.on_llm_new_token(event, **seen)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - likewise
        """Note that a call failed."""
        self.has_broken |= run_id in self._streamed


@dataclass(frozen=True, slots=True)
class _PassedOn:
    """The result of a model call that raised an error which must reach the caller as it is.

    The session would look at an exception, and might find an overflow to recover from.
    """

    raised: Exception


def make_call(
    conversation: Conversation,
    request: Callable[[list[BaseMessage]], Twin],
    watch: TokenWatch,
    options: Mapping[str, Any],
    message_of: Callable[[Any], object] = lambda answer: answer,
) -> Flow[Any]:
    """Make a model call with a view of a conversation that fits, and return what it gave.

    Args:
        request: Returns the call that sends a view.
        watch: Watches that call.
        options: What the session is told of the call.
        message_of: Finds the model's message in what the call gave.

    Raises:
        ModelContextOverflowError: nothing smaller is valid, or it was rejected too; the provider's error is its cause.
    """

    def sending(view: list[BaseMessage]) -> Flow[Any]:
        try:
            with watch.watching():
                return (yield request(view))
        except Exception as error:
            if _is_passed_on(error, watch):
                return _PassedOn(error)
            raise

    async def send_async(view: list[BaseMessage]) -> Any:
        return await run_async(sending(view))

    def send(view: list[BaseMessage]) -> Any:
        return run(sending(view))

    def read(answer: Any) -> Message | None:
        message = None if isinstance(answer, _PassedOn) else message_of(answer)
        return _read_answer(message, watch) if isinstance(message, AIMessage) else None

    session, messages = conversation.session, conversation.messages
    call, call_async = partial(session.call_sync, messages, send), partial(session.call, messages, send_async)
    try:
        answer = yield Twin(call, call_async, answer=read, **options)
    except ContextOverflowError as error:
        raise ModelContextOverflowError.of(error) from error.__cause__
    if isinstance(answer, _PassedOn):
        raise answer.raised
    return answer


def _is_passed_on(error: Exception, watch: TokenWatch) -> bool:
    """Return whether this is an interrupt, or an error in the midst of a stream."""
    from langgraph.errors import GraphBubbleUp  # a caller of models in a graph has it

    return isinstance(error, GraphBubbleUp) or watch.has_broken


def _read_answer(message: AIMessage, watch: TokenWatch) -> Message:
    read = FORMAT.read(message)[0]
    # An answer that the user has seen must not be asked for again; the next call compacts first.
    is_seen = read.stop_reason in ("length", "window") and watch.has_tokens
    return replace(read, stop_reason=None) if is_seen else read
