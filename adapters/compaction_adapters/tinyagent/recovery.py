"""Going on with a run that the context window ended: tinyagent ends it in an error message, or in an answer cut off at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from tinyagent import Agent
from tinyagent.agent_types import AgentEvent, AgentMessage, AssistantMessage, TextContent

from compaction_adapters.tinyagent.messages import TinyAgentFormat
from compaction_adapters.tinyagent.models import ModelCallError
from compaction_hooks import Message


class EndedRun:
    """A run that is over, as a model call for `session.call`: made once, with the answer the run ended in, it can be made again.

    Attributes:
        kept: The conversation without that answer.
        answer: What the run came to when it was gone on with; None while it was not.
        second: The first answer after `kept` then.
    """

    def __init__(self, agent: Agent, ended: AssistantMessage, is_unseen: Callable[[AssistantMessage], bool]) -> None:
        self.agent = agent
        self.ended = ended
        self.kept = agent.state.messages[:-1]
        self.answer: AgentMessage | None = None
        self.second: AssistantMessage | None = None
        self._is_unseen = is_unseen
        self._is_answered = False

    async def send(self, view: list[AgentMessage]) -> AgentMessage:  # noqa: ARG002 - the loop gets it from the hook
        """Answer as the run did; asked again, go on with the run."""
        if not self._is_answered:
            self._is_answered = True
            return _checked(self.ended)
        if not self._is_where_it_ended:
            return self.ended  # the host went on by itself meanwhile
        self.agent.replace_messages(self.kept)
        self.answer = await self.agent.continue_()
        said = self.agent.state.messages[len(self.kept) :]
        self.second = next(message for message in said if isinstance(message, AssistantMessage))
        if self._is_unseen(self.second):
            _checked(self.second)
        return self.answer

    def drop_failure(self) -> None:
        """Leave the agent with the conversation, without the answer that failed."""
        if self.answer is not None or self._is_where_it_ended:
            self.agent.replace_messages(self.kept)

    def put_back(self) -> None:
        """Leave the agent as the run ended, where going on with it was no better."""
        if self.answer is not None:
            self.agent.replace_messages([*self.kept, self.ended])

    @property
    def _is_where_it_ended(self) -> bool:
        return not self.agent.state.is_streaming and last_answer(self.agent) is self.ended


def _checked(message: AssistantMessage) -> AssistantMessage:
    if message.stop_reason == "error":
        raise ModelCallError(message)
    return message


def last_answer(agent: Agent) -> AssistantMessage | None:
    """Return the message the agent's conversation ends in, when it is the assistant's."""
    messages = agent.state.messages
    return messages[-1] if messages and isinstance(messages[-1], AssistantMessage) else None


def is_cut_off(message: AssistantMessage) -> bool:
    """Whether an answer failed, or stopped for its length, with nothing in it."""
    is_blank = all(isinstance(block, TextContent) and not block.text for block in message.content)
    return is_blank and message.stop_reason in ("error", "length")


def read_answer(message: AgentMessage) -> Message | None:
    """Return an answer's neutral reading."""
    return TinyAgentFormat().read(message)[0]


# -- events


async def events_during(agent: Agent, work: Awaitable[object]) -> AsyncGenerator[AgentEvent]:
    """Yield what the agent tells its subscribers while something is done with it, then raise what that raised."""
    queue: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
    unsubscribe = agent.subscribe(queue.put_nowait)
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        await task
    finally:
        unsubscribe()
        task.cancel()
