"""Changes by hand, between calls: the same methods in each adapter whose conversations have an id."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar, Unpack, cast

from compaction_adapters.kit.ids import inner_prefix
from compaction_adapters.kit.sessions import Sessions
from compaction_adapters.kit.twins import Flow, Twin, TwinMethods, awaited, blocking
from compaction_hooks import CallOptions, CompactionController, CompactionRecord, CompactionResult, CompactionSession
from compaction_hooks.errors import ConfigurationError

N = TypeVar("N")
"""The type of a framework's messages."""
S = TypeVar("S", bound=Sessions[Any])


class ControllerMethods(TwinMethods, Generic[S]):
    """The controller of an adapter, and its method for many conversations at once."""

    _sessions: S

    @property
    def controller(self) -> CompactionController[Any]:
        """The controller that you gave, or the one made from your keywords."""
        return self._sessions.controller

    async def aclose(self) -> None:
        """Wait for the summaries that are written in the background, and store them. See `CompactionController.aclose`."""
        await self.controller.aclose()

    def close_sync(self) -> None:
        """As `aclose`, for callers without an event loop."""
        self._run_sync(self._close())

    def _close(self) -> Flow[None]:
        yield Twin(self.controller.close_sync, self.controller.aclose)

    @awaited
    def forget_prefix(self, prefix: str) -> Flow[list[str]]:
        """Remove every conversation whose id begins with `prefix` from memory, and its records from the store; return the ids.

        For all data of a user, if the ids begin with the user: "user-7/". See `CompactionController.forget_prefix`.

        Raises:
            ConfigurationError: the prefix is empty or no text, or the store cannot list its conversations.
            RecordError: the store failed; call it again.
        """
        forgotten: list[str] = yield Twin(self.controller.forget_prefix_sync, self.controller.forget_prefix, prefix)
        return forgotten

    forget_prefix_sync = blocking(forget_prefix)
    """As `forget_prefix`, for callers without an event loop."""


class ByHand(ControllerMethods[S], Generic[N, S]):
    """Methods for changes by hand to a conversation, each async and sync.

    Each reads the store first, so that it works in a process that has not run the conversation, and writes its change at once.
    `conversation_id` may be left out if the adapter knows the conversation by itself.
    """

    _shares_ids = False
    """Whether an id may have several lists: of agents that are another one's tools, or that begin anew in each call."""

    @awaited
    def load(
        self,
        conversation_id: str | None = None,
        messages: Sequence[N] | None = None,
        **options: Unpack[CallOptions],
    ) -> Flow[CompactionSession[N]]:
        """Return the session of a conversation, filled from the store: for `state()`, `history()`, `export_records()`.

        Args:
            messages: All messages of the conversation, so that `state()` knows its size before the first call in this process.
                Never changed.
            **options: See `CallOptions`: those of the next call, such as `model`, `system` and `tools`. Those left out are the
                options of the last call, if this process made one.

        Raises:
            ConfigurationError: by this and all other methods, if there is no id and the adapter does not know the conversation.
        """
        if messages is None:
            return (yield from self._load_session(conversation_id))
        session = self._session_of(conversation_id, messages)
        yield Twin(session.load_sync, session.load, messages, **{**self._options_by_hand(session), **options})
        return session

    @awaited
    def compact(
        self,
        messages: Sequence[N],
        conversation_id: str | None = None,
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Flow[CompactionResult[N]]:
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
        session = self._session_of(conversation_id, messages)
        known = {**self._options_by_hand(session), **options}
        listed = cast("list[N]", messages)  # a sequence in types only: a list of dicts is no list of mappings
        result: CompactionResult[N] = yield Twin(
            session.compact_sync, session.compact, listed, keep_recent_tokens, focus, **known
        )
        return result

    @awaited
    def undo(self, conversation_id: str | None = None) -> Flow[CompactionRecord | None]:
        """Undo the newest compaction of a conversation and return its record; None if there is none."""
        session = yield from self._load_session(conversation_id)
        record = session.undo()
        # Writes the undo, which an async store gets with the next call otherwise.
        yield Twin(session.load_sync, session.load)
        return record

    @awaited
    def pin(self, message: N, conversation_id: str | None = None) -> Flow[None]:
        """Keep a message word for word in every view of a conversation from the next summary on."""
        session = yield from self._load_session(conversation_id)
        session.pin(message)
        yield Twin(session.load_sync, session.load)

    @awaited
    def forget(self, conversation_id: str | None = None) -> Flow[None]:
        """Remove a conversation from memory, and its records from the store.

        So it does with the agents that ran as tools under its id; if the store cannot list its conversations, with those that this
        process ran.

        Raises:
            RecordError: the store failed, call it again; or it has ids too long to tell whether they are of agents under this id,
                which is then the only one that is forgotten.
        """
        controller, session = self.controller, self._find_session(conversation_id)
        for session_id in self._sessions.family(session):
            yield Twin(controller.forget_sync, controller.forget, session_id)
        if self._shares_ids:
            with suppress(ConfigurationError):  # a store that does not list
                yield Twin(controller.forget_prefix_sync, controller.forget_prefix, inner_prefix(session.id))

    load_sync = blocking(load)
    """As `load`, for callers without an event loop."""
    compact_sync = blocking(compact, asks_model=True)
    """As `compact`, for callers without an event loop."""
    undo_sync = blocking(undo)
    """As `undo`, for callers without an event loop."""
    pin_sync = blocking(pin)
    """As `pin`, for callers without an event loop."""
    forget_sync = blocking(forget)
    """As `forget`, for callers without an event loop."""

    # -- for the adapter

    def _own_conversation(self) -> str | None:
        """Return the id of the adapter's only conversation; None if it has several."""
        return None

    def _options_by_hand(self, session: CompactionSession[N]) -> CallOptions:
        """Return the options of a manual compaction that its caller left out."""
        return self._sessions.last_call(session)

    def _session_of(self, conversation_id: str | None, messages: Sequence[N]) -> CompactionSession[N]:  # noqa: ARG002
        """Return the session in which the calls with these messages are made."""
        return self._find_session(conversation_id)

    # -- helpers

    def _find_session(self, conversation_id: str | None) -> CompactionSession[N]:
        known = conversation_id or self._own_conversation()
        if known is None:
            raise ConfigurationError('name the conversation by the id that its calls have, as in forget("thread-1")')
        return self._sessions.open(known)

    def _load_session(self, conversation_id: str | None) -> Flow[CompactionSession[N]]:
        session = self._find_session(conversation_id)
        yield Twin(session.load_sync, session.load)
        return session
