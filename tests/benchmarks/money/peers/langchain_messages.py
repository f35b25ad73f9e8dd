"""OpenAI chat messages as LangChain's, each with the index of the message it came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    UsageMetadata,
    convert_to_messages,
    convert_to_openai_messages,
)

from tests.benchmarks.money.peers.serving import Chat

PROVIDER = "openai"
"""Provider name of the model and its answers, since LangChain trusts reported usage of the same provider only."""


class FakeModel(GenericFakeChatModel):
    """A model with a window and a provider, which is never called."""

    def _get_ls_params(self, *arguments: Any, **keywords: Any) -> Any:
        return {"ls_provider": PROVIDER}


def fake_model(window: int) -> FakeModel:
    """Return a model whose window is known."""
    return FakeModel(messages=iter(()), profile={"max_input_tokens": window})


class Conversation:
    """LangChain's messages of one history, without the system messages at its head, as in `create_agent`."""

    def __init__(self) -> None:
        self.systems: list[int] = []
        self._chats: list[Chat] = []
        self._originals: dict[str, BaseMessage] = {}

    def system_messages(self) -> list[AnyMessage]:
        """Return the system messages at the head."""
        return cast("list[AnyMessage]", [self._originals[f"m{index}"] for index in self.systems])

    def add(self, new: Iterable[Chat], usage: tuple[int, int] | None) -> list[AnyMessage]:
        """Add new messages and return LangChain's; `usage` belongs to the first answer among them."""
        added: list[AnyMessage] = []
        for chat in new:
            index = len(self._chats)
            self._chats.append(chat)
            message = convert_to_messages([chat])[0].model_copy(update={"id": f"m{index}"})
            if isinstance(message, AIMessage):
                message.response_metadata["model_provider"] = PROVIDER
                if usage is not None:
                    message.usage_metadata = UsageMetadata(
                        input_tokens=usage[0], output_tokens=usage[1], total_tokens=sum(usage)
                    )
                    usage = None
            self._originals[f"m{index}"] = message
            if chat["role"] == "system" and index == len(self.systems):
                self.systems.append(index)
            else:
                added.append(cast("AnyMessage", message))
        return added

    def reply(self, messages: Iterable[BaseMessage]) -> list[int | Chat]:
        """Return the reply to a request: the system messages, and each unchanged message by its index."""
        return [*self.systems, *(self._one(message) for message in messages)]

    def _one(self, message: BaseMessage) -> int | Chat:
        original = self._originals.get(message.id or "")
        if original is not None and original.content == message.content and _calls(original) == _calls(message):
            return int(str(message.id)[1:])
        return self.chats([message])[0]

    def chats(self, messages: Sequence[BaseMessage]) -> list[Chat]:
        """Return messages as OpenAI chat messages."""
        return convert_to_openai_messages(list(messages))


def _calls(message: BaseMessage) -> object:
    return message.tool_calls if isinstance(message, AIMessage) else None
