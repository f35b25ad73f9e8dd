"""Which session a task of a graph works with, and where its records are kept."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from compaction_adapters.langchain_core import (
    CarriedSessions,
    conversation_id,
    records_update,
    thread_id,
)
from compaction_adapters.langgraph.channels import RECORDS_KEY, RUN_KEY, Channels, Values
from compaction_hooks import CompactionController, CompactionSession


class RunName(str):
    """The name of a run, held by a channel of that run: when it goes, the sessions opened for it are closed."""

    def __init__(self, _: object) -> None:
        self.sessions: set[str] = set()


@dataclass(frozen=True, slots=True)
class Conversation:
    """One task's conversation.

    Attributes:
        held: The records the state holds.
        run: The run's name, where the conversation does not outlive it and so is closed with it.
    """

    session: CompactionSession[BaseMessage]
    channels: Channels
    held: Sequence[Mapping[str, object]]
    run: RunName | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model is asked with, as a conversation.

    Attributes:
        messages: The conversation's list: the whole one where the model was given the view of it.
        prefix: What was put before it for this call: a system prompt, mostly.
    """

    conversation: Conversation
    messages: list[BaseMessage]
    prefix: list[BaseMessage]


class Conversations(CarriedSessions):
    """Opens the session of the conversation a task works on, with the records its state holds.

    The session of a thread is kept in memory for the thread's next run. That of a subgraph, of a task started by `Send`, and of a
    run without a thread ends with the run. Where the same messages come back, in another run or in a thread that was begun with a
    copy of them, the records made here that are true of them are there again.

    Args:
        messages_key: Where the state has its messages. It tells conversations in one state apart.
    """

    def __init__(self, controller: CompactionController[Any], messages_key: str) -> None:
        super().__init__(controller)
        self._messages_key = messages_key
        self._suffix = "" if messages_key == "messages" else f"#{messages_key}"
        self._handed_out: _Lists = WeakKeyDictionary()

    def name(self, config: RunnableConfig) -> str | None:
        """Return the name of a thread's own conversation; None for any other, and without a thread."""
        name = conversation_id(config)
        return f"{name}{self._suffix}" if name is not None and name == thread_id(config) else None

    def of(
        self, config: RunnableConfig, state: Mapping[str, Any], messages: list[BaseMessage], kind: str = ""
    ) -> Conversation:
        """Return the conversation of a task.

        Args:
            state: The values handed to a node that is called outside a graph; in a graph they are in its channels.
            kind: Tells another conversation of the same task apart.
        """
        channels = Channels(config)
        held = state.get(RECORDS_KEY) or channels.held(RECORDS_KEY)
        run = None
        name = self.name(config)
        if name is None:
            given = state.get(RUN_KEY) or channels.held(RUN_KEY)
            run = given if isinstance(given, RunName) else RunName(f"run-{uuid.uuid4()}")
            name = f"{conversation_id(config, run)}{self._suffix}"
            self._close_with(run, name + kind)
        records = cast("Sequence[Mapping[str, object]]", held or ())
        session = self.open(name + kind, messages, records, config)
        return Conversation(session, channels, records, run)

    def asked(self, config: RunnableConfig, messages: list[BaseMessage]) -> Asked:
        """Return the conversation of a task that calls the model with these messages.

        A session follows one list: that of the state, or the one a node has handed out a view of. It goes on with that list when
        the model is given it or its view, with something before or behind it or not; anything else is a conversation of its own.
        """
        conversation = self.of(config, {}, messages)
        handed_out = self._handed_out.get(conversation.session)
        for known, whole in self._lists(conversation.channels, handed_out):
            found = _around(messages, known)
            if found is not None:
                before, behind = found
                return Asked(conversation, [*whole, *behind] if behind else whole, before)
        if handed_out is None:
            return Asked(conversation, messages, [])
        return Asked(self.of(config, {}, messages, "#model"), messages, [])

    def _lists(
        self, channels: Channels, handed_out: tuple[list[BaseMessage], list[BaseMessage]] | None
    ) -> Iterator[tuple[list[BaseMessage], list[BaseMessage]]]:
        """Yield lists that a model may be given, each with the conversation's list it means."""
        in_state = channels.get(self._messages_key)
        if isinstance(in_state, list):
            own = cast("list[BaseMessage]", in_state)
            yield own, own
        if handed_out is not None:
            whole, view = handed_out
            yield view, whole
            yield whole, whole

    def kept(self, conversation: Conversation, messages: list[BaseMessage]) -> Values:
        """Return what the channels must be told after a call, and remember it for conversations that begin alike."""
        update = records_update(conversation.session, conversation.held)
        values: Values = {RECORDS_KEY: update} if update else {}
        self.keep(conversation.session, messages)
        if conversation.run is not None:
            values[RUN_KEY] = conversation.run
        return values

    # -- what node and model tell one another

    def note_handed_out(
        self, session: CompactionSession[BaseMessage], messages: list[BaseMessage], view: list[BaseMessage]
    ) -> None:
        """Remember the view that a node handed out for a list."""
        self._handed_out[session] = (messages, view)

    def _close_with(self, run: RunName, name: str) -> None:
        if name not in run.sessions:
            run.sessions.add(name)
            weakref.finalize(run, self.controller.close, name).atexit = False


_Lists: TypeAlias = "WeakKeyDictionary[CompactionSession[BaseMessage], tuple[list[BaseMessage], list[BaseMessage]]]"


def _around(
    messages: list[BaseMessage], known: list[BaseMessage]
) -> tuple[list[BaseMessage], list[BaseMessage]] | None:
    """Return the messages before and behind these in a list; None if they are not in it.

    They are the same objects, or equal ones that went through a checkpoint.
    """
    if not known:
        return None
    start = next((index for index, message in enumerate(messages) if _same(message, known[0])), len(messages))
    end = start + len(known)
    if end > len(messages) or not all(map(_same, messages[start:end], known)):
        return None
    return messages[:start], messages[end:]


def _same(one: BaseMessage, other: BaseMessage) -> bool:
    return one is other or one == other
