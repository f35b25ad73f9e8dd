"""The provider that the tests of the Google ADK adapter talk to, models that talk to it, and apps with one session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import BaseLlm, Gemini
from google.adk.models.anthropic_llm import AnthropicLlm
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import Workflow
from google.genai import Client, types
from httpx import Limits

from compaction_hooks.testing import ScriptedTool
from tests.adapters.stage import WINDOW as WINDOW
from tests.adapters.stage import ProviderStage
from tests.provider import LoopbackProvider

APP, USER, SESSION, AGENT = "app", "user", "session", "agent"
QUIET = pytest.mark.filterwarnings(
    "ignore:.EXPERIMENTAL.:UserWarning",
    "ignore:The `plugins` argument is deprecated:DeprecationWarning",
    "ignore:ParallelAgent is deprecated:DeprecationWarning",
)
"""ADK warns of its own uses of what it has deprecated."""
_NO_REUSE: Any = Limits(max_keepalive_connections=0)
"""`Runner.run` has an event loop of its own each time, where the connections of the one before are of no use."""


class Stage(ProviderStage):
    def __init__(self, provider: LoopbackProvider, key: str) -> None:
        super().__init__(provider, key)
        self._clients: list[AsyncAnthropic] = []

    def gemini(self, key: str = "", model: str = "scripted", **options: Any) -> Gemini:
        http: Any = {"base_url": self.provider.anthropic_url, "async_client_args": {"limits": _NO_REUSE}}
        client = Client(api_key=self.key + key, http_options=http)
        self._genai.append(client)
        return Gemini(model=model, client=client, **options)

    def anthropic(self, key: str = "", model: str = "scripted", **options: Any) -> AnthropicLlm:
        url, http = self.provider.anthropic_url, DefaultAsyncHttpxClient(limits=_NO_REUSE)
        client = AsyncAnthropic(base_url=url, api_key=self.key + key, max_retries=0, http_client=http)
        self._clients.append(client)
        return AnthropicLlm(model=model, client=client, **{"max_tokens": 1_000, **options})

    def litellm(self, key: str = "", model: str = "scripted") -> BaseLlm:
        from google.adk.models.lite_llm import LiteLlm

        connection = {"api_base": self.provider.openai_url, "api_key": self.key + key}
        return LiteLlm(model=f"openai/{model}", max_retries=0, **connection)

    async def close(self) -> None:
        await super().close()
        for client in self._clients:
            await client.close()


class Hosted:
    """One session of an app."""

    def __init__(
        self,
        agent: BaseAgent | Workflow,
        *plugins: BasePlugin,
        session_id: str = SESSION,
        service: InMemorySessionService | None = None,
        **options: Any,
    ) -> None:
        self.service = service or InMemorySessionService()
        app = App(name=APP, root_agent=agent, plugins=[*plugins], **options)
        self.runner = Runner(app=app, session_service=self.service, auto_create_session=True)
        self.place: dict[str, Any] = {"user_id": USER, "session_id": session_id}

    async def events(
        self, said: str | types.Content, *, streamed: bool = False, **options: Any
    ) -> AsyncIterator[Event]:
        """Run the agent on a message, and yield the events of the run."""
        mode: Any = "sse" if streamed else None
        run = self.runner.run_async(
            new_message=content(said), run_config=RunConfig(streaming_mode=mode), **self.place, **options
        )
        async with aclosing(run) as events:
            async for event in events:
                yield event

    async def say(self, said: str | types.Content, *, streamed: bool = False) -> str:
        """Run the agent, and return the text of the last whole event."""
        return last_text([event async for event in self.events(said, streamed=streamed)])

    def say_sync(self, said: str) -> str:
        return last_text(self.runner.run(new_message=content(said), **self.place))

    async def session(self) -> Session:
        session = await self.service.get_session(app_name=APP, **self.place)
        assert session is not None
        return session

    async def contents(self) -> list[types.Content]:
        """Return the contents of all events."""
        return [event.content for event in (await self.session()).events if event.content]


def content(said: str | types.Content) -> types.Content:
    return said if isinstance(said, types.Content) else types.Content(role="user", parts=[types.Part(text=said)])


def text_of(event: Event) -> str:
    parts = (event.content and event.content.parts) or []
    return "".join(part.text for part in parts if part.text)


def last_text(events: Iterable[Event]) -> str:
    return [text_of(event) for event in events if not event.partial][-1]


class GivenTool(BaseTool):
    """A tool with a schema of its own."""

    def __init__(self, tool: ScriptedTool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._tool = tool

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = dict(self._tool.parameters)
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: object) -> str:
        return self._tool.run(args)


def agent(model: BaseLlm | str, tools: Sequence[Any] = (), name: str = AGENT, **options: Any) -> LlmAgent:
    return LlmAgent(name=name, model=model, tools=[*tools], **options)


def id_of(name: str = AGENT, session_id: str = SESSION, branch: str | None = None) -> str:
    """Return the id of an agent's conversation."""
    return "%/".join(filter(None, (APP, USER, session_id, name, branch)))
