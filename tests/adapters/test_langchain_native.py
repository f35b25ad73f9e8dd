"""Agents whose provider compacts on its own side."""

import inspect
from typing import Any

import pytest
from anthropic.resources.beta.messages import Messages
from compaction_adapters.kit import ANTHROPIC_BETA
from compaction_adapters.langchain import CompactionMiddleware, LangChainFormat
from compaction_adapters.langgraph import CompactionNode
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionController
from compaction_hooks.events import CompactionEvent
from tests.adapters import native_run
from tests.adapters.langchain_core_stage import CountingSummarizer, Stage, asked, either_way, run, spoken, thread
from tests.adapters.native_run import KEYWORDS, MODEL, REQUEST, RESULT, NativeSide
from tests.adapters.server_compaction import (
    CLEARS,
    COMPACTS,
    NAMES,
    OPENAI_COMPACTS,
    READABLE,
    SEALED,
    SETTINGS,
    WINDOW,
    check_left_to_server,
    three_requests,
)
from tests.adapters.test_langchain import agent_of
from tests.cases import sampled

OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "context_management": ("anthropic", {"context_management": COMPACTS, "betas": ["compact-2026-01-12"]}),
    "context_management of OpenAI": ("openai", {"context_management": OPENAI_COMPACTS}),
    "use_previous_response_id": ("openai", {"use_previous_response_id": True}),
    "truncation": ("openai", {"truncation": "auto"}),
    "conversation": ("openai", {"extra_body": {"conversation": "conv_1"}, "use_responses_api": True}),
    "conversation in model_kwargs": ("openai", {"model_kwargs": {"conversation": "conv_1"}, "use_responses_api": True}),
}
"""By the option that is named: the client, and the fields of its model."""


def make_agent(model: Any, events: list[CompactionEvent]) -> Any:
    compaction = CompactionMiddleware(
        context_window=WINDOW, settings=SETTINGS, summarizer=CountingSummarizer(), on_event=events.append
    )
    return agent_of(model, compaction, checkpointer=InMemorySaver())


@pytest.mark.parametrize("case", sampled(OPTIONS, 3))
async def test_a_server_that_compacts_is_left_to_do_so(stage: Stage, case: str) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    client, options = OPTIONS[case]
    agent = make_agent(getattr(stage, client)(None, **options), events)
    for number in three_requests(side):
        await run(agent, {"messages": asked(0 if number else 12)}, "async" if number else "sync", thread())
    check_left_to_server(side, events, case.partition(" ")[0])


async def test_a_server_that_only_clears_results_changes_nothing(stage: Stage) -> None:
    side = stage.side(window=200_000)
    make_agent(stage.anthropic(None, context_management=CLEARS, betas=["context-management-2025-06-27"]), []).invoke(
        {"messages": asked(12)}, thread()
    )
    assert len(side.requests[0].messages) < len(spoken(12))


def compacted(block: dict[str, Any]) -> list[BaseMessage]:
    """Return a conversation that the provider has compacted, up to the user's next request."""
    metadata = {"model_name": "gpt-5", "id": "resp_9", "model_provider": "openai"}
    answer = AIMessage([block, {"type": "text", "text": "Going on."}], response_metadata=metadata)
    return [*spoken(4), HumanMessage("Go on."), answer, HumanMessage("And now?")]


@pytest.mark.parametrize("block", [READABLE, {"type": "non_standard", "value": READABLE}], ids=["raw", "non_standard"])
def test_a_readable_summary_is_updated_by_ours(block: dict[str, Any]) -> None:
    session = CompactionController(format=LangChainFormat(), context_window=8_000).session("thread")
    record = session.compact_sync([*compacted(block), *spoken(2)], keep_recent_tokens=500).record
    assert record is not None
    assert [name for name in NAMES if name not in record.rendered] == []


def test_a_signed_summary_in_the_list_is_sent_with_its_header(stage: Stage) -> None:
    side = stage.side(window=200_000)
    model = stage.anthropic(None, betas=["context-1m-2025-08-07"])
    agent_of(model).invoke({"messages": compacted({**READABLE, "signature": "EuYB"})})
    assert side.requests[0].messages[0]["content"][0]["signature"] == "EuYB"
    assert side.requests[0].body["betas"] == ["context-1m-2025-08-07", ANTHROPIC_BETA]


def test_a_model_with_fallbacks_writes_a_text(stage: Stage) -> None:
    side, node = stage.side(), CompactionNode(native=True)
    first = stage.anthropic(model_name=MODEL)
    node.wrap(first.with_fallbacks([stage.openai()])).invoke(asked(30))
    assert {request.is_compaction for request in side.requests if request.is_summary} == {False}


@pytest.mark.parametrize("block", [SEALED, {"type": "non_standard", "value": SEALED}], ids=["raw", "non_standard"])
async def test_a_sealed_summary_is_sent_to_its_model_alone_first_and_word_for_word(
    stage: Stage, block: dict[str, Any]
) -> None:
    own, other, saver = stage.side(window=200_000, key="a"), stage.side(window=200_000, key="b"), InMemorySaver()
    models = stage.openai(None, key="a", model="gpt-5", use_responses_api=True), stage.anthropic(None, key="b")
    for model, messages in zip(models, (compacted(block), asked(0)), strict=True):
        compaction = CompactionMiddleware(context_window=WINDOW, summarizer=CountingSummarizer())
        await agent_of(model, compaction, checkpointer=saver).ainvoke({"messages": messages}, thread())
    (sent,), (elsewhere,) = own.requests, other.requests
    assert sent.messages[0] == SEALED
    assert str(sent.messages).count("gAAAA") == 1
    assert "Going on." in str(sent.messages)
    assert "Question 3." not in str(sent.messages)
    assert "gAAAA" not in str(elsewhere.body)
    assert "Question 3." in str(elsewhere.messages)


@tool
def read(part: int) -> str:
    """Read a part."""
    return RESULT


by_openai = pytest.mark.skipif(
    "context_management" not in ChatOpenAI.model_fields, reason="this version leaves OpenAI's compaction items out"
)
by_anthropic = native_run.by_anthropic("compaction" in inspect.signature(Messages.create).parameters)


class Run:
    """An agent with `native=True` that reads one part after the other; each step is a run of the graph."""

    def __init__(self, stage: Stage, how: str = "async") -> None:
        self.native = NativeSide(stage)
        self.stage, self.how, self.saver = stage, how, InMemorySaver()
        self.compaction = CompactionMiddleware(native=True, on_event=self.native.note, **KEYWORDS)

    async def steps(self, count: int, model: str = MODEL, host: str = "127.0.0.1") -> None:
        url = self.stage.provider.anthropic_url.replace("127.0.0.1", host)
        await self.steps_with(self.stage.anthropic(None, model_name=model, base_url=url), count)

    async def steps_with(self, model: Any, count: int) -> None:
        agent = agent_of(
            model,
            self.compaction,
            tools=[read],
            system_prompt="Be brief.",
            checkpointer=self.saver,
            interrupt_after=["tools"],
        )
        for _ in range(count):
            is_new = not agent.get_state(thread()).values
            given = {"messages": [HumanMessage(REQUEST)]} if is_new else None
            await run(agent, given, self.how, thread())


@by_anthropic
@pytest.mark.parametrize("how", sampled(["streamed", "sync"], 1))
async def test_a_long_run_goes_on_behind_anthropics_block(stage: Stage, how: str) -> None:
    agent = Run(stage, how)
    await native_run.check_long_run(agent.native, agent.steps)


@by_openai
@either_way
async def test_a_long_run_goes_on_behind_openais_item_until_the_key_changes(stage: Stage, how: str) -> None:
    agent = Run(stage, how)
    model = stage.openai(None, model="gpt-5.6-sol", use_responses_api=True)
    await native_run.check_openai(agent.native, lambda count: agent.steps_with(model, count))


@by_anthropic
async def test_a_new_process_goes_on_with_the_block_of_the_checkpoint(stage: Stage) -> None:
    agent = Run(stage)
    await native_run.until_compacted(agent.native, agent.steps)
    agent.compaction = CompactionMiddleware(native=True, **KEYWORDS)
    await agent.steps(1)
    assert agent.native.heads[-1] == agent.native.blocks[-1]
    assert agent.native.side.rejections == []


@by_anthropic
@native_run.around_a_block
async def test_the_text_goes_on_without_the_block(stage: Stage, check: Any) -> None:
    agent = Run(stage)
    await check(agent.native, agent.steps)


@pytest.mark.parametrize("client", ["openai", "an older Claude"])
async def test_a_model_that_does_not_compact_writes_a_text(stage: Stage, client: str) -> None:
    side = stage.side()
    model = stage.openai() if client == "openai" else stage.anthropic(model_name="claude-opus-4-5")
    agent_of(model, CompactionMiddleware(native=True)).invoke({"messages": asked(30)})
    assert {request.is_compaction for request in side.requests if request.is_summary} == {False}
