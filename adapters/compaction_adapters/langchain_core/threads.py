"""A thread of a compiled graph outside a run: manual compaction, undo and pins, written to its checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from compaction_adapters.kit import Flow, Twin, run, run_async
from compaction_adapters.langchain_core.conversations import Conversation, Conversations
from compaction_adapters.langchain_core.records import Records
from compaction_adapters.langchain_core.tasks import Task, conversation_in
from compaction_hooks import CallOptions, CompactionController, CompactionSession
from compaction_hooks.errors import ConfigurationError

if TYPE_CHECKING:  # no quiet call makes one
    from compaction_hooks import CompactionRecord, CompactionResult

R = TypeVar("R")
S = TypeVar("S", bound=Conversations)


class ThreadMethods(ABC, Generic[S]):
    """Manual changes to a thread of a graph that is compiled with a checkpointer.

    `graph` is the compiled graph (an agent of LangChain is one), `config` names the thread, `{"configurable": {"thread_id": ...}}`.
    Records are written to the thread with `update_state`, so that the next process has them, with a store or without.
    """

    controller: CompactionController[Any]
    _sessions: S
    _messages_key: str
    """The state's key for messages."""

    async def load(self, graph: Any, config: RunnableConfig) -> CompactionSession[BaseMessage]:
        """Return the thread's session, filled from its checkpoint: for `state()`, `history()`, `export_records()`.

        Raises:
            ConfigurationError: the graph has no checkpointer, or `config` names no thread.
        """
        return (await run_async(self._read_thread(graph, config))).session

    def load_sync(self, graph: Any, config: RunnableConfig) -> CompactionSession[BaseMessage]:
        """As `load`, for callers without an event loop."""
        return run(self._read_thread(graph, config)).session

    async def compact(
        self,
        graph: Any,
        config: RunnableConfig,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[BaseMessage]:
        """Compact the thread now, at any size, and write the record to it. Its messages are not changed.

        Args:
            keep_recent_tokens: Tokens of recent messages to keep; None: at most a quarter of the present context.
            focus: The topic that the summary should focus on.
            **options: See `CallOptions`. Without any `summarizer`, and before a first call of the model in this process, the
                summary is made without a model.

        Raises:
            ConfigurationError: as `load`.
            ContextOverflowError: the messages cannot be made to fit the window.
        """
        return await run_async(self._compact_thread(graph, config, options, keep_recent_tokens, focus))

    def compact_sync(
        self,
        graph: Any,
        config: RunnableConfig,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[BaseMessage]:
        """As `compact`, for callers without an event loop."""
        return run(self._compact_thread(graph, config, options, keep_recent_tokens, focus))

    async def undo(self, graph: Any, config: RunnableConfig) -> CompactionRecord | None:
        """Undo the thread's newest compaction and return its record; None if there is none."""
        return await run_async(self._change_thread(graph, config, lambda session: session.undo()))

    def undo_sync(self, graph: Any, config: RunnableConfig) -> CompactionRecord | None:
        """As `undo`, for callers without an event loop."""
        return run(self._change_thread(graph, config, lambda session: session.undo()))

    async def pin(self, graph: Any, config: RunnableConfig, message: BaseMessage) -> None:
        """Keep a message word for word in every view of the thread from the next summary on."""
        await run_async(self._change_thread(graph, config, lambda session: session.pin(message)))

    def pin_sync(self, graph: Any, config: RunnableConfig, message: BaseMessage) -> None:
        """As `pin`, for callers without an event loop."""
        run(self._change_thread(graph, config, lambda session: session.pin(message)))

    async def forget(self, graph: Any, config: RunnableConfig) -> None:
        """Delete the thread: its checkpoints, and its records in memory and in the store.

        Records of its subgraphs are deleted too, if the thread has checkpoints of these.

        Raises:
            RecordError: the store failed; call it again.
        """
        await run_async(self._forget_thread(graph, config))

    def forget_sync(self, graph: Any, config: RunnableConfig) -> None:
        """As `forget`, for callers without an event loop."""
        run(self._forget_thread(graph, config))

    # -- for the adapter

    @abstractmethod
    def session(self, thread: str, /) -> CompactionSession[BaseMessage]:
        """Return the session of the thread with this id."""

    @abstractmethod
    def _thread_options(
        self, session: CompactionSession[BaseMessage], config: RunnableConfig, given: CallOptions
    ) -> CallOptions:
        """Return the options of a manual compaction: those of its caller, and defaults from the model's last call."""

    # -- helpers

    def _sessions_of(self, thread: str, saved: Iterable[Any]) -> list[CompactionSession[BaseMessage]]:
        """Return the session of a thread, and those of the subgraphs that have checkpoints in it."""
        own = self.session(thread)
        spaces = {str(one.config["configurable"].get("checkpoint_ns") or "") for one in saved} - {""}
        ids = [conversation_in(thread, space) + own.id.removeprefix(thread) for space in sorted(spaces)]
        return [own, *map(self._sessions.open, ids)]

    def _read_thread(self, graph: Any, config: RunnableConfig) -> Flow[Conversation]:
        session, saver = self.session(_thread_id(config)), _saver(graph)
        snapshot = yield Twin(graph.get_state, graph.aget_state, config)
        yield Twin(session.load_sync, session.load)
        saved = yield Twin(saver.get_tuple, saver.aget_tuple, snapshot.config)
        records = (
            cast("Records", saved.checkpoint["channel_values"].get(self._sessions.records_key, [])) if saved else []
        )
        session.import_records(records)
        messages: list[BaseMessage] = list(snapshot.values.get(self._messages_key) or ())
        return Conversation(Task(config), session, messages, records, run=None)

    def _write_records(self, graph: Any, config: RunnableConfig, thread: Conversation) -> Flow[None]:
        update = self._sessions.keep(thread)
        if update:
            yield Twin(graph.update_state, graph.aupdate_state, config, update)

    def _change_thread(
        self, graph: Any, config: RunnableConfig, change: Callable[[CompactionSession[BaseMessage]], R]
    ) -> Flow[R]:
        thread = yield from self._read_thread(graph, config)
        result = change(thread.session)
        yield from self._write_records(graph, config, thread)
        return result

    def _compact_thread(
        self, graph: Any, config: RunnableConfig, given: CallOptions, keep_recent_tokens: int | None, focus: str | None
    ) -> Flow[CompactionResult[BaseMessage]]:
        thread = yield from self._read_thread(graph, config)
        session, options = thread.session, self._thread_options(thread.session, config, given)
        result: CompactionResult[BaseMessage] = yield Twin(
            session.compact_sync, session.compact, thread.messages, keep_recent_tokens, focus, **options
        )
        yield from self._write_records(graph, config, thread)
        return result

    def _forget_thread(self, graph: Any, config: RunnableConfig) -> Flow[None]:
        saver, thread = _saver(graph), _thread_id(config)
        whole: RunnableConfig = {"configurable": {"thread_id": thread}}

        async def list_async() -> list[Any]:
            return [saved async for saved in saver.alist(whole)]

        saved = yield Twin(lambda: [*saver.list(whole)], list_async)
        yield Twin(saver.delete_thread, saver.adelete_thread, thread)
        for session in self._sessions_of(thread, saved):
            self._sessions.drop(session)
            yield Twin(self.controller.forget_sync, self.controller.forget, session.id)


def _thread_id(config: RunnableConfig) -> str:
    thread = Task(config).thread
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
