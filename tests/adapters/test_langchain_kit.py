"""LangChain's middleware: the checks of every adapter, methods by hand, the recall tool, and what is refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from compaction_adapters.kit import Twin
from compaction_adapters.langchain import CompactionMiddleware
from compaction_adapters.langchain.middleware import CHANNEL
from compaction_adapters.langchain_core import LangChainFormat
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from compaction_hooks import CompactionEvent
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Opening, check_adapter, check_session
from tests.adapters import by_hand, compact_scene
from tests.adapters.by_hand_rows import Process, check_rows
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.langchain_core_stage import WINDOW, Stage, both_ways, either_way, say, step_by_step, thread
from tests.adapters.langchain_kit_stage import GraphHarness
from tests.adapters.recall_scene import NOTICE, REQUEST, check_recall, read_page
from tests.adapters.stage import DENIED, PATTERNS, check_denied_call, recorded_script
from tests.conversations import prose
from tests.data import needs_data
from tests.host_facts import by_host_facts
from tests.provider import Answer, Call, LoopbackProvider


def agent(model: Any, tools: Sequence[Any], opening: Opening) -> Any:
    middleware = [CompactionMiddleware(opening.controller)] if opening.controller else []
    saver = InMemorySaver()
    return create_agent(model, tools, system_prompt=opening.system, middleware=middleware, checkpointer=saver)


@pytest.mark.parametrize("client", [pytest.param("openai", marks=pytest.mark.full), "anthropic"])
@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_the_adapter_has_every_fact(fact: AdapterFact, client: str, provider: LoopbackProvider) -> None:
    check_adapter(GraphHarness(provider, client, agent), provider, fact)


@by_host_facts(client=["anthropic", "openai"])
def test_the_host_has_its_say(fact: AdapterFact, client: str, provider: LoopbackProvider) -> None:
    check_adapter(GraphHarness(provider, client, agent), provider, fact)


@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(GraphHarness(provider, "anthropic", agent), provider, recorded_script(pattern))


@pytest.mark.parametrize("check", by_hand.CHECKS, ids=lambda check: check.__name__)
async def test_manual_changes_of_a_thread(stage: Stage, check: Any) -> None:
    def process(saver: Any, **keywords: Any) -> tuple[Any, Any]:
        compaction: CompactionMiddleware[Any, Any] = CompactionMiddleware(**keywords)
        return compaction, create_agent(stage.openai(), middleware=[compaction], checkpointer=saver)

    await check(process, by_hand.side_of(stage), "sync", CHANNEL)


@both_ways
async def test_rows_of_a_middleware(stage: Stage, tmp_path: Path, how: str) -> None:
    saver = InMemorySaver()

    def new_process(**keywords: Any) -> Process:
        compaction: CompactionMiddleware[Any, Any] = CompactionMiddleware(**keywords)
        agent: Any = create_agent(stage.openai(), middleware=[compaction], checkpointer=saver)
        run = Twin(agent.invoke, agent.ainvoke, by_hand.LONG_TALK, thread())
        return Process(compaction, run, list, (agent, thread()))

    await check_rows(how, tmp_path, by_hand.side_of(stage), new_process, by_hand.LONG_TALK["messages"][0])


@pytest.mark.parametrize(
    ("api", "how", "saver", "recall", "argument"),
    [
        pytest.param("openai", "sync", None, True, "query", id="run without a thread"),
        pytest.param("openai", "streamed", InMemorySaver(), True, "handle", id="streamed, misnamed argument"),
        pytest.param("anthropic", "async", InMemorySaver(), True, "query", id="async", marks=pytest.mark.full),
        pytest.param("openai", "async", InMemorySaver(), False, "query", id="without the tool"),
    ],
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, api: str, how: str, saver: InMemorySaver | None, recall: bool, argument: str
) -> None:
    middleware = CompactionMiddleware(context_window=WINDOW, recall=recall, notice=NOTICE)
    agent = create_agent(getattr(stage, api)(), [read_page], middleware=[middleware], checkpointer=saver)
    await check_recall(stage.side(), lambda: say(agent, REQUEST, how, thread() if saver else None), recall, argument)


@either_way
async def test_a_model_asks_for_a_compaction(stage: Stage, how: str) -> None:
    events: list[CompactionEvent] = []
    middleware = CompactionMiddleware(context_window=WINDOW, compact=True, on_event=events.append)
    agent = create_agent(stage.openai(), [read_leaf], middleware=[middleware], checkpointer=InMemorySaver())
    await check_compact(stage.side(), lambda: say(agent, compact_scene.REQUEST, how, thread()), events)


@either_way
async def test_a_thread_that_goes_on_in_another_process_recalls(stage: Stage, how: str) -> None:
    """The records come from the checkpoint, also if the tool is the first thing that runs there."""
    model, saver = stage.openai(), InMemorySaver()

    def start() -> Any:
        middleware = [CompactionMiddleware(context_window=WINDOW, recall=True)]
        return create_agent(model, [read_page], middleware=middleware, checkpointer=saver, interrupt_before=["tools"])

    await check_recall(stage.side(), lambda: step_by_step(start, REQUEST, how), is_told=False)


@tool
def push(branch: str) -> str:
    """Push a branch."""
    raise AssertionError(branch)


async def test_the_words_of_a_rejected_call_are_its_results(stage: Stage) -> None:
    side = stage.side()
    side.answers.extend([Answer(calls=(Call("push", {"branch": "main"}),)), Answer(prose(400))])
    human = HumanInTheLoopMiddleware(interrupt_on={"push": True})
    agent = create_agent(stage.openai(), [push], middleware=[human], checkpointer=InMemorySaver())
    given: Any = {"messages": [("user", "Publish the branch.")]}
    await agent.ainvoke(given, thread("rejected"))
    resume: Any = Command(resume={"decisions": [{"type": "reject", "message": DENIED}]})
    messages = (await agent.ainvoke(resume, thread("rejected")))["messages"]
    answer = next(message for message in messages if isinstance(message, ToolMessage))
    if answer.text == DENIED:
        pytest.skip("older versions have no sentence before the words")

    check_denied_call([*messages, HumanMessage("Well?")], LangChainFormat(), f"its result says: {DENIED}")
