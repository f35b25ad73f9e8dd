"""A thread of a compiled graph, seen from outside a run: compaction, undo and pins by hand, kept in its checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from compaction_adapters.langchain_core.carried import CarriedSessions
from compaction_adapters.langchain_core.records import Records, records_update
from compaction_adapters.langchain_core.runs import conversation_in, thread_id
from compaction_hooks import CallOptions, CompactionController, CompactionRecord, CompactionResult, CompactionSession
from compaction_hooks.errors import ConfigurationError

S = TypeVar("S", bound=CarriedSessions)


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread as its checkpoint has it.

    Attributes:
        session: Its session, with the records of the checkpoint.
        held: These records.
        messages: Its messages.
    """

    session: CompactionSession[BaseMessage]
    held: Records
    messages: list[BaseMessage]


class ThreadMethods(ABC, Generic[S]):
    """Work by hand on a thread of a graph that is compiled with a checkpointer.

    `graph` is the compiled graph (an agent of LangChain is one), `config` names the thread, `{"configurable": {"thread_id": ...}}`.
    The records go into the thread with `update_state`, so that the next process has them, with a store or without.
    """

    controller: CompactionController[Any]
    _sessions: S
    _channel: str
    """Where the graph keeps records."""
    _messages_key: str
    """Where the graph keeps messages."""

    async def load(self, graph: Any, config: RunnableConfig) -> CompactionSession[BaseMessage]:
        """Return the thread's session, filled from its checkpoint: for `state()`, `history()`, `export_records()`.

        Raises:
            ConfigurationError: the graph has no checkpointer, or `config` names no thread.
        """
        return (await self._aread(graph, config)).session

    def load_sync(self, graph: Any, config: RunnableConfig) -> CompactionSession[BaseMessage]:
        """As `load`, for callers without an event loop."""
        return self._read(graph, config).session

    async def compact(
        self,
        graph: Any,
        config: RunnableConfig,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[BaseMessage]:
        """Compact the thread now, whatever its size, and keep the record in it. Its messages stay as they are.

        Args:
            keep_recent_tokens: Tokens of recent messages to keep; None: a quarter of the present context at most.
            focus: What the summary should pay attention to.
            **options: See `CallOptions`. Without a `summarizer` anywhere, and before a first call of the model in this process, the
                summary is made without a model.

        Raises:
            ConfigurationError: as `load`.
            ContextOverflowError: the list does not fit the window and cannot be made to.
        """
        thread = await self._aread(graph, config)
        told = self._told(thread.session, config, options)
        result = await thread.session.compact(thread.messages, keep_recent_tokens, focus, **told)
        await self._awrite(graph, config, thread)
        return result

    def compact_sync(
        self,
        graph: Any,
        config: RunnableConfig,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[BaseMessage]:
        """As `compact`, for callers without an event loop."""
        thread = self._read(graph, config)
        told = self._told(thread.session, config, options)
        result = thread.session.compact_sync(thread.messages, keep_recent_tokens, focus, **told)
        self._write(graph, config, thread)
        return result

    async def undo(self, graph: Any, config: RunnableConfig) -> CompactionRecord | None:
        """Take back the thread's newest compaction and return its record; None when there is none."""
        thread = await self._aread(graph, config)
        record = thread.session.undo()
        await self._awrite(graph, config, thread)
        return record

    def undo_sync(self, graph: Any, config: RunnableConfig) -> CompactionRecord | None:
        """As `undo`, for callers without an event loop."""
        thread = self._read(graph, config)
        record = thread.session.undo()
        self._write(graph, config, thread)
        return record

    async def pin(self, graph: Any, config: RunnableConfig, message: BaseMessage) -> None:
        """Keep a message word for word in every view of the thread from the next summary on."""
        thread = await self._aread(graph, config)
        thread.session.pin(message)
        await self._awrite(graph, config, thread)

    def pin_sync(self, graph: Any, config: RunnableConfig, message: BaseMessage) -> None:
        """As `pin`, for callers without an event loop."""
        thread = self._read(graph, config)
        thread.session.pin(message)
        self._write(graph, config, thread)

    async def forget(self, graph: Any, config: RunnableConfig) -> None:
        """Delete the thread: its checkpoints, and what is kept of its compactions in memory and in the store.

        Those of its subgraphs go too, as far as the thread has checkpoints of them.

        Raises:
            RecordError: the store failed; call it again.
        """
        saver, thread = _saver(graph), _named(config)
        found = [saved async for saved in saver.alist(_whole(thread))]
        await saver.adelete_thread(thread)
        for session in self._sessions_of(thread, found):
            self._sessions.drop(session)
            await self.controller.forget(session.id)

    def forget_sync(self, graph: Any, config: RunnableConfig) -> None:
        """As `forget`, for callers without an event loop."""
        saver, thread = _saver(graph), _named(config)
        found = [*saver.list(_whole(thread))]
        saver.delete_thread(thread)
        for session in self._sessions_of(thread, found):
            self._sessions.drop(session)
            self.controller.forget_sync(session.id)

    # -- for the adapter

    @abstractmethod
    def session(self, thread: str, /) -> CompactionSession[BaseMessage]:
        """Return the session of the thread with this id."""

    @abstractmethod
    def _told(self, session: CompactionSession[BaseMessage], config: RunnableConfig, given: CallOptions) -> CallOptions:
        """Return the options of a compaction by hand: those given, and what is known of the model otherwise."""

    # -- helpers

    def _sessions_of(self, thread: str, saved: Iterable[Any]) -> list[CompactionSession[BaseMessage]]:
        """Return the session of a thread, and those of the subgraphs that have checkpoints in it."""
        own = self.session(thread)
        spaces = {str(one.config["configurable"].get("checkpoint_ns") or "") for one in saved} - {""}
        ids = [conversation_in(thread, space) + own.id.removeprefix(thread) for space in sorted(spaces)]
        return [own, *map(self._sessions.named, ids)]

    def _read(self, graph: Any, config: RunnableConfig) -> Thread:
        session, saver = self.session(_named(config)), _saver(graph)
        snapshot = graph.get_state(config)
        session.load_sync()
        return self._thread(session, snapshot.values, saver.get_tuple(snapshot.config))

    async def _aread(self, graph: Any, config: RunnableConfig) -> Thread:
        session, saver = self.session(_named(config)), _saver(graph)
        snapshot = await graph.aget_state(config)
        await session.load()
        return self._thread(session, snapshot.values, await saver.aget_tuple(snapshot.config))

    def _thread(self, session: CompactionSession[BaseMessage], values: Mapping[str, Any], saved: Any) -> Thread:
        held = cast("Records", saved.checkpoint["channel_values"].get(self._channel, [])) if saved else []
        session.import_records(held)
        return Thread(session, held, list(values.get(self._messages_key) or ()))

    def _write(self, graph: Any, config: RunnableConfig, thread: Thread) -> None:
        update = records_update(thread.session, thread.held)
        if update:
            graph.update_state(config, {self._channel: update})

    async def _awrite(self, graph: Any, config: RunnableConfig, thread: Thread) -> None:
        update = records_update(thread.session, thread.held)
        if update:
            await graph.aupdate_state(config, {self._channel: update})


def _whole(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def _named(config: RunnableConfig) -> str:
    thread = thread_id(config)
    if thread is None:
        raise ConfigurationError('config names no thread: give {"configurable": {"thread_id": "thread-1"}}')
    return thread


def _saver(graph: Any) -> Any:
    saver = getattr(graph, "checkpointer", None)
    if not hasattr(saver, "get_tuple"):
        raise ConfigurationError(
            f"{type(graph).__name__} has no checkpointer, so that there is no thread to keep records in: give the compiled graph, "
            "compile(checkpointer=...)"
        )
    return saver
