"""A thread that goes from LangChain's own summarization to `CompactionMiddleware`, and back."""

from typing import Any

from compaction_adapters.langchain import CompactionMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters.langchain_core_stage import (
    SECRET,
    WINDOW,
    CountingSummarizer,
    Stage,
    asked,
    is_summary,
    said,
    texts,
    thread,
)
from tests.provider import Answer

THEIRS = "They said: never touch the ledger of 1987."


async def test_ours_updates_their_summary_and_theirs_goes_on_from_the_whole_list(stage: Stage) -> None:
    side, saver = stage.side(*[Answer("Done.")] * 3), InMemorySaver()
    stage.side(*[Answer(THEIRS)] * 2, window=8 * WINDOW, key="-theirs")
    theirs = SummarizationMiddleware(stage.openai(key="-theirs"), trigger=("tokens", 8_000), keep=("messages", 4))
    ours = CompactionMiddleware(summarizer=(summarizer := CountingSummarizer()))
    with_theirs: Any = create_agent(stage.openai(), middleware=[theirs], checkpointer=saver)
    with_ours: Any = create_agent(stage.openai(), middleware=[ours], checkpointer=saver)
    assert is_summary(with_theirs.invoke({"messages": asked(12)}, thread())["messages"][0])

    messages = with_ours.invoke({"messages": asked(12, first=12)}, thread())["messages"]
    assert [request.previous_summary for request in summarizer.asked] == [THEIRS]
    assert THEIRS in texts(messages)
    assert THEIRS not in texts(side.requests[-1].messages)
    assert SECRET in texts(side.requests[-1].messages)

    messages = with_theirs.invoke(said("Go back."), thread())["messages"]
    assert is_summary(messages[0])
    assert SECRET not in texts(messages)
    assert side.rejections == []
