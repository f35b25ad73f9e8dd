"""Model calls that overflow are made once more: tinyagent's real loop and binding, real HTTP."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from compaction_adapters.tinyagent import compaction_hook
from tinyagent import extract_text
from tinyagent.agent_types import AgentMessage, AssistantMessage, CustomAgentMessage, TextContent, UserMessage

from compaction_hooks import (
    CompactionFinished,
    CompactionReason,
    CompactionSettings,
    ContextOverflowError,
    SummaryRequest,
    Usage,
)
from compaction_hooks.events import CompactionEvent
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
    stream_openai,
    turns,
)
from tests.cases import folded
from tests.provider import WORDINGS, Answer, LoopbackProvider, Rejection

FIRST, SECOND = SCRIPT.turns
TOO_LONG = "prompt is too long: 20000 tokens > 16384 maximum"
OUTAGE = Rejection(500, {"error": {"message": "Internal server error", "type": "server_error"}})
RATE_LIMIT = Rejection(429, {"error": {"message": "Rate limit reached: too many tokens per minute.", "type": "tokens"}})


@pytest.fixture
async def begun(stage: Stage) -> Stage:
    await stage.hook.prompt(stage.agent, FIRST.user)
    return stage


async def reject(stage: Stage) -> AgentMessage:
    """Let tinyagent itself end a run in an overflow, after tool work."""
    stage.side.window = 4_096
    ended = await stage.agent.prompt(FIRST.user)
    stage.side.window = WINDOW
    check_ended(stage, ended)
    return ended


def check_ended(stage: Stage, ended: AgentMessage, reason: str = "error") -> None:
    """Check that a run stays as tinyagent ended it: this answer is the last message."""
    assert isinstance(ended, AssistantMessage)
    assert ended.stop_reason == reason
    assert stage.agent.state.messages[-1] is ended


async def restored(stage: Stage) -> str:
    hook = compaction_hook(context_window=BELIEVED)
    agent = made_agent(hook, stage.model, stage.key, SCRIPT, tools=stage.tools)
    agent.replace_messages([message.model_copy(deep=True) for message in stage.agent.state.messages])
    assert await hook.recover(agent)
    return extract_text(agent.state.messages[-1])


# -- an overflow


@needs_binding
async def test_an_overflow_of_anthropics_api_is_continued(provider: LoopbackProvider) -> None:
    stage = Stage(provider, "anthropic", model=anthropic_model)
    await stage.hook.prompt(stage.agent, FIRST.user)
    stage.side.reject_next = 1
    assert extract_text(await stage.hook.prompt(stage.agent, SECOND.user)) == SECOND.answers[-1].text
    assert [request.path for request in stage.side.rejections] == ["/v1/messages"]
    stage.demand_whole_history(said=2)


@pytest.mark.parametrize(
    "wording",
    [
        name if name in ("cerebras", "openai") else pytest.param(name, marks=pytest.mark.full)
        for name in sorted(WORDINGS)
    ],
)
async def test_an_overflow_in_the_middle_of_tool_work_is_continued(wording: str, provider: LoopbackProvider) -> None:
    def model(url: str) -> Any:
        return openai_model(f"{url}/v1", provider="cerebras" if wording == "cerebras" else "openai")

    stage = Stage(provider, wording, model=model)
    stage.side.wording = wording
    await stage.hook.prompt(stage.agent, FIRST.user)
    stage.side.reject_next = 1
    assert extract_text(await stage.hook.prompt(stage.agent, SECOND.user)) == SECOND.answers[-1].text
    assert stage.agent.state.error is None
    assert len(stage.side.rejections) == 1
    assert len(stage.side.model_requests) == len(SCRIPT.answers) + 1
    assert stage.reasons == [CompactionReason.OVERFLOW]
    stage.demand_whole_history(said=2)
    assert "was compacted" not in shown(stage.agent.state.messages)


async def test_a_part_that_cannot_shrink_is_named_without_a_resend(stage: Stage) -> None:
    stage.side.window = 4_096
    stage.agent.set_system_prompt("Be careful. " * 4_000)
    with pytest.raises(ContextOverflowError) as raised:
        await stage.hook.prompt(stage.agent, FIRST.user)
    assert raised.value.part == "system prompt"
    assert "4096 tokens" in str(raised.value.__cause__)
    assert len(stage.side.model_requests) == 1
    assert [message.role for message in stage.agent.state.messages] == ["user"]


async def test_an_overflow_of_the_continued_run_is_continued_again(begun: Stage) -> None:
    begun.side.reject_next = 1

    def reject_once_more(event: Any) -> None:
        if event.type == "tool_execution_end" and len(begun.side.rejections) == 1:
            begun.side.reject_next = 1

    begun.agent.subscribe(reject_once_more)
    assert extract_text(await begun.hook.prompt(begun.agent, SECOND.user)) == SECOND.answers[-1].text
    assert len(begun.side.rejections) == 2
    begun.demand_whole_history(said=2)


async def test_a_stream_function_that_raises_is_called_again(begun: Stage) -> None:
    """It was set after the hook was attached."""
    errors = [RuntimeError(TOO_LONG)]

    async def refuse(*call: Any) -> Any:
        if errors:
            raise errors.pop()
        return await stream_openai(*call)

    begun.agent.stream_fn = refuse
    assert extract_text(await begun.hook.prompt(begun.agent, SECOND.user)) == SECOND.answers[-1].text
    assert begun.reasons == [CompactionReason.OVERFLOW]
    begun.demand_whole_history(said=2)


async def test_an_attached_agent_recovers_by_itself(stage: Stage) -> None:
    agent = stage.hook.attach(stage.agent)
    await agent.prompt(FIRST.user)
    stage.side.reject_next = 1
    assert extract_text(await agent.prompt(SECOND.user)) == SECOND.answers[-1].text
    assert len(stage.side.rejections) == 1
    stage.demand_whole_history(said=2)
    stage.side.reject_next = 2
    check_ended(stage, await agent.prompt("Well?"))
    assert "cannot be made to fit" in (agent.state.error or "")


async def test_a_second_attempt_has_the_messages_that_the_agent_makes_of_its_own(provider: LoopbackProvider) -> None:
    """`convert_to_llm` may be async, and may translate messages of custom roles."""

    class Note(CustomAgentMessage):
        role: str = "note"
        text: str = ""

    async def convert(messages: list[AgentMessage]) -> list[Any]:
        notes = {
            id(note): UserMessage(content=[TextContent(text=note.text)]) for note in messages if isinstance(note, Note)
        }
        return [notes.get(id(message), message) for message in messages]

    side = provider.conversation("notes", window=WINDOW)
    hook = compaction_hook(context_window=BELIEVED)
    agent = made_agent(hook, openai_model(provider.openai_url), "notes", SCRIPT, tools=[], convert_to_llm=convert)
    agent.replace_messages([*turns(8, 900), Note(text="a custom message")])
    side.reject_next = 1
    await hook.prompt(agent, "Well?")
    rejected, sent = side.model_requests
    assert sent.input_tokens < rejected.input_tokens
    assert [str(request.body).count("a custom message") for request in (rejected, sent)] == [1, 1]


# -- runs that stay as tinyagent ends them


async def test_other_errors_are_not_recovered(stage: Stage) -> None:
    stage.side.answers.appendleft(RATE_LIMIT)
    check_ended(stage, await stage.hook.prompt(stage.agent, FIRST.user))
    assert len(stage.side.requests) == 1
    assert not stage.events


async def test_other_errors_have_the_events_of_tinyagent_alone(stage: Stage) -> None:
    agent = made_agent(None, stage.model, stage.key, SCRIPT)
    told: list[str] = []
    agent.subscribe(lambda event: told.append(event.type))
    stage.side.answers.extendleft([RATE_LIMIT, RATE_LIMIT])
    await agent.prompt(FIRST.user)
    await stage.hook.prompt(stage.agent, FIRST.user)
    assert stage.told == told
    assert stage.agent.state.error == agent.state.error


async def test_another_error_of_the_resend_is_the_answer(begun: Stage) -> None:
    begun.side.reject_next = 1
    begun.side.answers.appendleft(OUTAGE)
    ended = await begun.hook.prompt(begun.agent, SECOND.user)
    check_ended(begun, ended)
    assert "Internal server error" in (begun.agent.state.error or "")
    assert begun.agent.state.messages[-2].role == "user"


async def test_compact_on_overflow_false_recovers_nothing(provider: LoopbackProvider) -> None:
    stage = Stage(provider, "off", settings=CompactionSettings(compact_on_overflow=False))
    stage.side.reject_next = 1
    check_ended(stage, await stage.hook.prompt(stage.agent, FIRST.user))
    assert stage.told.count("agent_start") == 1
    assert len(stage.side.requests) == 1


async def test_an_overflow_of_a_model_that_was_replaced_is_not_the_new_ones(
    stage: Stage, provider: LoopbackProvider
) -> None:
    await reject(stage)
    stage.agent.set_model(openai_model(provider.openai_url, id="another-model"))
    assert await stage.hook.recover(stage.agent)
    assert extract_text(stage.agent.state.messages[-1]) == FIRST.answers[-1].text
    assert not stage.events
    stage.demand_whole_history(said=1)


async def test_a_failed_answer_with_a_text_stays(begun: Stage) -> None:
    """Also if the hook did not see it arrive."""
    half = AssistantMessage(
        content=[TextContent(text="Half an")], stop_reason="error", error_message=TOO_LONG, model=MODEL
    )
    begun.agent.replace_messages([*begun.agent.state.messages, half])
    assert not await compaction_hook(context_window=BELIEVED).recover(begun.agent)
    check_ended(begun, half)


async def test_an_aborted_run_is_left_alone(stage: Stage) -> None:
    async def abort(*_: object) -> Any:
        stage.agent.abort()
        raise RuntimeError(TOO_LONG)

    stage.agent.stream_fn = abort
    check_ended(stage, await stage.hook.prompt(stage.agent, FIRST.user), "aborted")
    assert not stage.reasons
    assert not stage.side.requests


# -- a host that drives the agent itself


async def test_recover_continues_the_hosts_run_with_its_waiting_messages(stage: Stage) -> None:
    await reject(stage)
    stage.agent.follow_up(UserMessage(content=[TextContent(text=SECOND.user)]))
    assert await stage.hook.recover(stage.agent)
    assert extract_text(stage.agent.state.messages[-1]) == SECOND.answers[-1].text
    stage.demand_whole_history(said=2)
    assert not await stage.hook.recover(stage.agent)


async def test_recover_continues_a_restored_conversation(stage: Stage) -> None:
    await reject(stage)
    assert await restored(stage) == FIRST.answers[-1].text


@pytest.mark.parametrize("how", ["abort", "cancel"])
async def test_a_recovery_that_is_given_up_ends_the_run(stage: Stage, how: str) -> None:
    cancelled = asyncio.Event()

    async def wait(request: SummaryRequest) -> str:
        asyncio.get_running_loop().call_soon(run.cancel if how == "cancel" else stage.hook.abort)
        try:
            return str(await asyncio.Event().wait())
        finally:
            cancelled.set()

    stage.hook = compaction_hook(context_window=BELIEVED, summarizer=wait)
    stage.agent = made_agent(stage.hook, stage.model, stage.key, SCRIPT, tools=stage.tools)
    await stage.hook.prompt(stage.agent, FIRST.user)
    stage.side.reject_next, sent = 1, len(stage.side.requests)
    run = asyncio.ensure_future(stage.hook.prompt(stage.agent, SECOND.user))
    await asyncio.wait([run])
    await asyncio.wait_for(cancelled.wait(), 5)
    assert run.cancelled() is (how == "cancel")
    assert len(stage.side.requests) == sent + 1
    ended = stage.agent.state.messages[-1]
    # An aborted run ends as its stream function ends it: in an error event, or in an error that tinyagent calls an abort.
    expected = {"error", "aborted"} if how == "abort" else {None}
    assert getattr(ended, "stop_reason", None) in expected
    stage.hook = compaction_hook(context_window=BELIEVED)
    agent = made_agent(stage.hook, stage.model, stage.key, SCRIPT, tools=stage.tools)
    agent.replace_messages(stage.agent.state.messages)
    assert extract_text(await stage.hook.prompt(agent, SECOND.user)) == SECOND.answers[-1].text


# -- answers that show an overflow


async def test_a_silent_truncation_is_noticed_before_the_next_call(provider: LoopbackProvider) -> None:
    stage = Stage(provider, "silent", context_window=WINDOW)
    await stage.hook.prompt(stage.agent, FIRST.user)
    stage.side.answers.appendleft(Answer("Seen.", usage=Usage(input_tokens=WINDOW + 1, output_tokens=2)))
    before = len(stage.side.requests)
    assert extract_text(await stage.hook.prompt(stage.agent, "Well?")) == "Seen."
    assert len(stage.side.requests) == before + 1
    assert not stage.events
    await stage.hook.prompt(stage.agent, SECOND.user)
    assert stage.reasons
    seen, cut = stage.side.model_requests[before : before + 2]
    assert cut.input_tokens < seen.input_tokens
    stage.demand_whole_history(said=3)


def cut_stage(provider: LoopbackProvider, change: Callable[[Stage], object]) -> Stage:
    """A provider whose full window gives an empty answer, with the stop reason for length; change something after the first."""
    settings = CompactionSettings(auto_compact=False)
    stage = Stage(provider, "cut", context_window=4_096, settings=settings, on_event=lambda event: tell(event))
    stage.side.overflow, stage.side.window = "length", 4_096

    def tell(event: CompactionEvent) -> None:
        stage.events.append(event)
        if isinstance(event, CompactionFinished):
            change(stage)

    return stage


async def test_an_empty_answer_that_the_window_cut_off_is_asked_for_again(provider: LoopbackProvider) -> None:
    cuts: list[Stage] = []
    stage = cut_stage(provider, cuts.append)
    assert extract_text(await stage.hook.prompt(stage.agent, FIRST.user)) == FIRST.answers[-1].text
    assert len(stage.side.model_requests) == len(FIRST.answers) + len(cuts)
    assert stage.reasons == [CompactionReason.OVERFLOW] * len(cuts) != []
    assert stage.told.count("turn_start") == len(FIRST.answers)
    stage.demand_whole_history(said=1)


@folded(
    "change, status",
    {
        "it is cut off again": (lambda stage: setattr(stage.side, "window", 10), 200),
        "it fails": (lambda stage: stage.side.answers.appendleft(OUTAGE), 500),
    },
)
async def test_a_cut_off_answer_stays_if_the_second_is_no_better(
    change: Callable[[Stage], object], status: int, provider: LoopbackProvider
) -> None:
    stage = cut_stage(provider, change)
    check_ended(stage, await stage.hook.prompt(stage.agent, FIRST.user), "length")
    assert stage.side.requests[-1].status == status
    assert len(stage.reasons) == 1


async def test_an_answer_that_its_own_limit_cut_off_stays(stage: Stage) -> None:
    stage.side.answers.appendleft(Answer("", stop="length"))
    check_ended(stage, await stage.hook.prompt(stage.agent, FIRST.user), "length")
    assert len(stage.side.requests) == 1
