"""The conversation of a call, and its session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

from compaction_adapters.kit import ByHand, Sessions, opening_key
from compaction_adapters.litellm.calls import Arguments, as_mapping
from compaction_hooks import CompactionController, CompactionSession
from compaction_hooks.formats import OpenAIChatFormat

ChatMessage: TypeAlias = Mapping[str, object]
SessionId: TypeAlias = str | Callable[[Mapping[str, object]], str | None]
"""A conversation's id; or a function that finds it in a call's arguments, or returns None."""


class LiteLLMFormat(OpenAIChatFormat):
    """Chat messages as dicts, as `litellm.Message` objects, or mixed, with Anthropic's blocks in litellm's own field."""

    def native(self, items: Sequence[Mapping[str, object]], /) -> list[ChatMessage]:
        """Return an assistant message of these blocks."""
        return [{"role": "assistant", "content": None, "provider_specific_fields": {"compaction_blocks": [*items]}}]


FORMAT: Final = LiteLLMFormat()


class Conversations(Sessions[ChatMessage]):
    """The sessions of a controller, by the conversation of a call. `user` names a person, not a conversation."""

    def __init__(self, controller: CompactionController[Any], session_id: SessionId | None) -> None:
        super().__init__(controller, FORMAT)
        self._session_id = session_id
        self.own_id = session_id if isinstance(session_id, str) else None

    def open_for(self, owner: str, conversation_id: str) -> CompactionSession[ChatMessage]:
        """Return the session of a conversation; two owners may use the same id. Without owners, `owner` is empty."""
        return self.open(f"{owner}:{conversation_id}" if owner else conversation_id)

    def of(
        self, arguments: Arguments, messages: Sequence[ChatMessage], owner: str = ""
    ) -> CompactionSession[ChatMessage]:
        """Return the session of a call."""
        own_id = self._session_id(arguments) if callable(self._session_id) else self._session_id
        return self.open_for(owner, own_id or _find_id(arguments) or f"litellm-{opening_key(FORMAT, messages)}")


class ConversationMethods(ByHand[ChatMessage, Conversations]):
    """Methods for the conversations of a function or a callback, by the id in its calls, or by `session_id=` if that is a text."""

    def __init__(self, conversations: Conversations) -> None:
        self._sessions = conversations

    def session(self, conversation_id: str) -> CompactionSession[ChatMessage]:
        """Return the session of a conversation, as far as this process knows it; `load` reads the store."""
        return self._sessions.open(conversation_id)

    def _own_conversation(self) -> str | None:
        return self._sessions.own_id


def _find_id(arguments: Arguments) -> str | None:
    metadata = [as_mapping(arguments.get(name)) for name in ("metadata", "litellm_metadata")]
    keys = ("conversation_id", "thread_id", "session_id")
    ids = [*(fields.get(key) for key in keys for fields in metadata), arguments.get("litellm_session_id")]
    return next((str(id_) for id_ in ids if isinstance(id_, str | int | UUID) and id_), None)
