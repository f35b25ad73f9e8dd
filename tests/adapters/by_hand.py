"""Compaction, undo and pins by hand on a thread with a checkpointer alone, as another process finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionSettings
from compaction_hooks.errors import ConfigurationError
from tests.adapters.langchain_core_stage import SECRET, CountingSummarizer, Stage, records_in, spoken, texts, thread
from tests.provider import Answer

Process = Callable[[Any], tuple[Any, Any]]
"""Gives an adapter and its graph as a new process makes them, around a checkpointer."""

TALK = {"messages": spoken(3)}
ABOVE_THE_TRIGGER: dict[str, Any] = {
    "settings": CompactionSettings(trigger_tokens=3_000, keep_recent_tokens=500),
    "summarizer": CountingSummarizer(),
}
CALLED_WITH: dict[str, Any] = {"keep_recent_tokens": 500, "summarizer": CountingSummarizer()}


def asks(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


async def do(how: str, adapter: Any, name: str, *arguments: Any, **options: Any) -> Any:
    """Call a method of the adapter, or its sync twin."""
    if how == "sync":
        return getattr(adapter, f"{name}_sync")(*arguments, **options)
    return await getattr(adapter, name)(*arguments, **options)


async def check_that_work_by_hand_survives(process: Process, stage: Stage, how: str, channel: str) -> None:
    side, saver = stage.side(*[Answer("Yes.")] * 6), InMemorySaver()
    adapter, graph = process(saver)
    graph.invoke(TALK, thread())
    graph.update_state(thread(), asks("Never touch the public API."))
    pinned = graph.get_state(thread()).values["messages"][-1]

    await do(how, adapter, "pin", graph, thread(), pinned)
    graph.update_state(thread(), {"messages": spoken(1, first=20)})
    adapter, graph = process(saver)
    result = await do(how, adapter, "compact", graph, thread(), focus="the ledger", **CALLED_WITH)
    assert result.record is not None
    assert len(graph.get_state(thread()).values["messages"]) == 10

    adapter, graph = process(saver)
    session = await do(how, adapter, "load", graph, thread())
    assert [record.id for record in session.history()] == [result.record.id]
    assert session.export_records()
    graph.invoke(asks("And now?"), thread())
    sent = texts(side.model_requests[-1].messages)
    assert SECRET in sent
    assert "Never touch the public API." in sent

    adapter, graph = process(saver)
    undone = await do(how, adapter, "undo", graph, thread())
    assert undone.id == result.record.id
    adapter, graph = process(saver)
    assert (await do(how, adapter, "load", graph, thread())).history() == []
    graph.invoke(asks("And then?"), thread())
    assert SECRET not in texts(side.model_requests[-1].messages)
    assert graph.get_state(thread()).next == ()
    assert not any(record["summary"] for record in records_in(graph, channel=channel))


async def check_that_an_undo_rests_in_the_next_process(process: Process, stage: Stage, how: str) -> None:
    """The whole list is above the trigger, and is sent all the same until it has grown."""
    side, saver = stage.side(*[Answer("Yes.")] * 6), InMemorySaver()
    adapter, graph = process(saver)
    graph.invoke(TALK, thread())
    assert SECRET in texts(side.model_requests[-1].messages)
    await do(how, adapter, "undo", graph, thread())
    for _ in range(2):
        adapter, graph = process(saver)
        graph.invoke(asks("And now?"), thread())
        assert SECRET not in texts(side.model_requests[-1].messages)
    graph.invoke({"messages": [*spoken(1, first=20), HumanMessage("And then?")]}, thread())
    assert SECRET in texts(side.model_requests[-1].messages)


async def check_that_a_thread_is_forgotten(process: Process, stage: Stage, how: str) -> None:
    side, saver = stage.side(*[Answer("Yes.")] * 6), InMemorySaver()
    adapter, graph = process(saver)
    graph.invoke(TALK, thread())
    await do(how, adapter, "compact", graph, thread(), **CALLED_WITH)
    await do(how, adapter, "forget", graph, thread())
    assert graph.get_state(thread()).values == {}
    assert adapter.session("thread").history() == []
    graph.invoke(TALK, thread())
    assert SECRET not in texts(side.model_requests[-1].messages)


async def check_that_a_deleted_thread_begins_anew(process: Process, stage: Stage, how: str) -> None:
    """Deleted by the checkpointer's own means, and begun again with the very messages it had."""
    stage.side(*[Answer("Yes.")] * 6)
    saver, asked = InMemorySaver(), ABOVE_THE_TRIGGER["summarizer"].asked
    adapter, graph, before = *process(saver), len(asked)
    for paid in (1, 2):
        for value in (TALK, asks("And now?")):
            await (
                graph.ainvoke(value, thread()) if how == "async" else asyncio.to_thread(graph.invoke, value, thread())
            )
            assert len(asked) == before + paid
        pinned = graph.get_state(thread()).values["messages"][0]
        await do(how, adapter, "pin", graph, thread(), pinned)
        saver.delete_thread("thread")
    graph.invoke(asks("Hello."), thread())
    assert adapter.session("thread").export_records() == []


async def check_what_is_refused(process: Process) -> None:
    adapter, graph = process(InMemorySaver())
    with pytest.raises(ConfigurationError, match="config names no thread"):
        await adapter.compact(graph, {})
    adapter, graph = process(None)
    with pytest.raises(ConfigurationError, match=r"no checkpointer.*compile\(checkpointer="):
        await adapter.load(graph, thread())
