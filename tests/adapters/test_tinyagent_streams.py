"""Streams: one run for their reader, recovered up to the first chunk, over HTTP and behind tinyagent's proxy."""

import pytest
from compaction_adapters.tinyagent import compaction_hook
from tinyagent.agent_types import AssistantMessage

from compaction_hooks import ContextOverflowError
from tests.adapters.tinyagent_http import stream_http
from tests.adapters.tinyagent_stage import BELIEVED, SCRIPT, WINDOW, Stage, made_agent, openai_model, turns
from tests.cases import folded
from tests.provider import Answer, LoopbackProvider

FIRST, SECOND = SCRIPT.turns
LONG = Answer("A fairly long answer that comes in several chunks, one after the other.")


async def test_a_stream_is_one_run_although_the_agent_makes_two(stage: Stage) -> None:
    """What tinyagent's subscribers see keeps its pairs; the failed attempt's answer is in no list of messages."""
    await stage.hook.prompt(stage.agent, FIRST.user)
    before = len(stage.agent.state.messages)
    stage.side.reject_next = 1
    stage.told.clear()
    events = [event async for event in stage.hook.stream(stage.agent, SECOND.user)]
    types = [event.type for event in events]
    assert (types[0], types[-1]) == ("agent_start", "agent_end")
    assert (types.count("agent_start"), types.count("agent_end")) == (1, 1)
    assert types.count("turn_start") == len(SECOND.answers) + 1
    assert getattr(events[-1], "messages", None) == stage.agent.state.messages[before:]
    assert stage.told.count("agent_start") == stage.told.count("agent_end") == 2
    stage.demand_whole_history(said=2)


async def test_a_stream_without_an_overflow_is_tinyagents_own(stage: Stage) -> None:
    events = [event async for event in stage.hook.stream(stage.agent, FIRST.user)]
    assert [event.type for event in events] == stage.told


async def test_a_second_overflow_ends_the_stream_with_the_error(stage: Stage) -> None:
    stage.side.reject_next = 2
    with pytest.raises(ContextOverflowError):
        _ = [event async for event in stage.hook.stream(stage.agent, FIRST.user)]


@folded(
    "rejected, chunks, requests",
    {"before the first chunk": (0, 0, 2), "after it": (0, 2, 1), "after the resend's first chunk": (1, 2, 2)},
)
async def test_an_overflow_is_recovered_up_to_the_first_chunk(
    rejected: int, chunks: int, requests: int, provider: LoopbackProvider
) -> None:
    """After the first chunk a part of the answer has been shown: the error is the answer."""
    side = provider.conversation("chunks", window=WINDOW, answers=[LONG])
    side.stream_fail_after, side.reject_next = chunks, rejected
    hook = compaction_hook(context_window=BELIEVED)
    agent = made_agent(hook, openai_model(provider.openai_url), "chunks", SCRIPT, stream_fn=stream_http)
    agent.replace_messages(turns(6, 900))
    ended = await hook.prompt(agent, "Well?")
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == ("stop" if chunks == 0 else "error")
    assert agent.state.messages[-1] is ended
    assert len(side.model_requests) == requests
