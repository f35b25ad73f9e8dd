"""The lists that a compaction node has handed out, and the conversation that a model is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from langchain_core.messages import BaseMessage

from compaction_adapters.langchain_core import Conversation, Conversations, Task
from compaction_adapters.langgraph.channels import RECORDS_KEY, RUN_KEY
from compaction_hooks import CompactionController, CompactionSession

_Lists: TypeAlias = "WeakKeyDictionary[CompactionSession[BaseMessage], tuple[list[BaseMessage], list[BaseMessage]]]"


class NodeConversations(Conversations):
    """The conversations of a compaction node and of the models that it wraps.

    Args:
        messages_key: Where the state has its messages. It tells conversations in one state apart.
    """

    def __init__(self, controller: CompactionController[Any], messages_key: str) -> None:
        super().__init__(controller, RECORDS_KEY, RUN_KEY, "" if messages_key == "messages" else f"#{messages_key}")
        self._messages_key = messages_key
        self._handed_out: _Lists = WeakKeyDictionary()

    def hand_out(self, conversation: Conversation, view: list[BaseMessage]) -> None:
        """Remember the view that a node hands out."""
        self._handed_out[conversation.session] = (conversation.messages, view)

    def asked(self, task: Task, messages: list[BaseMessage]) -> Conversation:
        """Return the conversation of a task that calls the model with these messages.

        A session follows one list: that of the state, or the one a node has handed out a view of. It goes on with that list when
        the model is given it or its view, with something before or behind it or not; anything else is a conversation of its own.
        """
        conversation = self.of(task, messages)
        for known, whole in self._lists(conversation):
            found = _around(messages, known)
            if found is not None:
                before, behind = found
                return replace(conversation, messages=[*whole, *behind] if behind else whole, prefix=before)
        is_another = conversation.session in self._handed_out
        return self.of(task, messages, kind="#model") if is_another else conversation

    def _lists(self, conversation: Conversation) -> Iterator[tuple[list[BaseMessage], list[BaseMessage]]]:
        """Yield lists that a model may be given, each with the conversation's list it means."""
        in_state = conversation.task.get(self._messages_key)
        if isinstance(in_state, list):
            yield in_state, in_state
        if conversation.session in self._handed_out:
            whole, view = self._handed_out[conversation.session]
            yield view, whole
            yield whole, whole


def _around(
    messages: list[BaseMessage], known: list[BaseMessage]
) -> tuple[list[BaseMessage], list[BaseMessage]] | None:
    """Return the messages before and behind these in a list; None if they are not in it.

    They are the same objects, or equal ones that went through a checkpoint.
    """
    if not known:
        return None
    start = next((index for index, message in enumerate(messages) if _is_same(message, known[0])), len(messages))
    end = start + len(known)
    if end > len(messages) or not all(map(_is_same, messages[start:end], known)):
        return None
    return messages[:start], messages[end:]


def _is_same(one: BaseMessage, other: BaseMessage) -> bool:
    return one is other or one == other
