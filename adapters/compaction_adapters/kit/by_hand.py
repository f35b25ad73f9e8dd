"""Changes by hand, between calls: the same methods in each adapter whose conversations have an id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast

from compaction_adapters.kit.sessions import Sessions
from compaction_adapters.kit.twins import Flow, Twin, run, run_async
from compaction_hooks import CallOptions, CompactionSession
from compaction_hooks.errors import ConfigurationError

if TYPE_CHECKING:  # no quiet call makes one
    from compaction_hooks import CompactionRecord, CompactionResult

N = TypeVar("N")
"""The type of a framework's messages."""
S = TypeVar("S", bound=Sessions[Any])
R = TypeVar("R")


class ByHand(Generic[N, S]):
    """Methods for changes by hand to a conversation, each async and sync.

    Each reads the store first, so that it works in a process that has not run the conversation, and writes its change at once.
    `conversation_id` may be left out if the adapter knows the conversation by itself.
    """

    _sessions: S

    async def load(self, conversation_id: str | None = None) -> CompactionSession[N]:
        """Return the session of a conversation, filled from the store: for `state()`, `history()`, `export_records()`.

        Raises:
            ConfigurationError: by this and all other methods, if there is no id and the adapter does not know the conversation.
        """
        return await run_async(self._load_session(conversation_id))

    def load_sync(self, conversation_id: str | None = None) -> CompactionSession[N]:
        """As `load`, for callers without an event loop."""
        return self._run_sync(self._load_session(conversation_id))

    async def compact(
        self,
        messages: Sequence[N],
        conversation_id: str | None = None,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[N]:
        """Compact a conversation now, at any size. The next call with its whole history uses the summary.

        Args:
            messages: All messages of the conversation. Never changed.
            keep_recent_tokens: Tokens of recent messages to keep; None: at most a quarter of the present context.
            focus: The topic that the summary should focus on.
            **options: See `CallOptions`; those left out are the options of the last call. Without any `summarizer`, and before a
                first call in this process, the summary is made without a model.

        Raises:
            ContextOverflowError: the messages cannot be made to fit the window.
        """
        return await run_async(self._compact_session(messages, conversation_id, keep_recent_tokens, focus, options))

    def compact_sync(
        self,
        messages: Sequence[N],
        conversation_id: str | None = None,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[N]:
        """As `compact`, for callers without an event loop."""
        return self._run_sync(self._compact_session(messages, conversation_id, keep_recent_tokens, focus, options))

    async def undo(self, conversation_id: str | None = None) -> CompactionRecord | None:
        """Undo the newest compaction of a conversation and return its record; None if there is none."""
        return await run_async(self._undo_newest(conversation_id))

    def undo_sync(self, conversation_id: str | None = None) -> CompactionRecord | None:
        """As `undo`, for callers without an event loop."""
        return self._run_sync(self._undo_newest(conversation_id))

    async def pin(self, message: N, conversation_id: str | None = None) -> None:
        """Keep a message word for word in every view of a conversation from the next summary on."""
        await run_async(self._pin_message(message, conversation_id))

    def pin_sync(self, message: N, conversation_id: str | None = None) -> None:
        """As `pin`, for callers without an event loop."""
        self._run_sync(self._pin_message(message, conversation_id))

    async def forget(self, conversation_id: str | None = None) -> None:
        """Remove a conversation from memory, and its records from the store.

        Raises:
            RecordError: the store failed; call it again.
        """
        await run_async(self._forget_session(conversation_id))

    def forget_sync(self, conversation_id: str | None = None) -> None:
        """As `forget`, for callers without an event loop."""
        self._run_sync(self._forget_session(conversation_id))

    # -- for the adapter

    def _own_conversation(self) -> str | None:
        """Return the id of the adapter's only conversation; None if it has several."""
        return None

    def _options_by_hand(self, session: CompactionSession[N]) -> CallOptions:
        """Return the options of a manual compaction that its caller left out."""
        return self._sessions.last_call(session)

    def _run_sync(self, flow: Flow[R]) -> R:
        """Make the calls of a flow for a caller without an event loop."""
        return run(flow)

    # -- flows

    def _find_session(self, conversation_id: str | None) -> CompactionSession[N]:
        known = conversation_id or self._own_conversation()
        if known is None:
            raise ConfigurationError('name the conversation by the id that its calls have, as in forget("thread-1")')
        return self._sessions.open(known)

    def _load_session(self, conversation_id: str | None) -> Flow[CompactionSession[N]]:
        session = self._find_session(conversation_id)
        yield Twin(session.load_sync, session.load)
        return session

    def _compact_session(
        self,
        messages: Sequence[N],
        conversation_id: str | None,
        keep_recent_tokens: int | None,
        focus: str | None,
        given: CallOptions,
    ) -> Flow[CompactionResult[N]]:
        session = self._find_session(conversation_id)
        options = {**self._options_by_hand(session), **given}
        result: CompactionResult[N]
        listed = cast("list[N]", messages)  # a sequence in types only: a list of dicts is no list of mappings
        result = yield Twin(session.compact_sync, session.compact, listed, keep_recent_tokens, focus, **options)
        return result

    def _undo_newest(self, conversation_id: str | None) -> Flow[CompactionRecord | None]:
        session = yield from self._load_session(conversation_id)
        record = session.undo()
        yield Twin(
            session.load_sync, session.load
        )  # writes the undo, which an async store gets with the next call otherwise
        return record

    def _pin_message(self, message: N, conversation_id: str | None) -> Flow[None]:
        session = yield from self._load_session(conversation_id)
        session.pin(message)
        yield Twin(session.load_sync, session.load)

    def _forget_session(self, conversation_id: str | None) -> Flow[None]:
        controller, session_id = self._sessions.controller, self._find_session(conversation_id).id
        yield Twin(controller.forget_sync, controller.forget, session_id)
