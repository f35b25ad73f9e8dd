"""Agent Framework: the checks of every adapter, methods by hand, and the recall tool."""

from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent, Message
from compaction_adapters.agent_framework import CompactionMiddleware
from compaction_adapters.kit import Twin

from compaction_hooks import CompactionEvent, ConfigurationError
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, check_adapter, check_session
from tests.adapters import compact_scene
from tests.adapters.agent_framework_stage import APIS, LOCAL, WINDOW, AgentHarness, Stage, run_streamed, spoken, stored
from tests.adapters.by_hand_rows import ID, Process, check_rows
from tests.adapters.compact_scene import check_compact, read_leaf
from tests.adapters.recall_scene import KNOWN, NOTICE, REQUEST, UNKNOWN, Reader, check_recall, read_page
from tests.adapters.stage import PATTERNS, recorded_script
from tests.cases import crossed, sampled, sampled_rows
from tests.data import needs_data
from tests.host_facts import by_host_facts
from tests.provider import Answer, LoopbackProvider

WAYS = ["session", "per-call", "list", "client"]


@crossed(fact=[fact for fact in ADAPTER_FACTS if fact.needs != "sync"], way=WAYS, api=APIS)
def test_the_adapter_has_every_fact(fact: AdapterFact, api: str, way: str, provider: LoopbackProvider) -> None:
    if (fact.name, way) == ("cancellation", "per-call"):
        pytest.skip("the framework stores a call without its result: see the test of a cancelled run")
    check_adapter(AgentHarness(provider, api, way), provider, fact)


@by_host_facts(api=APIS)
def test_the_host_has_its_say(fact: AdapterFact, api: str, provider: LoopbackProvider) -> None:
    check_adapter(AgentHarness(provider, api, "session"), provider, fact)


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("way", ["session", "per-call"])
def test_a_recorded_session_runs_to_its_end(pattern: str, way: str, provider: LoopbackProvider) -> None:
    check_session(AgentHarness(provider, "openai", way), provider, recorded_script(pattern))


@pytest.mark.parametrize("api", sampled(["openai", "responses"], 1))
async def test_rows_of_a_middleware(stage: Stage, tmp_path: Path, api: str) -> None:
    side, history = stage.side(Answer("Yes.")), spoken(5)
    said: list[Message] = []

    def new_process(**keywords: Any) -> Process:
        middleware = CompactionMiddleware(context_window=WINDOW, **keywords)
        agent = stage.agent(api, middleware)

        async def run() -> None:
            session = agent.create_session(session_id=ID)
            session.state["in_memory"] = {"messages": list(history)}
            await agent.run("Go on.", session=session)
            said[:] = stored(session)

        return Process(middleware, Twin(_refuse, run), lambda: said, (ID,))

    await check_rows("async", tmp_path, side, new_process, history[0])


def _refuse() -> None:
    raise AssertionError("the framework has no sync form")


async def test_without_an_id_the_cure_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r'forget\("thread-1"\)'):
        await CompactionMiddleware(context_window=WINDOW).forget()


@pytest.mark.parametrize(
    ("api", "way", "is_streamed", "recall", "argument"),
    sampled_rows(
        [
            ("openai", "client", False, True, "query"),
            ("openai", "agent", True, True, "query"),
            ("responses", "per-call", True, True, "handle"),
            ("openai", "agent", False, False, "query"),
        ],
        2,
    ),
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, api: str, way: str, is_streamed: bool, recall: bool, argument: str
) -> None:
    middleware = CompactionMiddleware(context_window=WINDOW, recall=recall, notice=NOTICE)
    on_client: dict[str, Any] = {"middleware": [middleware]} if way == "client" else {}
    client = stage.client(api, **on_client)
    agent = Agent(
        client=client,
        tools=[read_page],
        middleware=[] if on_client else [middleware],
        default_options=dict(LOCAL),
        require_per_service_call_history_persistence=way == "per-call",
    )

    async def ask() -> object:
        session = agent.create_session()
        if is_streamed:
            return (await run_streamed(agent, REQUEST, session))[0].messages[-1].text
        return (await agent.run(REQUEST, session=session)).messages[-1].text

    await check_recall(stage.side(), ask, recall, argument)
    assert [tool.name for tool in agent.default_options["tools"]] == ["read_page"]


async def test_a_model_asks_for_a_compaction(stage: Stage) -> None:
    events: list[CompactionEvent] = []
    middleware = CompactionMiddleware(context_window=WINDOW, compact=True, on_event=events.append)
    agent = stage.agent("openai", middleware, tools=[read_leaf])

    async def ask() -> object:
        return (await agent.run(compact_scene.REQUEST, session=agent.create_session())).messages[-1].text

    await check_compact(stage.side(), ask, events)


async def test_the_next_run_recalls_from_the_run_before(stage: Stage) -> None:
    side = stage.side()
    agent = stage.agent("openai", CompactionMiddleware(context_window=WINDOW, recall=True), tools=[read_page])
    session = agent.create_session()
    side.think = reader = Reader()
    reader.recalled = True  # it does not ask yet
    first = await agent.run("Read all pages.", session=session)
    reader.recalled = False
    again = await agent.run("Which code opens the vault?", session=session)
    assert (first.messages[-1].text, again.messages[-1].text) == (UNKNOWN, KNOWN)
