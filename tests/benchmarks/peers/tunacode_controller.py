"""tunacode-cli's CompactionController, called before every model call; its main loop calls it before every request of the user."""

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)
from tunacode.core.compaction.controller import CompactionController, apply_compaction_messages
from tunacode.core.compaction.summarizer import ContextSummarizer
from tunacode.core.types.state_structures import ConversationState

from tests.benchmarks.peers.peer import Asked, BasePeer, Chat, Reported, Summarize


class Peer(BasePeer[AgentMessage]):
    name = "tunacode-cli"
    packages = ("tunacode-cli", "tiny-agent-os")

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        self._state = ConversationState(max_tokens=window)
        self._manager: Any = SimpleNamespace(session=SimpleNamespace(conversation=self._state, compaction=None))
        self._controller = CompactionController(state_manager=self._manager, summarizer=ContextSummarizer(self._answer))

    def append(self, message: AgentMessage, reported: Reported | None) -> None:
        # tinyagent has no system message in the list, so it is a user's message before all others here.
        (self._state.messages if self.head else self.head).append(message)
        self._state.total_tokens = 0  # the streaming loop counts it again

    async def view(self) -> Sequence[AgentMessage]:
        self._controller.reset_request_state()
        outcome = await self._controller.check_and_compact(self._state.messages, max_tokens=self.window, signal=None)
        messages: Sequence[AgentMessage] = self._controller.inject_summary_message(
            apply_compaction_messages(self._manager, outcome.messages)
        )
        return messages

    async def _answer(self, prompt: str, signal: asyncio.Event | None) -> str:
        return self.summarize(lambda: Asked(prompt))

    @staticmethod
    def is_answer(message: AgentMessage) -> bool:
        return isinstance(message, AssistantMessage)

    @staticmethod
    def convert(history: Sequence[Chat]) -> list[AgentMessage]:
        return [_message(chat) for chat in history]

    @staticmethod
    def chats(message: Any) -> Sequence[Chat]:
        role = {"tool_result": "tool"}.get(message.role, message.role)
        text = "\n".join(part.text or "" for part in message.content if isinstance(part, TextContent))
        chat: Chat = {"role": role, "content": text}
        if isinstance(message, ToolResultMessage):
            chat["tool_call_id"] = message.tool_call_id
        if isinstance(message, AssistantMessage):
            chat["tool_calls"] = [
                {"id": part.id, "function": {"name": part.name, "arguments": json.dumps(part.arguments)}}
                for part in message.content
                if isinstance(part, ToolCallContent)
            ]
        return (chat,)


def _message(chat: Chat) -> AgentMessage:
    text: list[Any] = [TextContent(text=chat["content"])] if chat["content"] else []
    match chat["role"]:
        case "tool":
            return ToolResultMessage(tool_call_id=chat["tool_call_id"], content=text)
        case "assistant":
            calls = [
                ToolCallContent(
                    id=call["id"],
                    name=call["function"]["name"],
                    arguments=json.loads(call["function"]["arguments"]),
                )
                for call in chat.get("tool_calls") or ()
            ]
            return AssistantMessage(content=[*text, *calls], stop_reason="tool_calls" if calls else "stop")
        case _:
            return UserMessage(content=text)
