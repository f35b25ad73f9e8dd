"""Agent loops around `session.call_sync` and the clients of the providers, for the checks of every adapter."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

from compaction_hooks import MessageFormat, SummaryRequest
from compaction_hooks.formats import (
    AnthropicFormat,
    BedrockConverseFormat,
    GeminiFormat,
    OpenAIChatFormat,
    OpenAIResponsesFormat,
)
from compaction_hooks.testing import HostConversation, Opening, ScriptedTool

LIMIT = 1_000
"""The limit of an answer, for an API that asks for one."""


class Asked(NamedTuple):
    """A tool call of an answer."""

    id: str
    name: str
    arguments: Any


class ClientConversation(HostConversation[Any]):
    """A loop around one client: a subclass says what is sent, and how an answer is read.

    Attributes:
        package: The package of the client.
        begins_with_system: Whether the system prompt is the first message.
    """

    package: ClassVar[str]
    format: ClassVar[MessageFormat[Any]]
    begins_with_system: ClassVar[bool] = False

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.tools = {tool.name: tool for tool in opening.tools}
        self.messages: list[Any] = [{"role": "system", "content": opening.system}] if self.begins_with_system else []
        self.client = self.open_client()

    @property
    def session_id(self) -> str:
        return self.opening.conversation_id

    async def history(self) -> list[Any]:
        return self.messages

    async def say(self, text: str, /) -> str:
        return await asyncio.to_thread(self.say_sync, text)

    def say_sync(self, text: str, /) -> str:
        self.messages.append(self.user(text))
        while True:
            said, answer, calls = self.read(self._answer())
            self.messages += answer
            if not calls:
                return said
            self.messages += self.results([(call, self.tools[call.name].run(call.arguments)) for call in calls])

    def _answer(self) -> Any:
        assert self.opening.controller is not None
        session = self.opening.controller.session(self.session_id, format=self.format)
        schemas = [tool.openai_schema for tool in self.opening.tools]
        system = None if self.begins_with_system else self.opening.system
        return session.call_sync(self.messages, self._send, system=system, tools=schemas, summarizer=self.summarize)

    def _send(self, view: list[Any]) -> Any:
        return self.send(view, self.opening.system, self.opening.tools)

    def summarize(self, request: SummaryRequest) -> str:
        return self.read(self.send([self.user(request.prompt)], request.system, ()))[0]

    # -- of a client

    def open_client(self) -> Any:
        raise NotImplementedError

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def send(self, view: list[Any], system: str, tools: Sequence[ScriptedTool]) -> Any:
        raise NotImplementedError

    def read(self, response: Any) -> tuple[str, list[Any], list[Asked]]:
        """Return the text of an answer, its messages, and its tool calls."""
        raise NotImplementedError

    def results(self, ran: Sequence[tuple[Asked, str]]) -> list[Any]:
        raise NotImplementedError

    def close(self) -> None:
        self.client.close()


class ChatConversation(ClientConversation):
    package, begins_with_system = "openai", True
    format: ClassVar[MessageFormat[Any]] = OpenAIChatFormat()

    def open_client(self) -> Any:
        return import_module("openai").OpenAI(
            base_url=self.opening.openai_url, api_key=self.opening.api_key, max_retries=0
        )

    def send(self, view: list[Any], system: str, tools: Sequence[ScriptedTool]) -> Any:
        messages = view if tools else [{"role": "system", "content": system}, *view]
        offered = {"tools": [tool.openai_schema for tool in tools]} if tools else {}
        return self.client.chat.completions.create(model=self.opening.model, messages=messages, **offered)

    def read(self, response: Any) -> tuple[str, list[Any], list[Asked]]:
        message = response.choices[0].message
        calls = [(call.id, call.function) for call in message.tool_calls or ()]
        return message.content, [message], [Asked(id, one.name, json.loads(one.arguments)) for id, one in calls]

    def results(self, ran: Sequence[tuple[Asked, str]]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in ran]


class ResponsesConversation(ChatConversation):
    format, begins_with_system = OpenAIResponsesFormat(), False

    def send(self, view: list[Any], system: str, tools: Sequence[ScriptedTool]) -> Any:
        offered = [{"type": "function", **tool.openai_schema["function"]} for tool in tools]  # type: ignore[dict-item]
        return self.client.responses.create(
            model=self.opening.model, input=view, instructions=system, tools=offered, store=False
        )

    def read(self, response: Any) -> tuple[str, list[Any], list[Asked]]:
        calls = [item for item in response.output if item.type == "function_call"]
        asked = [Asked(call.call_id, call.name, json.loads(call.arguments)) for call in calls]
        return response.output_text, response.output, asked

    def results(self, ran: Sequence[tuple[Asked, str]]) -> list[Any]:
        return [{"type": "function_call_output", "call_id": call.id, "output": text} for call, text in ran]


class AnthropicConversation(ClientConversation):
    package, format = "anthropic", AnthropicFormat()

    def open_client(self) -> Any:
        return import_module("anthropic").Anthropic(
            base_url=self.opening.anthropic_url, api_key=self.opening.api_key, max_retries=0
        )

    def send(self, view: list[Any], system: str, tools: Sequence[ScriptedTool]) -> Any:
        offered = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
        return self.client.messages.create(
            model=self.opening.model, system=system, messages=view, max_tokens=LIMIT, tools=offered
        )

    def read(self, response: Any) -> tuple[str, list[Any], list[Asked]]:
        text = "".join(block.text for block in response.content if block.type == "text")
        calls = [Asked(one.id, one.name, one.input) for one in response.content if one.type == "tool_use"]
        return text, [{"role": "assistant", "content": response.content}], calls

    def results(self, ran: Sequence[tuple[Asked, str]]) -> list[Any]:
        content = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in ran]
        return [{"role": "user", "content": content}]


class GeminiConversation(ClientConversation):
    package, format = "google.genai", GeminiFormat()

    def open_client(self) -> Any:
        return import_module("google.genai").Client(
            api_key=self.opening.api_key, http_options={"base_url": self.opening.anthropic_url}
        )

    @property
    def types(self) -> Any:
        return import_module("google.genai.types")

    def user(self, text: str) -> Any:
        return self.types.Content(role="user", parts=[self.types.Part(text=text)])

    def send(self, view: list[Any], system: str, tools: Sequence[ScriptedTool]) -> Any:
        declare = self.types.FunctionDeclaration
        offered = [
            declare(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters))
            for tool in tools
        ]
        config = self.types.GenerateContentConfig(
            system_instruction=system, tools=[self.types.Tool(function_declarations=offered)] if offered else None
        )
        return self.client.models.generate_content(model=self.opening.model, contents=view, config=config)

    def read(self, response: Any) -> tuple[str, list[Any], list[Asked]]:
        content = response.candidates[0].content
        text = "".join(part.text for part in content.parts if part.text)
        return text, [content], [Asked("", call.name, call.args) for call in response.function_calls or ()]

    def results(self, ran: Sequence[tuple[Asked, str]]) -> list[Any]:
        answered = self.types.Part.from_function_response
        parts = [answered(name=call.name, response={"result": text}) for call, text in ran]
        return [self.types.Content(role="user", parts=parts)]


class BedrockConversation(ClientConversation):
    package, format = "boto3", BedrockConverseFormat()

    def open_client(self) -> Any:
        return import_module("boto3").client(
            "bedrock-runtime",
            endpoint_url=self.opening.anthropic_url,
            region_name="us-east-1",
            aws_access_key_id=self.opening.api_key,
            aws_secret_access_key="secret",
        )

    def user(self, text: str) -> Any:
        return {"role": "user", "content": [{"text": text}]}

    def send(self, view: list[Any], system: str, tools: Sequence[ScriptedTool]) -> Any:
        specs = [
            {"name": tool.name, "description": tool.description, "inputSchema": {"json": dict(tool.parameters)}}
            for tool in tools
        ]
        offered = {"toolConfig": {"tools": [{"toolSpec": spec} for spec in specs]}} if specs else {}
        return self.client.converse(modelId=self.opening.model, messages=view, system=[{"text": system}], **offered)

    def read(self, response: Any) -> tuple[str, list[Any], list[Asked]]:
        message = response["output"]["message"]
        text = "".join(block.get("text", "") for block in message["content"])
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        return text, [message], [Asked(call["toolUseId"], call["name"], call["input"]) for call in calls]

    def results(self, ran: Sequence[tuple[Asked, str]]) -> list[Any]:
        results = [{"toolUseId": call.id, "content": [{"text": text}]} for call, text in ran]
        return [{"role": "user", "content": [{"toolResult": result} for result in results]}]


CONVERSATIONS = {
    "openai": ChatConversation,
    "responses": ResponsesConversation,
    "anthropic": AnthropicConversation,
    "gemini": GeminiConversation,
    "bedrock": BedrockConversation,
}
"""By API: the loop around its client."""


def has_client(api: str) -> bool:
    """Whether the client of an API is installed."""
    try:
        return find_spec(CONVERSATIONS[api].package) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


class ClientHarness:
    """A loop around the client of an API."""

    has_sync = keeps_history = True
    has_streaming = False

    def __init__(self, api: str) -> None:
        self.name = f"client-{api}"
        self.conversation = CONVERSATIONS[api]
        self.format = self.conversation.format

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[ClientConversation]:
        conversation = self.conversation(opening)
        try:
            yield conversation
        finally:
            conversation.close()
