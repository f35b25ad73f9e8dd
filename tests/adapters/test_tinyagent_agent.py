"""What the hook learns from its agent: model, what counts beside the messages, the conversation's id, whom to ask for summaries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tinyagent")
pytest.importorskip("starlette")

from compaction_adapters.tinyagent import compaction_hook, summarizer, usage_of
from tinyagent import extract_text
from tinyagent.agent_types import AgentMessage, AssistantMessage, TextContent, UserMessage

from compaction_hooks import CompactionController, CompactionSettings, Summarizer, SummaryRequest
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.stores import SQLiteStore
from compaction_hooks.summary.prompts import SYSTEM_PROMPT
from compaction_hooks.testing import Script
from tests.adapters import tinyagent_stage
from tests.adapters.tinyagent_stage import (
    SCRIPT,
    WINDOW,
    anthropic_model,
    made_agent,
    needs_binding,
    openai_model,
    shown,
    stream_anthropic,
    stream_openai,
    turns,
)
from tests.conversations import Scripted, prose
from tests.provider import Answer, Call, LoopbackProvider

provider = tinyagent_stage.provider

ASKED = SummaryRequest(
    system=SYSTEM_PROMPT,
    prompt="<conversation>[User]: hello</conversation> Summarise.",
    transcript="",
    previous_summary=None,
    focus=None,
    kind="history",
    max_tokens=700,
)
BARE = Script(turns=(), system="You are careful.")


# -- summaries


async def asked(made: Summarizer) -> Any:
    answer: Any = made(ASKED)
    return await answer


async def key_of(provider_name: str) -> str:
    assert provider_name == "openai"
    return "summaries"


@pytest.mark.parametrize("resolve", [key_of, lambda _: "summaries"], ids=["async", "sync"])
async def test_a_summary_is_asked_by_the_stream_function(resolve: Any, provider: LoopbackProvider) -> None:
    side = provider.conversation("summaries")
    side.summary_text = "## Goal\n- all of it"
    made = summarizer(stream_openai, openai_model(provider.openai_url, id="small"), get_api_key=resolve)
    summary = await asked(made)
    (request,) = side.requests
    assert (summary.text, summary.finish_reason, summary.tool_calls) == (side.summary_text, "stop", ())
    assert summary.usage.input_tokens == request.input_tokens
    assert (request.is_summary, request.max_tokens, request.body["model"]) == (True, 700, "small")
    assert not request.tools


@needs_binding
async def test_a_summary_is_asked_of_anthropics_api(provider: LoopbackProvider) -> None:
    side = provider.conversation("claude")
    made = summarizer(stream_anthropic, anthropic_model(provider.anthropic_url), get_api_key=lambda _: "claude")
    summary = await asked(made)
    assert summary.text == side.summary_text
    assert side.requests[0].is_summary
    assert side.requests[0].max_tokens == 700


async def test_a_failed_summary_is_an_error_with_the_providers_text(provider: LoopbackProvider) -> None:
    """An error's text is no summary."""
    provider.conversation("outage").fail_summaries = True
    made = summarizer(stream_openai, openai_model(provider.openai_url), get_api_key=lambda _: "outage")
    with pytest.raises(RuntimeError, match=r"500 - .*Internal server error"):
        await asked(made)


async def test_a_call_in_place_of_a_summary_is_told(provider: LoopbackProvider) -> None:
    provider.conversation("calls", answers=[Answer(calls=(Call("read_file", {"path": "a"}),))])
    made = summarizer(stream_openai, openai_model(provider.openai_url), get_api_key=lambda _: "calls")
    answer: Any = made(SummaryRequest(**{**_fields(ASKED), "system": "Another prompt."}))
    summary = await answer
    assert [call["name"] for call in summary.tool_calls] == ["read_file"]
    assert summary.finish_reason == "tool_calls"


def _fields(request: SummaryRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__dataclass_fields__}


async def test_the_agents_own_model_is_asked_out_of_sight(provider: LoopbackProvider) -> None:
    side = provider.conversation("own", window=WINDOW, answers=[Answer("Yes.")])
    side.summary_text = "## Goal\n- KINGFISHER"
    hook = compaction_hook(context_window=WINDOW)
    agent = hook.attach(made_agent(hook, openai_model(provider.openai_url), "own", BARE))
    seen: list[str] = []
    agent.subscribe(lambda event: seen.append(repr(event)))
    agent.replace_messages(turns(8, 900))
    await agent.prompt("Is that so?")
    assert [request.is_summary for request in side.requests] == [True, False]
    assert "KINGFISHER" in str(side.requests[-1].body)
    assert "KINGFISHER" not in "".join(seen) + shown(agent.state.messages)


async def test_the_controllers_summariser_wins(provider: LoopbackProvider) -> None:
    side = provider.conversation("given", window=WINDOW)
    own = Scripted("- by hand")
    hook = compaction_hook(context_window=WINDOW, summarizer=own)
    agent = hook.attach(made_agent(hook, openai_model(provider.openai_url), "given", BARE))
    agent.replace_messages(turns(8, 900))
    await agent.prompt("Is that so?")
    assert len(own.requests) == 1
    assert [request.is_summary for request in side.requests] == [False]


async def test_without_an_agent_no_model_is_asked(provider: LoopbackProvider) -> None:
    side = provider.conversation("alone", window=WINDOW)
    agent = made_agent(compaction_hook(context_window=WINDOW), openai_model(provider.openai_url), "alone", BARE)
    agent.replace_messages(turns(8, 900))
    await agent.prompt("Is that so?")
    assert [request.is_summary for request in side.requests] == [False]
    assert side.requests[0].input_tokens < WINDOW


# -- what counts


@pytest.mark.parametrize("part", ["system prompt", "tools"])
async def test_the_agents_system_prompt_and_tools_count(part: str, provider: LoopbackProvider) -> None:
    side = provider.conversation(part, window=WINDOW)
    hook = compaction_hook(context_window=WINDOW)
    agent = hook.attach(made_agent(hook, openai_model(provider.openai_url), part, SCRIPT))
    if part == "system prompt":
        agent.set_system_prompt(prose(7_000))
    else:
        agent.state.tools[0].description = prose(7_000)
    agent.replace_messages(turns(6, 600))
    await agent.prompt("Is that so?")
    assert [request.is_summary for request in side.requests] == [True, False]


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        pytest.param({"context_window": 10_000}, 10_000, id="set by the user"),
        pytest.param({}, 50_000, id="tinyagent's default of 128k for every model"),
    ],
)
async def test_a_window_counts_where_the_user_set_it(
    fields: dict[str, int], window: int, provider: LoopbackProvider
) -> None:
    provider.conversation("window")
    hook = compaction_hook(settings=CompactionSettings(default_context_window=50_000))
    agent = hook.attach(made_agent(hook, openai_model(provider.openai_url, **fields), "window", BARE))
    await agent.prompt("Hello.")
    assert hook.session.state().context_window == window


async def test_a_run_keeps_the_model_it_was_started_with(provider: LoopbackProvider) -> None:
    """tinyagent goes on with it too, whatever is set meanwhile."""
    provider.conversation("switched", answers=SCRIPT.answers)
    hook = compaction_hook()
    agent = hook.attach(made_agent(hook, openai_model(provider.openai_url, context_window=30_000), "switched", SCRIPT))
    larger = openai_model(provider.openai_url, id="larger", context_window=90_000)
    stop = agent.subscribe(lambda event: agent.set_model(larger) if event.type == "turn_end" else None)
    await agent.prompt(SCRIPT.turns[0].user)
    assert hook.session.state().context_window == 30_000
    stop()
    await agent.prompt("And?")
    assert hook.session.state().context_window == 90_000


@pytest.mark.parametrize("api", ["openai", pytest.param("anthropic", marks=needs_binding)])
async def test_usage_is_the_providers_own_count(api: str, provider: LoopbackProvider) -> None:
    """With Anthropic's API the binding leaves cached tokens out of input and total."""
    key = f"usage {api}"
    side = provider.conversation(key, answers=[Answer("One."), Answer("Two.")])
    model = openai_model(provider.openai_url) if api == "openai" else anthropic_model(provider.anthropic_url)
    agent = made_agent(None, model, key, BARE)
    await agent.prompt(prose(2_000))
    ended = await agent.prompt("Again.")
    assert isinstance(ended, AssistantMessage)
    usage = usage_of(ended.usage, ended.api)
    assert usage is not None
    assert usage.input_tokens == side.requests[-1].input_tokens
    assert usage.cache_read_tokens == side.requests[-1].cached_tokens > 1_000


# -- conversations


async def test_a_conversation_is_named_by_the_user_then_by_the_agent(provider: LoopbackProvider) -> None:
    hooks: CompactionController[Any] = CompactionController(context_window=WINDOW)
    named, unnamed = compaction_hook(hooks, session_id="mine"), compaction_hook(hooks)
    model = openai_model(provider.openai_url)
    for hook in (named, unnamed):
        hook.attach(made_agent(hook, model, "ids", BARE, session_id="thread-7"))
    assert (named.session.id, unnamed.session.id) == ("mine", "thread-7")


def test_hooks_without_a_name_never_share_a_conversation() -> None:
    hooks: CompactionController[Any] = CompactionController(context_window=WINDOW)
    assert compaction_hook(hooks).session.id != compaction_hook(hooks).session.id


async def test_a_conversation_goes_on_in_another_process(provider: LoopbackProvider, tmp_path: Path) -> None:
    """The agent's messages come from the host's own storage, the record from the store, found by the agent's session id."""
    side = provider.conversation("restart", window=WINDOW)
    stored: list[Any] = []
    for words in ("Is that so?", "And now?"):
        hook = compaction_hook(context_window=WINDOW, store=SQLiteStore(tmp_path / "records.db"))
        agent = made_agent(hook, openai_model(provider.openai_url), "restart", BARE, session_id="thread-7")
        agent.replace_messages([_loaded(fields) for fields in stored] if stored else turns(8, 900))
        await hook.prompt(agent, words)
        stored = [message.model_dump() for message in agent.state.messages]
    assert [request.is_summary for request in side.requests] == [True, False, False]
    assert side.requests[2].messages[1] == side.requests[1].messages[1]


def _loaded(fields: dict[str, Any]) -> AgentMessage:
    return (UserMessage if fields["role"] == "user" else AssistantMessage).model_validate(fields)


# -- what happens meanwhile


async def test_a_host_that_goes_on_while_a_recovery_compacts_is_not_overwritten(provider: LoopbackProvider) -> None:
    side = provider.conversation("meanwhile", window=WINDOW)
    word = UserMessage(content=[TextContent(text="Never mind.")])

    async def goes_on(request: SummaryRequest) -> str:
        agent.append_message(word)
        return "## Goal\n- to go on"

    hook = compaction_hook(context_window=10 * WINDOW, summarizer=goes_on)
    agent = made_agent(hook, openai_model(provider.openai_url), "meanwhile", BARE)
    agent.replace_messages(turns(8, 900))
    side.reject_next = 1
    ended = await hook.prompt(agent, "Is that so?")
    assert agent.state.messages[-2:] == [ended, word]
    assert len(side.requests) == 1


async def test_a_cancelled_prompt_takes_tinyagents_loop_with_it(provider: LoopbackProvider) -> None:
    """tinyagent leaves the loop running in the background; a call made there would never be seen by the host."""
    side = provider.conversation("orphan", window=WINDOW)
    reached = asyncio.Event()

    async def waits(request: SummaryRequest) -> str:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    hook = compaction_hook(context_window=WINDOW, summarizer=waits)
    agent = made_agent(hook, openai_model(provider.openai_url), "orphan", BARE)
    agent.replace_messages(turns(8, 900))
    others = asyncio.all_tasks()
    run = asyncio.ensure_future(hook.prompt(agent, "Is that so?"))
    await asyncio.wait_for(reached.wait(), 5)
    left = asyncio.all_tasks() - others - {run}
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    done, pending = await asyncio.wait(left, timeout=5)
    assert done
    assert not pending
    assert not side.requests


# -- wrong use


async def test_an_agent_made_without_the_hook_is_told_apart_from_an_overflow(provider: LoopbackProvider) -> None:
    side = provider.conversation("without", window=WINDOW)
    hook = compaction_hook(context_window=10 * WINDOW)
    agent = made_agent(None, openai_model(provider.openai_url), "without", BARE)
    agent.replace_messages(turns(8, 900))
    side.reject_next = 2
    with pytest.raises(ConfigurationError, match=r"AgentOptions\(transform_context=hook\)"):
        await hook.prompt(agent, "Is that so?")


async def test_one_hook_serves_one_running_agent(provider: LoopbackProvider) -> None:
    provider.conversation("two", window=WINDOW)
    hook = compaction_hook(context_window=WINDOW)
    model = openai_model(provider.openai_url)
    first, second = (made_agent(hook, model, "two", BARE) for _ in range(2))
    refused: list[ConfigurationError] = []

    def take(event: Any) -> None:
        if event.type == "turn_start":
            with pytest.raises(ConfigurationError, match="of its own") as raised:
                hook.attach(second)
            refused.append(raised.value)

    stop = first.subscribe(take)
    await hook.prompt(first, "Hello.")
    stop()
    assert len(refused) == 1
    assert extract_text(await hook.prompt(second, "Hello.")) == "Done."


def test_a_part_of_a_window_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"context_window=.*tokens"):
        compaction_hook(settings=CompactionSettings(trigger_ratio=0.8))


def test_a_controller_and_its_keywords_exclude_one_another() -> None:
    hooks: CompactionController[Any] = CompactionController(context_window=WINDOW)
    with pytest.raises(ConfigurationError, match="not both"):
        compaction_hook(hooks, context_window=1_000)  # type: ignore[call-overload]  # wrong on purpose
