"""The provider that the tests of the Agent Framework adapter talk to, clients and agents that talk to it, and a harness."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from agent_framework import Agent, AgentSession, FunctionTool, Message
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from compaction_adapters.agent_framework import AgentFrameworkFormat, CompactionMiddleware
from compaction_adapters.kit import opening_key
from openai import AsyncOpenAI

from compaction_hooks.testing import HostConversation, Opening, ScriptedTool
from tests.adapters.stage import WINDOW as WINDOW
from tests.adapters.stage import ProviderStage
from tests.conversations import prose
from tests.provider import LoopbackProvider

HAS_ANTHROPIC = find_spec("agent_framework_anthropic") is not None
APIS = ["openai", "responses", *(["anthropic"] if HAS_ANTHROPIC else [])]
LOCAL: Mapping[str, Any] = {"store": False}
"""The options of an agent whose history the framework keeps: OpenAI's Responses store it by default."""
_UNLIMITED: Any = {"max_iterations": 1_000}


class Stage(ProviderStage):
    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        super().__init__(provider, key)
        self._clients: list[Any] = []

    def client(self, api: str, key: str = "", model: str = "scripted", **options: Any) -> Any:
        return getattr(self, api)(key, model, function_invocation_configuration=_UNLIMITED, **options)

    def openai(self, key: str, model: str, **options: Any) -> OpenAIChatCompletionClient:
        return OpenAIChatCompletionClient(model=model, async_client=self._openai(key), **options)

    def responses(self, key: str, model: str, **options: Any) -> OpenAIChatClient:
        return OpenAIChatClient(model=model, async_client=self._openai(key), **options)

    def anthropic(self, key: str, model: str, **options: Any) -> Any:
        from anthropic import AsyncAnthropic

        package: Any = import_module("agent_framework_anthropic")  # there are pre-releases only

        client = AsyncAnthropic(base_url=self.provider.anthropic_url, api_key=self.key + key, max_retries=0)
        self._clients.append(client)
        return package.AnthropicClient(model=model, anthropic_client=client, **options)

    def agent(self, api: str, *middleware: Any, key: str = "", **options: Any) -> Agent[Any]:
        defaults = {} if api == "anthropic" else {"default_options": dict(LOCAL)}
        return Agent(client=self.client(api, key), middleware=[*middleware], **{**defaults, **options})

    def _openai(self, key: str) -> AsyncOpenAI:
        client = AsyncOpenAI(base_url=self.provider.openai_url, api_key=self.key + key, max_retries=0)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        await super().close()
        for client in self._clients:
            await client.close()


async def run_streamed(agent: Agent[Any], messages: Any, session: AgentSession | None = None) -> tuple[Any, list[str]]:
    """Return the response of a streamed run, and the pieces of text that a user sees."""
    pieces: list[str] = []
    stream: Any = agent.run(messages, session=session, stream=True)
    async for update in stream:
        # Responses tell the whole text once more at its end.
        pieces += [
            one.text
            for one in update.contents
            if one.type == "text" and getattr(one, "merge_mode", None) != "replace" and one.text
        ]
    return await stream.get_final_response(), pieces


def stored(session: AgentSession) -> list[Message]:
    """Return the messages that the framework keeps of a session."""
    return list(session.state.get("in_memory", {}).get("messages", ()))


def spoken(turns: int, tokens: int = 300, first: int = 0) -> list[Message]:
    """Return turns of a user and the assistant, of this many tokens each message."""
    return [
        Message(role, [f"{number}: {prose(tokens)}"])
        for number in range(first, first + turns)
        for role in ("user", "assistant")
    ]


def texts(messages: Sequence[Any]) -> str:
    """Return the messages of a request, or of the framework, as text to search in."""
    return str([message.to_dict() if isinstance(message, Message) else message for message in messages])


class AgentConversation(HostConversation[Message]):
    """The runs of one conversation: with a session, or each with the messages of the one before."""

    def __init__(self, agent: Agent[Any], opening: Opening, has_session: bool) -> None:
        self.agent = agent
        self.session = agent.create_session(session_id=opening.conversation_id) if has_session else None
        self.messages: list[Message] = []

    @property
    def session_id(self) -> str:
        if self.session is not None:
            return self.session.session_id
        return f"opening-{opening_key(AgentFrameworkFormat(), self.messages)}"

    async def say(self, text: str, /) -> str:
        return str(self._keep(text, await self.agent.run(self._asked(text), session=self.session)).text)

    async def say_streamed(self, text: str, /) -> list[str]:
        response, pieces = await run_streamed(self.agent, self._asked(text), self.session)
        self._keep(text, response)
        return pieces

    def _asked(self, text: str) -> list[Message]:
        asked = Message("user", [text])
        if self.session is not None:
            return [asked]
        return [*self.messages, asked]

    def _keep(self, text: str, response: Any) -> Any:
        self.messages += [Message("user", [text]), *response.messages]
        return response.messages[-1]

    async def history(self) -> list[Message]:
        return self.messages if self.session is None else stored(self.session)


class AgentHarness:
    """An agent with a client of an API. Ways: "session"; "per-call", which stores each model call; "list", without a session;
    "client", with the middleware on the client.
    """

    format = AgentFrameworkFormat()
    has_sync = False
    has_streaming = keeps_history = True

    def __init__(self, provider: LoopbackProvider, api: str, way: str, middleware: Any = CompactionMiddleware) -> None:
        self.name = f"agent_framework-{api}-{way}"
        self.provider, self.api, self.way, self.middleware = provider, api, way, middleware

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[AgentConversation]:
        stage = Stage(self.provider, opening.api_key)
        middleware: list[Any] = [] if opening.controller is None else [self.middleware(opening.controller)]
        on_client: dict[str, Any] = {"middleware": middleware} if self.way == "client" else {}
        agent = Agent(
            client=stage.client(self.api, model=opening.model, **on_client),
            instructions=opening.system,
            tools=[function_tool(tool) for tool in opening.tools],
            middleware=[] if on_client else middleware,
            default_options={} if self.api == "anthropic" else dict(LOCAL),
            require_per_service_call_history_persistence=self.way == "per-call",
        )
        try:
            yield AgentConversation(agent, opening, self.way != "list")
        finally:
            await stage.close()


def function_tool(tool: ScriptedTool) -> FunctionTool:
    def run(**arguments: Any) -> str:
        return tool.run(arguments)

    return FunctionTool(name=tool.name, description=tool.description, func=run, input_model=dict(tool.parameters))
