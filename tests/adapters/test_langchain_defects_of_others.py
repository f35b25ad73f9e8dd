"""The second part of the observed defects: those of context editing, deep agents, langmem, `trim_messages` and hooks.

See test_langchain_defects.py.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

pytest.importorskip("langchain_openai")

from compaction_adapters.langchain.records import CHANNEL
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage

from compaction_hooks import CompactionSettings, SummaryRequest
from tests.adapters import langchain_core_stage
from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    file_tool,
    reads,
    records_in,
    spoken,
    texts,
    thread,
    tool_steps,
)
from tests.adapters.langchain_stage import (
    QUESTION,
    Answering,
    agent_of,
    ask,
    assert_no_orphans,
    calls_of,
    result_of,
    tokens_of,
    view_of,
)
from tests.provider import WORDINGS, Rejection

provider = langchain_core_stage.provider
stage = langchain_core_stage.stage

UNAVAILABLE = Rejection(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})
NO_CLEARING = CompactionSettings(clear_tool_results=False)


# -- ContextEditing


def test_20_cleared_results_stay_cleared_and_the_prefix_stays_the_same(stage: Stage) -> None:
    """Each turn cleared one more result and changed the prefix again; nothing was kept, and text alone was never shortened."""
    side = stage.side(*[reads(f"src/{step}.py") for step in range(24)])
    summarizer = CountingSummarizer()
    agent = agent_of(stage, tools=[file_tool(150)], summarizer=summarizer)
    agent.invoke({"messages": [HumanMessage("Read all files.")]}, thread())
    sent = [request.messages for request in side.model_requests]
    moves = [now[: len(before)] != before for before, now in itertools.pairwise(sent)]
    records = records_in(agent, channel=CHANNEL)
    assert 1 <= sum(moves) <= 8
    assert sum(moves) == len(records)
    assert any(record["reductions"] for record in records)
    assert SECRET in texts(view_of(stage, [*spoken(30), ask()]))


# -- deep agents


def test_21_messages_that_the_application_deletes_do_not_hide_the_question(stage: Stage) -> None:
    """After six summarised messages were deleted, the request was the summary alone."""
    side = stage.side()
    agent = agent_of(stage)
    agent.invoke({"messages": [*spoken(30), ask()]}, thread())
    old = agent.get_state(thread()).values["messages"][:6]
    agent.update_state(thread(), {"messages": [RemoveMessage(id=message.id) for message in old]})
    result = agent.invoke({"messages": [HumanMessage("And the other one?")]}, thread())
    assert result["messages"][-1].text == "Done."
    assert all(request.messages[-1]["content"] == "And the other one?" for request in side.model_requests[1:])
    assert SECRET in texts(side.model_requests[-1].messages)


async def test_22_a_cancelled_or_failed_call_leaves_nothing_behind(stage: Stage) -> None:
    """There were three files with the same messages, one of them in use, and each attempt paid for a summary."""
    side, begun, forever = stage.side(UNAVAILABLE, UNAVAILABLE), asyncio.Event(), asyncio.Event()
    asked: list[SummaryRequest] = []

    async def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        if len(asked) == 1:
            begun.set()
            await forever.wait()
        return f"## Goal\n- {SECRET}"

    agent = agent_of(stage, summarizer=summarize)
    run = asyncio.create_task(agent.ainvoke({"messages": [*spoken(30), ask()]}, thread()))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    state = await agent.aget_state(thread())
    assert (len(state.values["messages"]), records_in(agent, channel=CHANNEL)) == (61, [])
    for _ in range(2):
        with pytest.raises(Exception, match="overloaded"):
            await agent.ainvoke(None, thread())
    await agent.ainvoke(None, thread())
    assert len(asked) == 2  # the cancelled one, and one for all that followed
    assert len(side.model_requests) == 3
    assert len(records_in(agent, channel=CHANNEL)) == 1


@pytest.mark.parametrize("wording", sorted(set(WORDINGS) - {"cerebras"}))
def test_23_every_wording_of_an_overflow_is_recovered(stage: Stage, wording: str) -> None:
    """Seven of ten were not recognised. One without any body is recognised of Cerebras only, which this endpoint is not."""
    side = stage.side(wording=wording)
    side.reject_next = 1
    agent_of(stage).invoke({"messages": [*spoken(4), ask()]}, thread())
    assert [request.status >= 400 for request in side.model_requests] == [True, False]


def test_23_a_summariser_that_is_the_rejected_model_without_a_profile_does_not_end_the_turn(stage: Stage) -> None:
    """It overflowed twice: as the agent, and as the summariser of the same history."""
    side = stage.side()
    agent_of(stage, window=None).invoke({"messages": [*spoken(60), ask()]}, thread())
    assert [request.status for request in side.model_requests] == [400, 200]


# -- langmem


@pytest.mark.parametrize("keep", [200, 2_000])
def test_24_the_users_request_and_what_was_just_said_are_in_every_view(stage: Stage, keep: int) -> None:
    """A tool loop was sent as one system message; a human message between parallel calls was in neither part."""
    loop = [*tool_steps(12), HumanMessage("And quickly."), calls_of("A", "B"), result_of("A"), result_of("B")]
    view = view_of(stage, loop, keep=("tokens", keep), settings=NO_CLEARING)
    assert "And quickly." in [message.text for message in view]
    assert view[-1].type == "tool"
    assert_no_orphans(view)


@pytest.mark.parametrize("change", ["deleted", "edited"])
def test_25_an_edited_history_goes_on(stage: Stage, change: str) -> None:
    """Deleting the last summarised message was a ValueError in every turn from then on."""
    side = stage.side()
    agent = agent_of(stage, summarizer=CountingSummarizer())
    agent.invoke({"messages": [*spoken(30), ask()]}, thread())
    message = agent.get_state(thread()).values["messages"][40]
    changed: Any = RemoveMessage(id=message.id) if change == "deleted" else HumanMessage("Never mind.", id=message.id)
    agent.update_state(thread(), {"messages": [changed]})
    for _ in range(2):
        assert agent.invoke({"messages": [ask()]}, thread())["messages"][-1].text == "Done."
    assert all(request.messages[-1]["content"] == QUESTION for request in side.requests)


def test_25_a_list_content_is_text_and_a_large_system_message_does_not_prevent_a_summary(stage: Stage) -> None:
    """The prompt held Python's notation of a list; a large system message disabled summaries; 500 tokens became 3,000."""
    blocks = HumanMessage([{"type": "text", "text": "The ledger is in\nthe cellar."}])
    summarizer = CountingSummarizer()
    rules = SystemMessage("Be careful. " * 1_500)
    view = view_of(stage, [rules, blocks, *spoken(12), ask()], summarizer=summarizer)
    assert "The ledger is in\nthe cellar." in summarizer.asked[0].prompt
    assert "'type': 'text'" not in summarizer.asked[0].prompt
    assert view[0] == rules
    assert tokens_of(view) < WINDOW


# -- trim_messages and hooks


def test_26_a_tool_loop_is_never_trimmed_to_nothing_or_to_orphans_and_the_second_question_arrives(stage: Stage) -> None:
    """The list was empty, or began with a result; and a view from the first call was sent again in the second."""
    answering = Answering()
    agent = agent_of(stage, answering, summarizer=CountingSummarizer(), settings=NO_CLEARING)
    agent.invoke({"messages": tool_steps(20)}, thread())
    agent.invoke({"messages": [AIMessage("Read."), HumanMessage("And the second question?")]}, thread())
    first, second = answering.views
    assert len(first) > 1
    for view in (first, second):
        assert_no_orphans(view)
    assert second[-1].text == "And the second question?"
