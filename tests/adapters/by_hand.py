"""Manual compaction, undo and pins on a thread with a checkpointer alone, as another process finds them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionSettings
from compaction_hooks.errors import ConfigurationError
from tests.adapters.langchain_core_stage import (
    SECRET,
    CountingSummarizer,
    Stage,
    asked,
    records_in,
    run,
    said,
    spoken,
    texts,
    thread,
)
from tests.provider import Answer, Side

Process = Callable[..., tuple[Any, Any]]
"""Returns an adapter and its graph as a new process makes them, for a checkpointer and keywords of the adapter."""

TALK = {"messages": spoken(3)}
LONG_TALK = {"messages": spoken(4)}
CALLED_WITH: dict[str, Any] = {"keep_recent_tokens": 500, "summarizer": CountingSummarizer()}


def above_the_trigger() -> dict[str, Any]:
    settings = CompactionSettings(trigger_tokens=3_000, keep_recent_tokens=500)
    return {"settings": settings, "summarizer": CountingSummarizer()}


async def do(how: str, adapter: Any, name: str, *arguments: Any, **options: Any) -> Any:
    if how == "sync":
        return getattr(adapter, f"{name}_sync")(*arguments, **options)
    return await getattr(adapter, name)(*arguments, **options)


async def check_next_process(process: Process, side: Side, how: str, channel: str) -> None:
    saver = InMemorySaver()
    adapter, graph = process(saver)
    graph.invoke(TALK, thread())
    graph.update_state(thread(), said("Never touch the public API."))
    await do(how, adapter, "pin", graph, thread(), graph.get_state(thread()).values["messages"][-1])
    graph.update_state(thread(), {"messages": spoken(1, first=20)})
    adapter, graph = process(saver)
    result = await do(how, adapter, "compact", graph, thread(), focus="the ledger", **CALLED_WITH)
    assert result.record is not None
    assert len(graph.get_state(thread()).values["messages"]) == 10

    adapter, graph = process(saver)
    session = await do(how, adapter, "load", graph, thread())
    assert [record.id for record in session.history()] == [result.record.id]
    graph.invoke(said("And now?"), thread())
    sent = texts(side.model_requests[-1].messages)
    assert SECRET in sent
    assert "Never touch the public API." in sent

    adapter, graph = process(saver)
    assert (await do(how, adapter, "undo", graph, thread())).id == result.record.id
    adapter, graph = process(saver)
    assert (await do(how, adapter, "load", graph, thread())).history() == []
    graph.invoke(said("And then?"), thread())
    assert SECRET not in texts(side.model_requests[-1].messages)
    assert graph.get_state(thread()).next == ()
    assert not any(record["summary"] for record in records_in(graph, channel=channel))


async def check_undo_in_the_next_process(process: Process, side: Side, how: str, channel: str) -> None:
    """After an undo the whole list is sent, although it is above the trigger, until it has grown."""
    saver, keywords = InMemorySaver(), above_the_trigger()
    adapter, graph = process(saver, **keywords)
    graph.invoke(TALK, thread())
    assert SECRET in texts(side.model_requests[-1].messages)
    await do(how, adapter, "undo", graph, thread())
    for _ in range(2):
        adapter, graph = process(saver, **keywords)
        graph.invoke(said("And now?"), thread())
        assert SECRET not in texts(side.model_requests[-1].messages)
    graph.invoke({"messages": asked(1, first=20)}, thread())
    assert SECRET in texts(side.model_requests[-1].messages)


async def check_forgotten_thread(process: Process, side: Side, how: str, channel: str) -> None:
    adapter, graph = process(InMemorySaver())
    graph.invoke(TALK, thread())
    await do(how, adapter, "compact", graph, thread(), **CALLED_WITH)
    await do(how, adapter, "forget", graph, thread())
    assert graph.get_state(thread()).values == {}
    assert adapter.session("thread").history() == []
    graph.invoke(TALK, thread())
    assert SECRET not in texts(side.model_requests[-1].messages)


async def check_deleted_thread(process: Process, side: Side, how: str, channel: str) -> None:
    """Deleted by the checkpointer's own method, and begun again with the very messages it had."""
    saver, keywords = InMemorySaver(), above_the_trigger()
    adapter, graph = process(saver, **keywords)
    for paid in (1, 2):
        for value in (TALK, said("And now?")):
            if how == "async":
                await run(graph, value, how, thread())
            else:
                await asyncio.to_thread(graph.invoke, value, thread())
            assert len(keywords["summarizer"].asked) == paid
        await do(how, adapter, "pin", graph, thread(), graph.get_state(thread()).values["messages"][0])
        saver.delete_thread("thread")
    graph.invoke(said("Hello."), thread())
    assert adapter.session("thread").export_records() == []


async def check_summarizer(process: Process, side: Side, how: str, channel: str) -> None:
    adapter, graph = process(InMemorySaver())
    graph.invoke({"messages": spoken(4)}, thread())
    await do(how, adapter, "compact", graph, thread(), keep_recent_tokens=500)
    assert side.requests[-1].is_summary


async def check_refusals(process: Process, side: Side, how: str, channel: str) -> None:
    adapter, graph = process(InMemorySaver())
    with pytest.raises(ConfigurationError, match="config names no thread"):
        await do(how, adapter, "compact", graph, {})
    adapter, graph = process(None)
    with pytest.raises(ConfigurationError, match=r"no checkpointer.*compile\(checkpointer="):
        await do(how, adapter, "load", graph, thread())


CHECKS = (
    check_next_process,
    check_undo_in_the_next_process,
    check_forgotten_thread,
    check_deleted_thread,
    check_summarizer,
    check_refusals,
)


def side_of(stage: Stage) -> Side:
    return stage.side(*[Answer("Yes.")] * 6)
