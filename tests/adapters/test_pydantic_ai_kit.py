"""Pydantic AI: the checks of every adapter, methods by hand, the recall tool, and what is refused."""

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.pydantic_ai import Compaction, PydanticAIFormat
from openai import AsyncOpenAI
from pydantic_ai import Agent, AgentRunResult, DeferredToolRequests, DeferredToolResults, RunContext, Tool, UsageLimits
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelRequest,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDenied

from compaction_hooks import ConfigurationError
from compaction_hooks.events import CompactionEvent
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, ScriptedTool, check_adapter, check_session
from tests.adapters import compact_scene
from tests.adapters.by_hand_rows import ID, Process, check_rows
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.pydantic_ai_messages import SECRET, CountingSummarizer, reader, spoken, steps, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage, own_event_loop
from tests.adapters.recall_scene import KNOWN, NOTICE, REQUEST, UNKNOWN, Reader, check_recall, read_page
from tests.adapters.stage import DENIED, PATTERNS, check_denied_call, recorded_script
from tests.cases import crossed
from tests.conversations import prose
from tests.data import needs_data
from tests.host_facts import by_host_facts
from tests.provider import Answer, Call, LoopbackProvider


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


@by_host_facts(kind=["openai", "anthropic"])
def test_the_host_has_its_say(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, kind, persist=False), provider, fact)


@needs_data
@pytest.mark.full
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(AgentHarness(provider, "openai", persist=False), provider, recorded_script(pattern))


@pytest.mark.parametrize("how", [pytest.param("sync", marks=pytest.mark.full), "async"])
async def test_rows_of_a_capability(stage: Stage, tmp_path: Path, how: str) -> None:
    side, history = stage.side(Answer("Yes.")), spoken(5)
    said: list[ModelMessage] = []

    def new_process(**keywords: Any) -> Process:
        compaction = Compaction[None](context_window=WINDOW, **keywords)
        agent = Agent(stage.openai(), capabilities=[compaction])
        options: dict[str, Any] = {"message_history": history, "conversation_id": ID}

        async def run() -> None:
            said[:] = (await agent.run("Go on.", **options)).all_messages()

        def run_sync() -> None:
            said[:] = agent.run_sync("Go on.", **options).all_messages()

        return Process(compaction, Twin(run_sync, run), lambda: said, (ID,))

    await check_rows(how, tmp_path, side, new_process, history[0], own_event_loop)


@pytest.mark.parametrize("by", ["position", "name"])
async def test_with_an_id_a_compaction_by_hand_has_the_result_of_all_adapters(by: str) -> None:
    asked, history = CountingSummarizer(), spoken(12)
    compaction = Compaction[None](context_window=WINDOW, summarizer=asked)
    if by == "name":
        result = await compaction.compact(history, conversation_id=ID, keep_recent_tokens=500, focus="the ledger")
    else:
        result = await compaction.compact(history, ID, 500, "the ledger")
    assert result.record is not None
    assert result.messages == await compaction.session(ID).transform_context(history)
    assert [request.focus for request in asked.asked] == ["the ledger"]
    again = Compaction[None](context_window=WINDOW, summarizer=asked).with_focus("the door")
    await asyncio.to_thread(again.compact_sync, history, ID)
    assert asked.asked[-1].focus == "the door"


async def test_after_run_sync_a_sync_compaction_uses_the_clients_of_its_loop(stage: Stage) -> None:
    """A client keeps its connections, which belong to the loop of `run_sync`."""
    side, events = stage.side(*steps(6)), list[CompactionEvent]()

    def program() -> None:
        client = AsyncOpenAI(base_url=stage.provider.openai_url, api_key=stage.key, max_retries=0)
        model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
        compaction = Compaction[None](context_window=WINDOW, on_event=events.append)
        with own_event_loop():
            run = reader(model, compaction).run_sync("Read six files.", conversation_id=ID)
            kept = compaction.compact_sync(run.all_messages())
            asyncio.get_event_loop().run_until_complete(client.close())
        assert SECRET in texts(kept)

    await asyncio.to_thread(program)
    assert [request.is_summary for request in side.requests] == [False] * 7 + [True]
    assert [type(event).__name__ for event in events] == ["CompactionStarted", "CompactionFinished"]


async def test_in_a_running_loop_the_async_method_is_named() -> None:
    compaction = Compaction[None](context_window=WINDOW)
    with pytest.raises(ConfigurationError, match="await the method of the same name without _sync"):
        compaction.compact_sync(spoken(2))
    assert compaction.undo_sync(ID) is None  # it asks no model


@pytest.mark.parametrize(
    ("api", "is_streamed", "recall", "argument"),
    [
        pytest.param("openai", False, True, "query", marks=pytest.mark.full),
        ("anthropic", True, True, "handle"),
        ("openai", True, False, "query"),
    ],
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, api: str, is_streamed: bool, recall: bool, argument: str
) -> None:
    compaction = Compaction[None](context_window=WINDOW, recall=recall, notice=NOTICE)
    agent = Agent(getattr(stage, api)(), capabilities=[compaction], tools=[read_page])

    async def ask() -> str:
        if not is_streamed:
            return (await agent.run(REQUEST)).output
        async with agent.run_stream(REQUEST) as stream:
            return await stream.get_output()

    await check_recall(stage.side(), ask, recall, argument)


async def test_a_model_asks_for_a_compaction(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    compaction = Compaction[None](context_window=WINDOW, compact=True, on_event=events.append)
    agent = Agent(stage.openai(), capabilities=[compaction], tools=[read_leaf])

    async def ask() -> str:
        return (await agent.run(compact_scene.REQUEST)).output

    await check_compact(stage.side(), ask, events)


async def test_the_next_run_recalls_from_the_run_before(stage: Stage) -> None:
    side = stage.side()
    compaction = Compaction[None](context_window=WINDOW, recall=True)
    agent = Agent(stage.openai(), capabilities=[compaction], tools=[read_page])
    side.think = reader = Reader()
    reader.recalled = True  # it does not ask yet
    first = await agent.run("Read all pages.")
    reader.recalled = False
    again = await agent.run("Which code opens the vault?", message_history=first.all_messages())
    assert (first.output, again.output) == (UNKNOWN, KNOWN)


async def test_a_durable_run_recalls_in_its_workflow(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of a workflow engine does not have the run's messages, so the tool is no activity of its own."""
    monkeypatch.setattr(RunContext, "in_durable_context", True)
    compaction = Compaction[None](context_window=WINDOW, recall=True, notice=NOTICE)
    agent = Agent(stage.openai(), capabilities=[compaction], tools=[read_page])

    async def ask() -> str:
        return (await agent.run(REQUEST)).output

    await check_recall(stage.side(), ask)
    toolset = compaction.get_toolset()
    assert toolset is not None
    tool = toolset.tools["recall"]
    assert inspect.iscoroutinefunction(tool.function)  # engines refuse other tools in a workflow
    assert tool.metadata == {"temporal": False, "prefect": False}


async def test_the_old_agents_of_workflow_engines_refuse_recall(stage: Stage) -> None:
    """They put the agent's own toolsets in place of those of the run."""
    stage.side().think = Reader()
    agent = Agent(stage.openai(), capabilities=[Compaction[None](context_window=WINDOW, recall=True)])
    with agent.override(toolsets=agent.toolsets), pytest.raises(RuntimeError, match="not registered in this run"):
        await agent.run(REQUEST)


def test_recall_excludes_persist() -> None:
    with pytest.raises(ConfigurationError, match="exclude one another"):
        Compaction[None](context_window=WINDOW, recall=True, persist=True)


async def test_the_words_of_a_denied_call_are_its_results(stage: Stage) -> None:
    agent = Agent(stage.openai(), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def push(branch: str) -> str:
        raise AssertionError(branch)

    for denied in (ToolDenied(DENIED), ToolDenied()):
        stage.side().answers.extend([Answer(calls=(Call("push", {"branch": "main"}),)), Answer(prose(400))])
        asked = await agent.run("Publish the branch.")
        assert isinstance(asked.output, DeferredToolRequests)
        (call,) = asked.output.approvals
        results = DeferredToolResults(approvals={call.tool_call_id: denied})
        ended = await agent.run(message_history=asked.all_messages(), deferred_tool_results=results)

        messages = [*ended.all_messages(), ModelRequest.user_text_prompt("Well?")]
        check_denied_call(messages, PydanticAIFormat(), denied.message)
