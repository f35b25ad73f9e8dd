"""The provider that the tests of the Strands adapter talk to, models that talk to it, and its agents."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from anthropic import DefaultAsyncHttpxClient
from httpx import Limits
from strands import Agent, tool
from strands.models import Model
from strands.models.anthropic import AnthropicModel
from strands.models.bedrock import BedrockModel
from strands.models.gemini import GeminiModel
from strands.models.openai import OpenAIModel
from strands.models.openai_responses import OpenAIResponsesModel
from strands.tools import PythonAgentTool
from strands.types.tools import AgentTool

from compaction_hooks.testing import ScriptedTool
from tests.adapters.stage import WINDOW as WINDOW
from tests.adapters.stage import ProviderStage
from tests.conversations import prose
from tests.provider import Answer, Call, LoopbackProvider

_NO_REUSE: Any = Limits(max_keepalive_connections=0)
"""`agent(...)` runs in another event loop each time, where the connections of the one before are of no use."""


class Stage(ProviderStage):
    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        super().__init__(provider, key)
        self._anthropic: list[AnthropicModel] = []

    def _client(self, key: str) -> dict[str, Any]:
        return {"api_key": self.key + key, "base_url": self.provider.openai_url, "max_retries": 0}

    def openai(self, key: str = "", model: str = "scripted", **options: Any) -> Model:
        return OpenAIModel(client_args=self._client(key), model_id=model, **options)

    def responses(self, key: str = "", model: str = "scripted", **options: Any) -> Model:
        return OpenAIResponsesModel(client_args=self._client(key), model_id=model, **options)

    def anthropic(self, key: str = "", model: str = "scripted", **options: Any) -> Model:
        client = {
            **self._client(key),
            "base_url": self.provider.anthropic_url,
            "http_client": DefaultAsyncHttpxClient(limits=_NO_REUSE),
        }
        made = AnthropicModel(client_args=client, **{"model_id": model, "max_tokens": 1_000, **options})
        self._anthropic.append(made)
        return made

    def bedrock(self, key: str = "", model: str = "scripted", **options: Any) -> Model:
        made = BedrockModel(region_name="us-east-1", model_id=model, **options)
        made.client = self.bedrock_client()
        return made

    def google(self, key: str = "", model: str = "scripted", **options: Any) -> Model:
        return GeminiModel(client=self.google_client(), model_id=model, **options)

    async def close(self) -> None:
        await super().close()
        for model in self._anthropic:
            await model.client.close()


def tools_for(tools: Sequence[ScriptedTool]) -> list[AgentTool]:
    def runner(tool: ScriptedTool) -> Callable[..., Any]:
        def run(tool_use: Any, **_: Any) -> Any:
            text = tool.run(tool_use["input"])
            return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": text}]}

        return run

    def spec(tool: ScriptedTool) -> Any:
        parameters = {"json": dict(tool.parameters)}
        return {"name": tool.name, "description": tool.description, "inputSchema": parameters}

    return [PythonAgentTool(tool.name, spec(tool), runner(tool)) for tool in tools]


def agent_with(model: Model, manager: Any, **options: Any) -> Agent:
    return Agent(model=model, conversation_manager=manager, callback_handler=None, **options)


async def chunks_of(agent: Agent, prompt: Any) -> AsyncIterator[str]:
    """Yield the pieces of text that a user sees."""
    async for event in agent.stream_async(prompt):
        if "data" in event:
            yield event["data"]


def spoken(turns: int, tokens: int = 500) -> list[Any]:
    """So many turns of plain talk: nothing but a summary can shorten it."""
    said = [(f"Question {turn}. {prose(tokens)}", f"Answer {turn}. {prose(tokens)}") for turn in range(turns)]
    roles = ("user", "assistant")
    return [
        {"role": role, "content": [{"text": text}]} for turn in said for role, text in zip(roles, turn, strict=True)
    ]


@tool
def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: Where it is.
    """
    return f"# {path}\n{prose(800)}"


def steps(count: int) -> list[Answer]:
    """The model asks for one file after the other, then says that it is done."""
    return [
        *(Answer(calls=(Call("read_file", {"path": f"src/{number}.py"}),)) for number in range(count)),
        Answer("All read."),
    ]
