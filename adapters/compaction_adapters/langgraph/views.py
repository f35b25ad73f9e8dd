"""The lists that a compaction node has handed out, and the conversation that a model is asked about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from langchain_core.messages import BaseMessage

from compaction_adapters.langchain_core import Conversation, Conversations, Task
from compaction_adapters.langgraph.channels import RECORDS_KEY, RUN_KEY
from compaction_hooks import CompactionController, CompactionSession

_Lists: TypeAlias = tuple[list[BaseMessage], list[BaseMessage]]


class NodeConversations(Conversations):
    """The conversations of a compaction node and of the models that it wraps.

    Args:
        messages_key: Where the state has its messages. It tells conversations in one state apart.
    """

    def __init__(self, controller: CompactionController[Any], messages_key: str) -> None:
        super().__init__(controller, RECORDS_KEY, RUN_KEY, "" if messages_key == "messages" else f"#{messages_key}")
        self._messages_key = messages_key
        self._handed_out: WeakKeyDictionary[CompactionSession[BaseMessage], tuple[_Lists, ...]] = WeakKeyDictionary()

    def hand_out(self, conversation: Conversation, view: list[BaseMessage]) -> None:
        """Remember the view that a node hands out: each list that a model may be given, with the whole list it means."""
        whole = conversation.messages
        self._handed_out[conversation.session] = ((view, whole), (whole, whole))

    def of_call(self, task: Task, messages: list[BaseMessage]) -> Conversation:
        """Return the conversation of a task that calls the model with these messages.

        A session follows one list: that of the state, or the one a node has handed out a view of. It goes on with that list when
        the model is given it or its view, with something before or behind it or not; anything else is a conversation of its own.
        """
        conversation = self.of(task, messages)
        in_state = task.get(self._messages_key)
        own = cast("list[BaseMessage]", in_state if isinstance(in_state, list) else [])
        handed_out = self._handed_out.get(conversation.session, ())
        for known, whole in ((own, own), *handed_out):
            found = _around(messages, known)
            if found is not None:
                before, behind = found
                return replace(conversation, messages=[*whole, *behind] if behind else whole, prefix=before)
        return self.of(task, messages, kind="#model") if handed_out else conversation


def _around(messages: list[BaseMessage], known: list[BaseMessage]) -> _Lists | None:
    """Return the messages before and behind these in a list; None if they are not in it.

    They are the same objects, or equal ones that went through a checkpoint.
    """
    if not known or known[0] not in messages:
        return None
    start = messages.index(known[0])
    end = start + len(known)
    return (messages[:start], messages[end:]) if messages[start:end] == known else None
