"""Peers that take LangChain's messages."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import UsageMetadata

from tests.benchmarks.peers.peer import Asked, BasePeer, Chat, Reported

_NUMBERS = count()


class LangChainPeer(BasePeer[BaseMessage]):
    @staticmethod
    def convert(history: Sequence[Chat]) -> list[BaseMessage]:
        messages = convert_to_messages(list(history))
        for message in messages:
            message.id = f"m{next(_NUMBERS)}"
        return messages

    @staticmethod
    def is_answer(message: BaseMessage) -> bool:
        return isinstance(message, AIMessage)

    @staticmethod
    def chats(message: BaseMessage) -> Sequence[Chat]:
        return convert_to_openai_messages([message])

    def append(self, message: BaseMessage, reported: Reported | None) -> None:
        if isinstance(message, AIMessage):
            message.response_metadata = {"model_provider": "openai"} if reported else {}
            message.usage_metadata = _usage(reported) if reported else None
        self.messages.append(message)


class AgentPeer(LangChainPeer):
    """A peer inside `create_agent`, which keeps the system prompt outside of the list."""

    def append(self, message: BaseMessage, reported: Reported | None) -> None:
        if isinstance(message, SystemMessage):
            self.head.append(message)
        else:
            super().append(message, reported)

    def summarize_messages(self, middleware: Any, messages: list[BaseMessage], start: str, end: str = "") -> str:
        """Return a summary of messages, of which the first may be the previous summary between `start` and `end`."""

        def asked() -> Asked:
            previous, new = None, messages
            if messages and start in messages[0].text:
                previous, new = messages[0].text.partition(start)[2].removesuffix(end), messages[1:]
            return Asked(middleware._format_summary_prompt(messages), convert_to_openai_messages(new), previous)

        return self.summarize(asked)


def chat_model(window: int) -> Any:
    """Return a model without answers, for peers that read a model's window and provider."""
    return _OpenAI(responses=[""], profile={"max_input_tokens": window})


class _OpenAI(FakeListChatModel):
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai"}


def _usage(reported: Reported) -> UsageMetadata:
    total = reported.input_tokens + reported.output_tokens
    return UsageMetadata(input_tokens=reported.input_tokens, output_tokens=reported.output_tokens, total_tokens=total)
