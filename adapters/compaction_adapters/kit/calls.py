"""The model calls of an adapter that sends them: the session of each, its options, its stream, and its model's tools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from compaction_adapters.kit.by_hand import ByHand
from compaction_adapters.kit.controllers import ControllerKeywords, controller_from
from compaction_adapters.kit.sessions import Sessions
from compaction_adapters.kit.tools import ModelTool
from compaction_hooks import CallOptions, CompactionController, CompactionSession, Message, MessageFormat

N = TypeVar("N")
"""The type of a framework's messages."""
R = TypeVar("R")
E = TypeVar("E")
"""The type of a stream's events."""


class ModelCalls(ByHand[N, Sessions[N]]):
    """The conversations of an adapter that sends every model call itself.

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        keywords: The keywords of a controller.
        format: The framework's message format.

    Raises:
        ConfigurationError: both a controller and keywords are given.
    """

    _shares_ids = True
    _is_copy: Callable[[N, N], bool] | None = None
    """Whether a message is a copy of an earlier one, for a framework that hands over copies; None: it hands over its own."""

    def __init__(
        self, controller: CompactionController[Any] | None, keywords: ControllerKeywords, format: MessageFormat[N]
    ) -> None:
        chosen = controller_from(controller, keywords, format, taker=type(self), sees_model=True)
        self._sessions = Sessions(chosen, format)

    def session(self, conversation_id: str) -> CompactionSession[N]:
        """Return the session of a conversation, as far as this process knows it; `load` reads the store."""
        return self._sessions.open(conversation_id)

    def _session_of(self, conversation_id: str | None, messages: Sequence[N]) -> CompactionSession[N]:
        return self._session_in(self._find_session(conversation_id).id, messages)

    def _session_in(
        self, conversation_id: str | None, messages: Sequence[N], *, is_whole: bool = True
    ) -> CompactionSession[N]:
        if conversation_id is None or (is_whole and self._shares_ids):
            return self._sessions.find(conversation_id, messages)
        return self._sessions.open(conversation_id)

    # -- for the adapter

    async def _call(
        self,
        conversation_id: str | None,
        messages: list[N],
        send: Callable[[list[N]], Awaitable[R]],
        answer: Callable[[Any], Message | None],
        options: CallOptions,
        *,
        is_whole: bool = True,
        has_recall: bool = False,
        signal: threading.Event | asyncio.Event | None = None,
    ) -> R:
        """Make a model call through the session of its conversation, see `CompactionSession.call`.

        Args:
            conversation_id: The framework's own id; None: that of the messages' opening.
            answer: Reads an answer, or the events of a streamed one.
            is_whole: Whether the messages begin with the conversation; False if the provider keeps its earlier ones.
            has_recall: Whether the model has the recall tool, so that views name what it can read again.
            signal: When set, a compaction under way is aborted.
        """
        session = self._session_in(conversation_id, messages, is_whole=is_whole)
        self._sessions.remember_call(session, options)
        if has_recall:
            session.recall_tool(lambda: messages)
        if self._is_copy is not None:
            messages = self._sessions.recognize(session, messages, self._is_copy)
        made: R = await session.call(messages, send, signal, answer=answer, **options)
        if self._shares_ids and is_whole:
            self._sessions.note_opening(session, messages)
        return made

    async def _stream(
        self,
        conversation_id: str | None,
        messages: list[N],
        open_stream: Callable[[list[N]], AsyncGenerator[E]],
        answer: Callable[[E], Message | None],
        options: CallOptions,
        is_prelude: Callable[[E], bool],
        *,
        is_whole: bool = True,
        has_recall: bool = False,
        signal: threading.Event | asyncio.Event | None = None,
    ) -> AsyncGenerator[E]:
        """Make a streamed model call and yield its events; it is recovered until an event that is no prelude.

        Args:
            is_prelude: Whether an event comes before the answer, so that an error may still follow; those are held back. It raises
                the error that an event stands for.
            is_whole, has_recall, signal: As in `_call`.
        """

        async def send(view: list[N]) -> AsyncGenerator[E]:
            return _hold_prelude(open_stream(view), is_prelude)

        stream = await self._call(
            conversation_id,
            messages,
            send,
            answer,
            options,
            is_whole=is_whole,
            has_recall=has_recall,
            signal=signal,
        )
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    async def _run_tool(
        self, tool: ModelTool, conversation_id: str | None, messages: Sequence[N], given: str | Mapping[str, Any]
    ) -> str:
        """Return the answer of a tool to a call of the model.

        Args:
            messages: The whole list.
            given: The arguments that the model gave, as JSON or read.
        """
        answer = tool.make(self._session_in(conversation_id, messages), lambda: messages)
        return await asyncio.to_thread(answer, **tool.read_arguments(given))


async def _hold_prelude(stream: AsyncGenerator[E], is_prelude: Callable[[E], bool]) -> AsyncGenerator[E]:
    """Yield the events of a stream; those before the answer come with its first one."""
    held: list[E] = []
    has_begun = False
    async with aclosing(stream):
        async for event in stream:
            if not has_begun and is_prelude(event):
                held.append(event)
                continue

            while held:
                yield held.pop(0)
            has_begun = True
            yield event
    while held:
        yield held.pop(0)
