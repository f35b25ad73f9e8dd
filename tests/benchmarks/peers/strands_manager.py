"""Strands' SummarizingConversationManager: the projection of the event loop, and the manager's handler of it."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, cast

from strands import Agent
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.event_loop.event_loop import _estimate_input_tokens
from strands.hooks.events import BeforeModelCallEvent
from strands.models.model import Model

from tests.benchmarks.peers.peer import Asked, Chat, ChatPeer, Reported, Summarize


class _Summarizer(Model):  # type: ignore[misc, unused-ignore]  # untyped where strands is not installed
    """A model that answers with the summarizer."""

    def __init__(self, window: int, summarize: Summarize) -> None:
        self._window = window
        self._summarize = summarize

    def get_config(self) -> dict[str, int]:
        return {"context_window_limit": self._window}

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": self._summarize(lambda: Asked(""))}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class Peer(ChatPeer):
    name = "strands"
    packages = ("strands-agents",)
    reads_usage = True

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        self._manager = SummarizingConversationManager(proactive_compression=True)
        model = _Summarizer(window, summarize)
        self._agent: Any = Agent(model=model, conversation_manager=self._manager, callback_handler=None)
        self.messages = cast("Any", self._agent.messages)

    def append(self, message: Chat, reported: Reported | None) -> None:
        if message["role"] == "system":
            self.head.append(message)
            self._agent.system_prompt = message["content"][0]["text"]
            return
        message.pop("metadata", None)
        if reported:
            tokens = {"inputTokens": reported.input_tokens, "outputTokens": reported.output_tokens}
            message["metadata"] = {"usage": {**tokens, "totalTokens": sum(tokens.values())}}
        self.messages.append(message)

    async def view(self) -> Sequence[Chat]:
        projected = await _estimate_input_tokens(self._agent)
        event = BeforeModelCallEvent(agent=self._agent, invocation_state={}, projected_input_tokens=projected)
        self._manager._on_before_model_call_threshold(event)
        return self.messages

    @staticmethod
    def convert(history: Sequence[Chat]) -> list[Chat]:
        """Return a history in strands' messages: all messages between two answers are one message of the user."""
        made: list[Chat] = []
        for chat in history:
            role = {"system": "system", "assistant": "assistant"}.get(chat["role"], "user")
            if made and role == "user" and made[-1]["role"] == "user":
                made[-1]["content"] += _blocks(chat)
            else:
                made.append({"role": role, "content": list(_blocks(chat))})
        return made

    @staticmethod
    def chats(message: Chat) -> Sequence[Chat]:
        results = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        made: list[Chat] = [
            {"role": "tool", "tool_call_id": result["toolUseId"], "content": result["content"]} for result in results
        ]
        text = "\n".join(block["text"] for block in message["content"] if "text" in block)
        calls = [
            {"id": use["toolUseId"], "function": {"name": use["name"], "arguments": json.dumps(use["input"])}}
            for use in (block["toolUse"] for block in message["content"] if "toolUse" in block)
        ]
        if text or calls:
            made.append({"role": message["role"], "content": text, "tool_calls": calls})
        return made


def _blocks(chat: Chat) -> Iterator[Chat]:
    if chat["role"] == "tool":
        content = [{"text": chat["content"] or ""}]
        yield {"toolResult": {"toolUseId": chat["tool_call_id"], "status": "success", "content": content}}
        return
    if chat["content"]:
        yield {"text": chat["content"]}
    for call in chat.get("tool_calls") or ():
        function = call["function"]
        yield {
            "toolUse": {"toolUseId": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}
        }
