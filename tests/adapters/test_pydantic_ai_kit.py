"""The pydantic-ai adapter has every fact of the adapter kit, with the models of OpenAI and of Anthropic."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from compaction_adapters.pydantic_ai import Compaction, PydanticAIFormat
from pydantic_ai import Agent, AgentRunResult, RunContext, Tool, UsageLimits
from pydantic_ai.messages import AgentStreamEvent, ModelMessage, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, ScriptedTool, check_adapter, check_session
from tests.adapters.pydantic_ai_stage import Stage, own_event_loop
from tests.adapters.recorded_sessions import PATTERNS, recorded_script
from tests.cases import crossed
from tests.data import needs_data
from tests.provider import LoopbackProvider


class AgentConversation:
    """The runs of one conversation, each with the messages of the one before."""

    def __init__(self, agent: Agent[None, str], opening: Opening) -> None:
        self.agent = agent
        self.session_id = opening.conversation_id
        self.messages: list[ModelMessage] = []

    def _options(self) -> dict[str, Any]:
        limits = UsageLimits(request_limit=None)  # a recorded session has more requests than the default allows
        return {"message_history": self.messages, "conversation_id": self.session_id, "usage_limits": limits}

    def _keep(self, result: AgentRunResult[str]) -> str:
        self.messages = result.all_messages()
        return result.output

    async def say(self, text: str, /) -> str:
        return self._keep(await self.agent.run(text, **self._options()))

    def say_sync(self, text: str, /) -> str:
        with own_event_loop():
            return self._keep(self.agent.run_sync(text, **self._options()))

    async def say_streamed(self, text: str, /) -> list[str]:
        # `run_stream` would take the words next to the first call for the final ones.
        chunks: list[str] = []

        async def collect(_: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    chunks.append(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    chunks.append(event.delta.content_delta)

        self._keep(await self.agent.run(text, event_stream_handler=collect, **self._options()))
        return chunks

    async def history(self) -> list[ModelMessage]:
        return self.messages


class AgentHarness:
    format = PydanticAIFormat()
    has_sync = has_streaming = True

    def __init__(self, provider: LoopbackProvider, kind: str, *, persist: bool) -> None:
        self.name = f"pydantic_ai-{kind}"
        self.provider = provider
        self.kind = kind
        self.keeps_history = not persist

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[AgentConversation]:
        stage = Stage(self.provider, opening.api_key)
        model = getattr(stage, self.kind)(model=opening.model)
        controller: Any = opening.controller
        capabilities = [Compaction[Any](controller, persist=not self.keeps_history)] if controller else []
        agent: Agent[None, str] = Agent(
            model, system_prompt=opening.system, tools=_tools(opening.tools), capabilities=capabilities
        )
        try:
            yield AgentConversation(agent, opening)
        finally:
            await stage.close()


def _tools(tools: Sequence[ScriptedTool]) -> list[Tool[None]]:
    def run(tool: ScriptedTool) -> Any:
        return lambda **arguments: tool.run(arguments)

    return [Tool.from_schema(run(tool), tool.name, tool.description, dict(tool.parameters)) for tool in tools]


@crossed(fact=ADAPTER_FACTS, persist=[False, True], kind=["openai", "anthropic"])
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, persist: bool, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, kind, persist=persist), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(AgentHarness(provider, "openai", persist=False), provider, recorded_script(pattern))
