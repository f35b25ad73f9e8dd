"""Peers that take pydantic-ai's messages: all messages between two responses are one request."""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from tests.benchmarks.peers.peer import Asked, BasePeer, Chat, Reported, Summarize


class PydanticAIPeer(BasePeer[ModelMessage]):
    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        self.model = FunctionModel(self._answer)

    async def _answer(self, asked: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        text = self.summarize(lambda: Asked("".join(str(part.content) for message in asked for part in message.parts)))  # type: ignore[union-attr]
        # Without usage the model would count every word of its input.
        return ModelResponse(parts=[TextPart(text)], usage=RequestUsage(input_tokens=1, output_tokens=1))

    @staticmethod
    def convert(history: Sequence[Chat]) -> list[ModelMessage]:
        """Return a history in pydantic-ai's messages."""
        made: list[ModelMessage] = []
        names: dict[str, str] = {}
        for chat in history:
            if chat["role"] == "assistant":
                calls = [
                    ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"])
                    for call in chat.get("tool_calls") or ()
                ]
                names |= {call.tool_call_id: call.tool_name for call in calls}
                made.append(ModelResponse(parts=[*([TextPart(chat["content"])] if chat["content"] else []), *calls]))
            elif made and isinstance(made[-1], ModelRequest):
                made[-1] = ModelRequest(parts=[*made[-1].parts, _part(chat, names)])
            else:
                made.append(ModelRequest(parts=[_part(chat, names)]))
        return made

    @staticmethod
    def is_answer(message: ModelMessage) -> bool:
        return isinstance(message, ModelResponse)

    @staticmethod
    def chats(message: ModelMessage) -> Sequence[Chat]:
        return list(_request_chats(message)) if isinstance(message, ModelRequest) else (_response_chat(message),)

    def append(self, message: ModelMessage, reported: Reported | None) -> None:
        if isinstance(message, ModelResponse):
            message.usage = (
                RequestUsage(input_tokens=reported.input_tokens, output_tokens=reported.output_tokens)
                if reported
                else RequestUsage()
            )
        self.messages.append(message)


def _part(chat: Chat, names: dict[str, str]) -> Any:
    content = chat["content"] or ""
    match chat["role"]:
        case "system":
            return SystemPromptPart(content)
        case "tool":
            return ToolReturnPart(names.get(chat["tool_call_id"], "tool"), content, chat["tool_call_id"])
        case _:
            return UserPromptPart(content)


def _request_chats(message: ModelRequest) -> Iterator[Chat]:
    for part in message.parts:
        match part:
            case SystemPromptPart():
                yield {"role": "system", "content": part.content}
            case ToolReturnPart():
                yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.content}
            case UserPromptPart() | CompactionPart():
                yield {"role": "user", "content": str(part.content)}
            case _:
                raise TypeError(f"{part!r} is nothing that a peer was expected to send")


def _response_chat(message: ModelResponse) -> Chat:
    text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
    calls = [
        {"id": part.tool_call_id, "function": {"name": part.tool_name, "arguments": part.args_as_json_str()}}
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}
