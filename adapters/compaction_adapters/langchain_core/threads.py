"""A thread of a compiled graph outside a run: manual compaction, undo and pins, written to its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Unpack, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from compaction_adapters.kit import ControllerMethods, Flow, Twin, awaited, blocking
from compaction_adapters.langchain_core.conversations import Conversation, Conversations, Records
from compaction_adapters.langchain_core.tasks import NAMESPACE_SEPARATOR, Task
from compaction_hooks import CallOptions, CompactionRecord, CompactionResult, CompactionSession
from compaction_hooks.errors import ConfigurationError

S = TypeVar("S", bound=Conversations)


class ThreadMethods(ControllerMethods[S]):
    """Manual changes to a thread of a graph that is compiled with a checkpointer.

    `graph` is the compiled graph (an agent of LangChain is one), `config` names the thread, `{"configurable": {"thread_id": ...}}`.
    Records are written to the thread with `update_state`, so that the next process has them, with a store or without.
    `forget_prefix` is without a graph: it leaves the checkpoints, and the records in them.
    """

    _messages_key: str
    """The state's key for messages."""

    def session(self, thread: str) -> CompactionSession[BaseMessage]:
        """Return the session of the thread with this id as it is in this process: its state, its history, pins, undo.

        Its changes are written to the thread's checkpoint by the next call of the model; those of the methods below at once. In a
        process that has not run the thread, `load` fills the session.
        """
        return self._sessions.thread(thread)

    @awaited
    def load(self, graph: Any, config: RunnableConfig) -> Flow[CompactionSession[BaseMessage]]:
        """Return the thread's session, filled from its checkpoint: for `state()`, `history()`, `export_records()`.

        `state()` has the size of the thread's messages before the first call in this process, without a system prompt and tools
        that the adapter sees in calls only.

        Raises:
            ConfigurationError: the graph has no checkpointer, or `config` names no thread.
        """
        thread = yield from self._read_thread(graph, config)
        session, known = thread.session, self._thread_options(thread.session, config, {})
        yield Twin(session.load_sync, session.load, thread.messages, **known)
        return session

    @awaited
    def compact(
        self,
        graph: Any,
        config: RunnableConfig,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Flow[CompactionResult[BaseMessage]]:
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
        thread = yield from self._read_thread(graph, config)
        session, known = thread.session, self._thread_options(thread.session, config, options)
        result: CompactionResult[BaseMessage] = yield Twin(
            session.compact_sync, session.compact, thread.messages, keep_recent_tokens, focus, **known
        )
        yield from self._write_records(graph, config, thread)
        return result

    @awaited
    def undo(self, graph: Any, config: RunnableConfig) -> Flow[CompactionRecord | None]:
        """Undo the thread's newest compaction and return its record; None if there is none."""
        thread = yield from self._read_thread(graph, config)
        record = thread.session.undo()
        yield from self._write_records(graph, config, thread)
        return record

    @awaited
    def pin(self, graph: Any, config: RunnableConfig, message: BaseMessage) -> Flow[None]:
        """Keep a message word for word in every view of the thread from the next summary on."""
        thread = yield from self._read_thread(graph, config)
        thread.session.pin(message)
        yield from self._write_records(graph, config, thread)

    @awaited
    def forget(self, graph: Any, config: RunnableConfig) -> Flow[None]:
        """Delete the thread: its checkpoints, and its records in memory and in the store.

        Records of its subgraphs are deleted too, if the thread has checkpoints of these.

        Raises:
            RecordError: the store failed; call it again.
        """
        thread, saver = _thread_id(config), _saver(graph)
        whole: RunnableConfig = {"configurable": {"thread_id": thread}}

        async def list_async() -> list[Any]:
            return [saved async for saved in saver.alist(whole)]

        saved = yield Twin(lambda: [*saver.list(whole)], list_async)
        yield Twin(saver.delete_thread, saver.adelete_thread, thread)
        for session in self._sessions_of(thread, saved):
            yield Twin(self.controller.forget_sync, self.controller.forget, session.id)

    load_sync = blocking(load)
    """As `load`, for callers without an event loop."""
    compact_sync = blocking(compact)
    """As `compact`, for callers without an event loop."""
    undo_sync = blocking(undo)
    """As `undo`, for callers without an event loop."""
    pin_sync = blocking(pin)
    """As `pin`, for callers without an event loop."""
    forget_sync = blocking(forget)
    """As `forget`, for callers without an event loop."""

    # -- for the adapter

    def _thread_options(
        self,
        session: CompactionSession[BaseMessage],
        config: RunnableConfig,  # noqa: ARG002 - for a node, whose model a run may select
        given: CallOptions,
    ) -> CallOptions:
        """Return the options of a manual compaction: those of its caller, and defaults from the model's last call."""
        return {**self._sessions.last_call(session), **given}

    # -- helpers

    def _sessions_of(self, thread: str, saved: Iterable[Any]) -> list[CompactionSession[BaseMessage]]:
        """Return the session of a thread, and those of the subgraphs that have checkpoints in it."""
        own = self.session(thread)
        spaces = {str(one.config["configurable"].get("checkpoint_ns") or "") for one in saved} - {""}
        ids = [f"{thread}{NAMESPACE_SEPARATOR}{space}{own.id.removeprefix(thread)}" for space in sorted(spaces)]
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
        return Conversation(Task(config), session, messages, records)

    def _write_records(self, graph: Any, config: RunnableConfig, thread: Conversation) -> Flow[None]:
        update = self._sessions.keep(thread)
        if update:
            yield Twin(graph.update_state, graph.aupdate_state, config, update)


def _thread_id(config: RunnableConfig) -> str:
    if not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"config must be the dict that names the thread, not {type(config).__name__}: write load(graph, config), with "
            '{"configurable": {"thread_id": "thread-1"}}; the other methods take both alike'
        )
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
