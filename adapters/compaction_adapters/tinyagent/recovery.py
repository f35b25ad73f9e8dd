"""Continue a run that overflowed the window: tinyagent ends it with an error message, or with an empty answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from tinyagent import Agent
from tinyagent.agent_types import AgentEvent, AgentMessage, AssistantMessage, TextContent

from compaction_adapters.tinyagent.messages import TinyAgentFormat
from compaction_adapters.tinyagent.models import ModelCallError
from compaction_hooks import Message


class EndedRun:
    """An ended run as a model call for `session.call`: the first attempt returns its last answer, the next continues the run.

    Attributes:
        ended: The assistant message that ended the run.
        kept: The conversation without `ended`.
        answer: The final answer of the continued run; None before it was continued.
        second: The first answer of the continued run; None before it was continued.
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
        """Return the answer that ended the run; the second time, continue the run.

        Raises:
            ModelCallError: the model call failed.
        """
        if not self._is_answered:
            self._is_answered = True
            _raise_error(self.ended)
            return self.ended
        if not self._is_unchanged:
            return self.ended  # the host continued the run itself meanwhile

        self.agent.replace_messages(self.kept)
        self.answer = await self.agent.continue_()
        added = self.agent.state.messages[len(self.kept) :]
        self.second = next(message for message in added if isinstance(message, AssistantMessage))
        if self._is_unseen(self.second):
            _raise_error(self.second)
        return self.answer

    def drop_failure(self) -> None:
        """Remove the failed answer from the agent's messages."""
        if self.answer is not None or self._is_unchanged:
            self.agent.replace_messages(self.kept)

    def restore(self) -> None:
        """Restore the agent's messages at the end of the run, when continuing it was no better."""
        if self.answer is not None:
            self.agent.replace_messages([*self.kept, self.ended])

    @property
    def _is_unchanged(self) -> bool:
        return not self.agent.state.is_streaming and last_answer(self.agent) is self.ended


def _raise_error(message: AssistantMessage) -> None:
    if message.stop_reason == "error":
        raise ModelCallError(message)


def last_answer(agent: Agent) -> AssistantMessage | None:
    """Return the last message of the agent's conversation if it is the assistant's, else None."""
    messages = agent.state.messages
    return messages[-1] if messages and isinstance(messages[-1], AssistantMessage) else None


def is_cut_off(message: AssistantMessage) -> bool:
    """Return whether an answer is empty because it failed or stopped for its length."""
    is_blank = all(isinstance(block, TextContent) and not block.text for block in message.content)
    return is_blank and message.stop_reason in ("error", "length")


def read_answer(message: AgentMessage) -> Message | None:
    """Return an answer as a neutral message."""
    return TinyAgentFormat().read(message)[0]


# -- events


async def events_during(agent: Agent, work: Awaitable[object]) -> AsyncGenerator[AgentEvent]:
    """Yield the agent's events while the work runs, then raise the work's error if it failed."""
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
