"""Runs that the context window ends, gone on with: tinyagent's real loop and binding, real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tinyagent")
pytest.importorskip("starlette")

from compaction_adapters.tinyagent import ModelCallError, compaction_hook
from tinyagent import extract_text
from tinyagent.agent_types import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    UserMessage,
)

from compaction_hooks import CompactionReason, CompactionSettings, ContextOverflowError, SummaryRequest, Usage
from tests.adapters import tinyagent_stage
from tests.adapters.tinyagent_stage import (
    BELIEVED,
    MODEL,
    SCRIPT,
    WINDOW,
    Stage,
    anthropic_model,
    made_agent,
    needs_binding,
    openai_model,
    shown,
)
from tests.cases import sampled
from tests.provider import WORDINGS, Answer, LoopbackProvider, Rejection

provider = tinyagent_stage.provider
FIRST, SECOND = SCRIPT.turns


OUTAGE = Rejection(500, {"error": {"message": "Internal server error", "type": "server_error"}})


@pytest.fixture
def stage(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Stage:
    return Stage(provider, request.node.name)


@pytest.fixture
async def begun(stage: Stage) -> Stage:
    """A stage whose first turn is over."""
    await stage.hook.prompt(stage.agent, FIRST.user)
    return stage


async def rejected(stage: Stage) -> AgentMessage:
    """A run that tinyagent itself ends in an overflow, after tool work."""
    stage.side.window = 4_096
    ended = await stage.agent.prompt(FIRST.user)
    stage.side.window = WINDOW
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == "error"
    return ended


# -- an overflow


@needs_binding
async def test_an_overflow_of_anthropics_api_is_continued(provider: LoopbackProvider) -> None:
    stage = Stage(provider, "anthropic", model=anthropic_model)
    await stage.hook.prompt(stage.agent, FIRST.user)
    stage.side.reject_next = 1
    ended = await stage.hook.prompt(stage.agent, SECOND.user)
    assert extract_text(ended) == SECOND.answers[-1].text
    assert [request.path for request in stage.side.rejections] == ["/v1/messages"]
    stage.demand_whole_history(said=2)


@pytest.mark.parametrize("wording", sampled(sorted(WORDINGS), 4))
async def test_an_overflow_in_the_middle_of_tool_work_is_continued(
    wording: str,
    provider: LoopbackProvider,
) -> None:
    """`API returned error: 400 - {json}` is known in every wording; one resend, tool work kept."""

    def model(url: str) -> Any:
        return openai_model(f"{url}/v1", provider="cerebras" if wording == "cerebras" else "openai")

    stage = Stage(provider, wording, model=model)
    stage.side.wording = wording
    await stage.hook.prompt(stage.agent, FIRST.user)
    stage.side.reject_next = 1
    ended = await stage.hook.prompt(stage.agent, SECOND.user)
    assert extract_text(ended) == SECOND.answers[-1].text
    assert stage.agent.state.error is None
    assert len(stage.side.rejections) == 1
    assert len(stage.side.model_requests) == len(SCRIPT.answers) + 1
    assert stage.reasons == [CompactionReason.OVERFLOW]
    stage.demand_whole_history(said=2)
    assert "was compacted" not in shown(stage.agent.state.messages)


async def test_a_second_overflow_names_the_part_and_chains_the_provider(begun: Stage) -> None:
    """Exactly one resend; afterwards the agent's state is as if the call had never been made."""
    begun.side.reject_next, sent = 2, len(begun.side.model_requests)
    with pytest.raises(ContextOverflowError, match="shorten the prefix outside the list") as raised:
        await begun.hook.prompt(begun.agent, SECOND.user)
    assert raised.value.part
    assert isinstance(raised.value.__cause__, ModelCallError)
    assert "maximum context length is 16384 tokens" in str(raised.value.__cause__)
    assert len(begun.side.model_requests) == sent + 2
    assert begun.agent.state.messages[-1].role == "user"
    ended = await begun.agent.continue_()
    assert extract_text(ended) == SECOND.answers[-1].text
    begun.demand_whole_history(said=2)


async def test_what_cannot_shrink_is_named_without_a_resend(stage: Stage) -> None:
    stage.side.window = 4_096
    stage.agent.set_system_prompt("Be careful. " * 4_000)
    with pytest.raises(ContextOverflowError) as raised:
        await stage.hook.prompt(stage.agent, FIRST.user)
    assert raised.value.part == "system prompt"
    assert "4096 tokens" in str(raised.value.__cause__)
    assert len(stage.side.model_requests) == 1
    assert [message.role for message in stage.agent.state.messages] == ["user"]


async def test_an_overflow_after_success_is_continued_again(begun: Stage) -> None:
    """Reset on success. The second one comes in the run that the first recovery went on with."""
    begun.side.reject_next = 1

    def reject_once_more(event: Any) -> None:
        if event.type == "tool_execution_end" and len(begun.side.rejections) == 1:
            begun.side.reject_next = 1

    begun.agent.subscribe(reject_once_more)
    ended = await begun.hook.prompt(begun.agent, SECOND.user)
    assert extract_text(ended) == SECOND.answers[-1].text
    assert len(begun.side.rejections) == 2
    begun.demand_whole_history(said=2)


async def test_other_errors_stay_as_tinyagent_ends_them(stage: Stage) -> None:
    """A rate limit is no overflow."""
    stage.side.answers.appendleft(
        Rejection(429, {"error": {"message": "Rate limit reached: too many tokens per minute.", "type": "tokens"}})
    )
    ended = await stage.hook.prompt(stage.agent, FIRST.user)
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == "error"
    assert stage.agent.state.messages[-1] is ended
    assert len(stage.side.requests) == 1
    assert not stage.events


async def test_another_error_of_the_resend_stays_as_tinyagent_ends_it(begun: Stage) -> None:
    begun.side.reject_next = 1
    begun.side.answers.appendleft(OUTAGE)
    ended = await begun.hook.prompt(begun.agent, SECOND.user)
    assert isinstance(ended, AssistantMessage)
    assert "Internal server error" in (ended.error_message or "")
    assert begun.agent.state.messages[-1] is ended
    assert begun.agent.state.messages[-2].role == "user"


async def test_switched_off_it_leaves_everything_to_tinyagent(provider: LoopbackProvider) -> None:
    stage = Stage(provider, "off", settings=CompactionSettings(compact_on_overflow=False))
    stage.side.reject_next = 1
    ended = await stage.hook.prompt(stage.agent, FIRST.user)
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == "error"
    assert stage.agent.state.messages[-1] is ended
    assert stage.agent.state.error == ended.error_message
    assert stage.told.count("agent_start") == 1
    assert len(stage.side.requests) == 1


async def test_an_error_of_a_model_that_was_switched_away_is_ignored(
    stage: Stage,
    provider: LoopbackProvider,
) -> None:
    """It says nothing of the model the agent has now."""
    ended = await rejected(stage)
    stage.agent.set_model(openai_model(provider.openai_url, id="another-model"))
    assert not await stage.hook.recover(stage.agent)
    assert stage.agent.state.messages[-1] is ended


async def test_a_failed_answer_with_something_in_it_stays(begun: Stage) -> None:
    """Also where the hook did not see it come: the text is there for the user to read."""
    half = AssistantMessage(
        content=[TextContent(text="Half an")],
        stop_reason="error",
        error_message="prompt is too long: 20000 tokens > 16384 maximum",
        model=MODEL,
    )
    begun.agent.replace_messages([*begun.agent.state.messages, half])
    assert not await compaction_hook(context_window=BELIEVED).recover(begun.agent)
    assert begun.agent.state.messages[-1] is half


async def test_an_aborted_run_is_left_alone(stage: Stage) -> None:

    async def aborted(*_: object) -> Any:
        stage.agent.abort()
        raise RuntimeError("prompt is too long: 20000 tokens > 16384 maximum")

    stage.agent.stream_fn = aborted
    ended = await stage.hook.prompt(stage.agent, FIRST.user)
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == "aborted"
    assert stage.agent.state.messages[-1] is ended
    assert not stage.events


async def test_a_stream_function_that_raises_is_continued(begun: Stage) -> None:
    bound = begun.agent.stream_fn

    async def refused(*_: object) -> Any:
        begun.agent.stream_fn = bound
        raise RuntimeError("prompt is too long: 20000 tokens > 16384 maximum")

    begun.agent.stream_fn = refused
    ended = await begun.hook.prompt(begun.agent, SECOND.user)
    assert extract_text(ended) == SECOND.answers[-1].text
    begun.demand_whole_history(said=2)


# -- who drives the agent


async def test_a_host_that_drives_the_agent_itself_recovers_its_run(stage: Stage) -> None:
    """Steering and follow-up messages that wait are taken along by the continued run."""
    stage.hook.attach(stage.agent)
    await rejected(stage)
    stage.agent.follow_up(UserMessage(content=[TextContent(text=SECOND.user)]))
    assert await stage.hook.recover(stage.agent)
    assert extract_text(stage.agent.state.messages[-1]) == SECOND.answers[-1].text
    stage.demand_whole_history(said=2)
    assert not await stage.hook.recover(stage.agent)


async def test_a_conversation_restored_after_a_crash_is_recovered(
    stage: Stage,
    provider: LoopbackProvider,
) -> None:
    await rejected(stage)
    hook = compaction_hook(context_window=BELIEVED)
    agent = made_agent(hook, openai_model(provider.openai_url), "restored", SCRIPT, tools=stage.tools)
    provider.conversation("restored", window=WINDOW, answers=list(stage.side.answers))
    agent.replace_messages([message.model_copy(deep=True) for message in stage.agent.state.messages])
    assert await hook.recover(agent)
    assert extract_text(agent.state.messages[-1]) == FIRST.answers[-1].text


# -- giving up


async def held_summary(stage: Stage, do: Callable[[], object]) -> asyncio.Event:
    """Overflow with a summarizer that waits; do something once it was asked. Returns what is set when it is cancelled."""
    cancelled = asyncio.Event()

    async def waits(request: SummaryRequest) -> str:
        asyncio.get_running_loop().call_soon(do)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    hook = stage.hook = compaction_hook(context_window=BELIEVED, summarizer=waits)
    agent = stage.agent = made_agent(hook, stage.model, stage.key, SCRIPT, tools=stage.tools)
    await hook.prompt(agent, FIRST.user)
    stage.side.reject_next = 1
    return cancelled


async def test_abort_while_a_recovery_compacts_leaves_the_run_as_it_ended(stage: Stage) -> None:
    """The summarizer is cancelled, no error is raised, and the run can be recovered later."""
    cancelled = await held_summary(stage, lambda: stage.hook.abort())
    sent = len(stage.side.requests)
    ended = await stage.hook.prompt(stage.agent, SECOND.user)
    await asyncio.wait_for(cancelled.wait(), 5)
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == "error"
    assert stage.agent.state.messages[-1] is ended
    assert len(stage.side.requests) == sent + 1
    hook = compaction_hook(context_window=BELIEVED)
    agent = made_agent(hook, stage.model, stage.key, SCRIPT, tools=stage.tools)
    agent.replace_messages(stage.agent.state.messages)
    assert await hook.recover(agent)
    assert extract_text(agent.state.messages[-1]) == SECOND.answers[-1].text


async def test_cancelling_a_recovery_leaves_the_run_as_it_ended(stage: Stage) -> None:
    """What cancels the prompt cancels the summarizer, and the run can be recovered later."""
    running: list[asyncio.Task[AgentMessage]] = []
    cancelled = await held_summary(stage, lambda: running[0].cancel())
    running.append(asyncio.ensure_future(stage.hook.prompt(stage.agent, SECOND.user)))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    await asyncio.wait_for(cancelled.wait(), 5)
    assert getattr(stage.agent.state.messages[-1], "stop_reason", None) == "error"
    hook = compaction_hook(context_window=BELIEVED)
    agent = made_agent(hook, stage.model, stage.key, SCRIPT, tools=stage.tools)
    agent.replace_messages(stage.agent.state.messages)
    assert await hook.recover(agent)
    assert extract_text(agent.state.messages[-1]) == SECOND.answers[-1].text


# -- answers that tell of an overflow


async def test_silent_truncation_is_noticed_before_the_next_call(provider: LoopbackProvider) -> None:
    """The answer stays, nothing is sent again; the next call is compacted first."""
    stage = Stage(provider, "silent", context_window=WINDOW)
    await stage.hook.prompt(stage.agent, FIRST.user)
    stage.side.answers.appendleft(Answer("Seen.", usage=Usage(input_tokens=WINDOW + 1, output_tokens=2)))
    before = len(stage.side.requests)
    ended = await stage.hook.prompt(stage.agent, "Well?")
    assert extract_text(ended) == "Seen."
    assert len(stage.side.requests) == before + 1
    assert not stage.events
    await stage.hook.prompt(stage.agent, SECOND.user)
    assert stage.reasons
    cut, seen = stage.side.model_requests[before + 1], stage.side.model_requests[before]
    assert cut.input_tokens < seen.input_tokens
    stage.demand_whole_history(said=3)


@pytest.fixture
def cut(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Stage:
    """A provider that answers nothing, and stops for the length, where the window is full (Xiaomi MiMo)."""
    settings = CompactionSettings(auto_compact=False)
    stage = Stage(provider, request.node.name, context_window=4_096, settings=settings)
    stage.side.overflow, stage.side.window = "length", 4_096
    return stage


def when_cut(stage: Stage, change: Callable[[], None]) -> None:
    """Change something once an answer was cut off."""

    def watch(event: Any) -> None:
        if event.type == "turn_end" and event.message.stop_reason == "length":
            change()

    stage.agent.subscribe(watch)


async def test_an_empty_answer_that_the_window_cut_off_is_asked_for_again(cut: Stage) -> None:
    """Stop reason `length`, no output, the window full."""
    cuts: list[int] = []
    when_cut(cut, lambda: cuts.append(len(cut.side.model_requests)))
    ended = await cut.hook.prompt(cut.agent, FIRST.user)
    assert extract_text(ended) == FIRST.answers[-1].text
    assert len(cut.side.model_requests) == len(FIRST.answers) + len(cuts)
    assert cut.reasons == [CompactionReason.OVERFLOW] * len(cuts) != []
    cut.demand_whole_history(said=1)


async def test_an_answer_cut_off_twice_stays(cut: Stage) -> None:
    """Once more, not for ever."""

    def shrink() -> None:
        cut.side.window = 10

    when_cut(cut, shrink)
    ended = await cut.hook.prompt(cut.agent, FIRST.user)
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == "length"
    assert cut.agent.state.messages[-1] is ended
    assert [request.input_tokens > cut.side.window for request in cut.side.model_requests[-2:]] == [True, True]
    assert len(cut.reasons) == 1


async def test_a_cut_off_answer_stays_where_asking_again_fails(cut: Stage) -> None:
    when_cut(cut, lambda: cut.side.answers.appendleft(OUTAGE))
    ended = await cut.hook.prompt(cut.agent, FIRST.user)
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == "length"
    assert cut.agent.state.messages[-1] is ended
    assert cut.side.requests[-1].status == 500


async def test_an_answer_that_its_own_limit_cut_off_stays(stage: Stage) -> None:
    """Most `length` stops have nothing to do with the window."""
    stage.side.answers.appendleft(Answer("", stop="length"))
    ended = await stage.hook.prompt(stage.agent, FIRST.user)
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == "length"
    assert stage.agent.state.messages[-1] is ended
    assert len(stage.side.requests) == 1
