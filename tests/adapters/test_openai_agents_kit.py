"""The OpenAI Agents SDK: the checks of every adapter, methods by hand and the recall tool."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession, function_tool
from compaction_adapters.kit import Twin
from compaction_adapters.openai_agents import CompactionModelProvider

from compaction_hooks import CompactionEvent
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import OpenAIResponsesFormat
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters import compact_scene
from tests.adapters.by_hand_rows import ID, Process, check_rows
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.openai_agents_stage import Stage, function_tools
from tests.adapters.recall_scene import NOTICE, REQUEST, check_recall, read_page
from tests.adapters.stage import PATTERNS, WINDOW, own_event_loop, recorded_script
from tests.cases import crossed, sampled_rows
from tests.data import needs_data
from tests.host_facts import by_host_facts
from tests.provider import Answer, LoopbackProvider

MOST_TURNS = 200


class Conversation:
    """The runs of one session of the SDK."""

    def __init__(self, opening: Opening, model: Any) -> None:
        self.session_id = opening.conversation_id
        self.session = SQLiteSession(opening.conversation_id)
        provider = CompactionModelProvider(opening.controller) if opening.controller else None
        self.options: dict[str, Any] = {"session": self.session, "max_turns": MOST_TURNS}
        if provider is not None:
            self.options["run_config"] = provider.run_config(self.session)
        self.agent = Agent(
            "reader",
            instructions=opening.system,
            model=provider.wrap(model) if provider else model,
            tools=function_tools(opening.tools),
        )

    async def say(self, text: str, /) -> str:
        return str((await Runner.run(self.agent, text, **self.options)).final_output)

    def say_sync(self, text: str, /) -> str:
        with own_event_loop():
            return str(Runner.run_sync(self.agent, text, **self.options).final_output)

    async def say_streamed(self, text: str, /) -> list[str]:
        run = Runner.run_streamed(self.agent, text, **self.options)
        events = [event.data async for event in run.stream_events() if event.type == "raw_response_event"]
        return [event.delta for event in events if event.type == "response.output_text.delta"]

    async def history(self) -> list[Any]:
        return await self.session.get_items()


class Harness:
    format = OpenAIResponsesFormat()
    has_sync = has_streaming = keeps_history = True

    def __init__(self, provider: LoopbackProvider, kind: str) -> None:
        self.name = f"openai_agents-{kind}"
        self.provider = provider
        self.kind = kind

    @asynccontextmanager
    async def open(self, opening: Opening, /) -> AsyncIterator[Conversation]:
        stage = Stage(self.provider, opening.api_key)
        conversation = Conversation(opening, getattr(stage, self.kind)(model=opening.model))
        try:
            yield conversation
        finally:
            conversation.session.close()
            await stage.close()


@crossed(fact=ADAPTER_FACTS, kind=["responses", "chat"])
def test_the_adapter_has_every_fact(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(Harness(provider, kind), provider, fact)


@by_host_facts(kind=["responses", "chat"])
def test_the_host_has_its_say(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(Harness(provider, kind), provider, fact)


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(Harness(provider, "responses"), provider, recorded_script(pattern))


# After `run_sync` the event loop warns of each generator that is begun in it, also of the SDK's own next run.
@pytest.mark.filterwarnings("ignore:asynchronous generator:ResourceWarning")
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_rows_of_a_provider(stage: Stage, tmp_path: Path, how: str) -> None:
    side = stage.side(Answer("Yes."))
    history: list[Any] = [
        {"role": role, "content": f"{text} {number}. " + "And so on. " * 300}
        for number in range(5)
        for role, text in (("user", "Question"), ("assistant", "Answer"))
    ]

    def new_process(**keywords: Any) -> Process:
        provider = CompactionModelProvider(context_window=WINDOW, **keywords)
        agent = Agent("reader", model=provider.wrap(stage.responses()))
        asked, config = [*history, {"role": "user", "content": "Go on."}], provider.run_config(ID)

        async def run() -> None:
            await Runner.run(agent, asked, run_config=config)

        return Process(
            provider, Twin(lambda: Runner.run_sync(agent, asked, run_config=config), run), lambda: history, (ID,)
        )

    await check_rows(how, tmp_path, side, new_process, history[0], own_event_loop)


@pytest.mark.parametrize(
    ("way", "recall", "argument"),
    sampled_rows([("run", True, "query"), ("streamed", True, "handle"), ("run", False, "query")], 2),
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, way: str, recall: bool, argument: str
) -> None:
    provider = CompactionModelProvider(context_window=WINDOW, notice=NOTICE)
    tools: list[Any] = [function_tool(read_page), *([provider.recall_tool()] if recall else [])]
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=tools)
    options: dict[str, Any] = {"run_config": provider.run_config(), "max_turns": MOST_TURNS}

    async def ask() -> str:
        if way == "run":
            return str((await Runner.run(agent, REQUEST, **options)).final_output)
        run = Runner.run_streamed(agent, REQUEST, **options)
        _ = [event async for event in run.stream_events()]
        return str(run.final_output)

    await check_recall(stage.side(), ask, recall, argument)


async def test_a_model_asks_for_a_compaction(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    provider = CompactionModelProvider(context_window=WINDOW, on_event=events.append)
    tools: list[Any] = [function_tool(read_leaf), provider.compact_tool()]
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=tools)

    async def ask() -> str:
        run = await Runner.run(agent, compact_scene.REQUEST, run_config=provider.run_config(), max_turns=MOST_TURNS)
        return str(run.final_output)

    await check_compact(stage.side(), ask, events)


async def test_a_run_that_tells_no_conversation_cannot_recall(stage: Stage) -> None:
    """The tool would read the list of the run before."""
    stage.side(Answer("Yes."))
    provider = CompactionModelProvider(context_window=WINDOW)
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=[provider.recall_tool()])
    await Runner.run(agent, "Begin.", run_config=provider.run_config("thread"))
    with pytest.raises(ConfigurationError, match=r"run_config=provider.run_config\(session\)"):
        await Runner.run(agent, "Go on.")
