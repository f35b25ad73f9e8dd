"""The views that a compaction node has returned, and the conversation of a model call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from langchain_core.messages import BaseMessage

from compaction_adapters.langchain_core import Conversation, Conversations, Task
from compaction_adapters.langgraph.channels import RECORDS_KEY
from compaction_hooks import CompactionController, CompactionSession

_Lists: TypeAlias = tuple[list[BaseMessage], list[BaseMessage]]


class NodeConversations(Conversations):
    """The conversations of a compaction node and of the models that it wraps.

    Args:
        messages_key: The state's key for messages. It distinguishes the conversations of one state.
        has_recall: Whether the model has the recall tool.
        is_native: Whether the provider of a wrapped model compacts if it can.
    """

    def __init__(
        self,
        controller: CompactionController[Any],
        messages_key: str,
        *,
        has_recall: bool = False,
        is_native: bool = False,
    ) -> None:
        suffix = "" if messages_key == "messages" else f"#{messages_key}"
        super().__init__(controller, RECORDS_KEY, suffix, has_recall=has_recall)
        self.is_native = is_native
        self._messages_key = messages_key
        self._views: WeakKeyDictionary[CompactionSession[BaseMessage], tuple[_Lists, ...]] = WeakKeyDictionary()

    def remember_view(self, conversation: Conversation, view: list[BaseMessage]) -> None:
        """Remember the view that a node returns: each possible input of a model, with the list of all messages for it."""
        whole = conversation.messages
        self._views[conversation.session] = ((view, whole), (whole, whole))

    def of_call(self, task: Task, messages: list[BaseMessage]) -> Conversation:
        """Return the conversation of a task that calls the model with these messages.

        A session follows one list: the state's, or the one whose view a node has returned. If the model's input contains this list
        or its view, with other messages around it or not, it is the same conversation; any other input is another conversation.
        """
        in_state = task.get(self._messages_key)
        own = cast("list[BaseMessage]", in_state if isinstance(in_state, list) else [])
        conversation = self.of(task, own or messages)
        views = self._views.get(conversation.session, ())
        for known, whole in ((own, own), *views):
            if (found := _around(messages, known)) is not None:
                before, after = found
                return replace(conversation, messages=[*whole, *after] if after else whole, prefix=before)
        return self.of(task, messages, kind="#model" if views else "")


def _around(messages: list[BaseMessage], known: list[BaseMessage]) -> _Lists | None:
    """Return the messages before and after the known ones, or equal ones from a checkpoint; None if the list lacks them."""
    if not known or known[0] not in messages:
        return None
    start = messages.index(known[0])
    end = start + len(known)
    return (messages[:start], messages[end:]) if messages[start:end] == known else None
