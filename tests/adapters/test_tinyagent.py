"""The hook in tinyagent's real loop: the facts of every adapter, aborts, and the facts that it learns from its agent."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from compaction_adapters.tinyagent import compaction_hook, summarizer, usage_of
from tinyagent import Agent, extract_text
from tinyagent.agent_types import (
    AgentToolResult,
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Model,
    SimpleStreamOptions,
    TextContent,
    ToolCallContent,
    UserMessage,
)

from compaction_hooks import CompactionController, CompactionSettings, SummaryRequest
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.summary.prompts import SYSTEM_PROMPT
from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, Script, check_adapter, check_session
from tests import careless_model
from tests.adapters import summary_answers, tinyagent_stage
from tests.adapters.stage import PATTERNS, recorded_script
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
from tests.cases import folded
from tests.conversations import Scripted, prose
from tests.data import needs_data
from tests.host_facts import by_host_facts
from tests.provider import LoopbackProvider, Side

BARE = Script(turns=(), system="You are careful.")


@pytest.mark.parametrize("fact", ADAPTER_FACTS, ids=str)
def test_adapter_facts(fact: AdapterFact, provider: LoopbackProvider) -> None:
    check_adapter(tinyagent_stage.TinyAgentHarness(), provider, fact)


@by_host_facts(kind=["openai"])
def test_the_host_has_its_say(fact: AdapterFact, kind: str, provider: LoopbackProvider) -> None:
    check_adapter(tinyagent_stage.TinyAgentHarness(), provider, fact)


@needs_data
@pytest.mark.full
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_recorded_session_runs_to_its_end(pattern: str, provider: LoopbackProvider) -> None:
    check_session(tinyagent_stage.TinyAgentHarness(), provider, recorded_script(pattern))


# -- a model in this process


class Reply:
    """A finished answer as tinyagent streams it: one `done` event."""

    def __init__(self, *content: TextContent | ToolCallContent) -> None:
        self._message = AssistantMessage(content=[*content], stop_reason="tool_calls" if len(content) > 1 else "stop")
        self._events = iter([AssistantMessageEvent(type="done", message=self._message, reason="stop")])

    async def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        for event in self._events:
            yield event

    async def result(self) -> AssistantMessage:
        return self._message


class ScriptedModel:
    """A stream function that reads so many files one after the other, and keeps the messages of each call."""

    def __init__(self, calls: int) -> None:
        self.sent: list[list[Any]] = []
        self._left = calls

    async def __call__(self, model: Model, context: Context, options: object) -> Any:
        self.sent.append(list(context.messages))
        if self._left == 0:
            return Reply(TextContent(text="All read."))
        self._left -= 1
        call = ToolCallContent(id=f"c{self._left}", name="read_file", arguments={"path": f"src/m{self._left}.py"})
        return Reply(TextContent(text="Reading."), call)


async def read_file(call_id: str, arguments: dict[str, Any], *_: object) -> AgentToolResult:
    return AgentToolResult(content=[TextContent(text=f"# {arguments['path']}\n{prose(400)}")])


def scripted_agent(hook: Any, model: Any, **options: Any) -> Agent:
    agent = made_agent(hook, openai_model("http://127.0.0.1"), "k", SCRIPT, stream_fn=model, **options)
    for tool in agent.state.tools:
        tool.execute = read_file
    return agent


@pytest.mark.parametrize("how", ["hook", "agent"])
async def test_abort_ends_the_run_and_no_other(how: str) -> None:
    """tinyagent's loop does not check the signal that `agent.abort()` sets: it would make all 40 calls."""

    class Aborting(ScriptedModel):
        async def __call__(self, *arguments: Any) -> Any:
            if len(self.sent) == 2:
                abort()
            return await super().__call__(*arguments)

    hook, model = compaction_hook(context_window=100_000), Aborting(calls=40)
    agent = hook.attach(scripted_agent(hook, model))
    abort, prompt = (hook.abort, partial(hook.prompt, agent)) if how == "hook" else (agent.abort, agent.prompt)
    abort()  # without effect: nothing runs yet
    answer = await prompt("Read.")
    assert len(model.sent) == 3
    assert isinstance(answer, AssistantMessage)
    assert answer.stop_reason == "aborted"
    model.sent += [[]] * 3
    assert extract_text(await prompt("Go on.")) == "All read."


async def test_abort_during_a_summary_continues_uncompacted() -> None:
    cancelled = asyncio.Event()

    async def slow(request: SummaryRequest) -> str:
        agent.abort()
        try:
            return str(await asyncio.Event().wait())
        finally:
            cancelled.set()

    model, settings = ScriptedModel(calls=40), CompactionSettings(clear_tool_results=False)
    agent = scripted_agent(compaction_hook(context_window=8_192, summarizer=slow, settings=settings), model)
    await agent.prompt("Read.")
    await asyncio.wait_for(cancelled.wait(), 5)
    assert "was compacted" not in shown(model.sent[-1])
    assert agent.state.error is None


async def test_marks_of_prompt_caching_are_kept() -> None:
    """tinyagent marks copies of the user's messages before the hook sees them, anew on every call."""
    summarize, model = Scripted("- facts"), ScriptedModel(calls=30)
    settings = CompactionSettings(clear_tool_results=False)
    hook = compaction_hook(context_window=8_192, summarizer=summarize, settings=settings)
    await scripted_agent(hook, model, enable_prompt_caching=True).prompt("Read.")
    assert model.sent[-1][1].content[0].cache_control is not None
    assert len(summarize.requests) < 6


async def test_system_and_tools_of_compaction_hook_count() -> None:
    messages = [*turns(8, 200), UserMessage(content=[TextContent(text="and?")])]
    assert await compaction_hook(context_window=8_192)(messages, None) is messages
    assert await compaction_hook(context_window=8_192, system=prose(3_000))(messages, None) is not messages
    assert await compaction_hook(context_window=8_192, tools=[prose(3_000)])(messages, None) is not messages


# -- summaries

QUESTION = SummaryRequest(
    system=SYSTEM_PROMPT,
    prompt="<conversation>[User]: hello</conversation> Summarize.",
    transcript="",
    previous_summary=None,
    focus=None,
    kind="history",
    max_tokens=700,
)


async def find_key(provider_name: str) -> str:
    return "summaries"


@pytest.mark.parametrize("api", ["openai", pytest.param("anthropic", marks=needs_binding)])
@folded("resolve", {"async": find_key, "sync": lambda _: "summaries"})
async def test_summarizer_asks_by_the_stream_function(api: str, resolve: Any, provider: LoopbackProvider) -> None:
    side = provider.conversation("summaries")
    side.summary_text = "## Goal\n- all of it"
    stream, model = (stream_openai, openai_model(provider.openai_url, id="small"))
    if api == "anthropic":
        stream, model = stream_anthropic, anthropic_model(provider.anthropic_url, id="small")
    answer: Any = summarizer(stream, model, get_api_key=resolve)(QUESTION)
    summary = await answer
    (request,) = side.requests
    assert (summary.text, summary.finish_reason, summary.tool_calls) == (side.summary_text, "stop", ())
    assert summary.usage.output_tokens > 0
    assert (request.is_summary, request.max_tokens, request.body["model"]) == (True, 8_892, "small")
    assert not request.tools
    assert QUESTION.prompt in str(request.messages[-1])


@pytest.mark.parametrize("api", ["openai", pytest.param("anthropic", marks=[needs_binding, pytest.mark.full])])
async def test_an_answer_that_is_no_summary_is_refused_and_reasoning_has_room(
    api: str, provider: LoopbackProvider
) -> None:
    side = provider.conversation("endings", window=200_000)
    stream, model = (stream_openai, openai_model(provider.openai_url))
    if api == "anthropic":
        stream, model = stream_anthropic, anthropic_model(provider.anthropic_url)
    await summary_answers.check(side, summarizer(stream, model, get_api_key=lambda _: "endings"))


async def test_a_failed_summary_is_an_error_with_the_providers_text(provider: LoopbackProvider) -> None:
    provider.conversation("outage").fail_summaries = True
    answer: Any = summarizer(stream_openai, openai_model(provider.openai_url), get_api_key=lambda _: "outage")(QUESTION)
    with pytest.raises(RuntimeError, match=r"500 - .*Internal server error"):
        await answer


async def test_the_agents_own_model_writes_the_summary_out_of_sight(provider: LoopbackProvider) -> None:
    side, hook, agent = due(provider, "own")
    side.summary_text = "## Goal\n- KINGFISHER"
    seen: list[str] = []
    hook.attach(agent).subscribe(lambda event: seen.append(repr(event)))
    await agent.prompt("Is that so?")
    assert [request.is_summary for request in side.requests] == [True, False]
    assert "KINGFISHER" in str(side.requests[-1].body)
    assert "KINGFISHER" not in "".join(seen) + shown(agent.state.messages)


def due(
    provider: LoopbackProvider, key: str, window: int = WINDOW, *, attach: bool = False, **options: Any
) -> tuple[Side, Any, Agent]:
    """Return a side of the provider, a hook and its agent with a conversation that is due in `WINDOW`."""
    side = provider.conversation(key, window=WINDOW)
    hook = compaction_hook(context_window=window, **options)
    agent = made_agent(hook, openai_model(provider.openai_url), key, BARE)
    agent.replace_messages(turns(8, 900))
    return side, hook, hook.attach(agent) if attach else agent


@folded("is_attached, summarize", {"by hand": (True, Scripted("- by hand")), "no agent": (False, None)})
async def test_the_agents_model_writes_no_summary(
    is_attached: bool, summarize: Scripted | None, provider: LoopbackProvider
) -> None:
    side, _, agent = due(provider, "given", attach=is_attached, summarizer=summarize)
    await agent.prompt("Is that so?")
    assert summarize is None or len(summarize.requests) == 1
    assert [request.is_summary for request in side.requests] == [False]
    assert side.requests[0].input_tokens < WINDOW


# -- facts of the agent


@folded("part", ["system prompt", "tools"])
async def test_the_agents_system_prompt_and_tools_count(part: str, provider: LoopbackProvider) -> None:
    side, _, agent = due(provider, part, attach=True)
    agent.replace_messages(turns(6, 600))
    if part == "tools":
        agent.set_tools(made_agent(None, openai_model(provider.openai_url), part, SCRIPT).state.tools)
        agent.state.tools[0].description = prose(7_000)
    else:
        agent.set_system_prompt(prose(7_000))
    await agent.prompt("Is that so?")
    assert [request.is_summary for request in side.requests] == [True, False]


@folded(
    "fields, window", {"set by the user": ({"context_window": 10_000}, 10_000), "tinyagent's default": ({}, 50_000)}
)
async def test_a_window_counts_if_the_user_set_it(
    fields: dict[str, int], window: int, provider: LoopbackProvider
) -> None:
    provider.conversation("window")
    hook = compaction_hook(settings=CompactionSettings(default_context_window=50_000))
    await hook.prompt(made_agent(hook, openai_model(provider.openai_url, **fields), "window", BARE), "Hello.")
    assert hook.session.state().context_window == window


async def test_a_run_keeps_the_model_it_was_started_with(provider: LoopbackProvider) -> None:
    """tinyagent keeps it too, whatever is set meanwhile."""
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
async def test_usage_is_the_providers_count(api: str, provider: LoopbackProvider) -> None:
    """With Anthropic's API the binding leaves cached tokens out of input and total."""
    side = provider.conversation(f"usage {api}")
    model = openai_model(provider.openai_url) if api == "openai" else anthropic_model(provider.anthropic_url)
    agent = made_agent(None, model, f"usage {api}", BARE)
    await agent.prompt(prose(2_000))
    ended = await agent.prompt("Again.")
    assert isinstance(ended, AssistantMessage)
    usage = usage_of(ended.usage, ended.api)
    assert usage is not None
    assert usage.input_tokens == side.requests[-1].input_tokens
    assert usage.cache_read_tokens == side.requests[-1].cached_tokens > 1_000


# -- conversations


def test_a_conversation_is_named_by_the_user_then_by_the_agent() -> None:
    hooks: CompactionController[Any] = CompactionController(context_window=WINDOW)
    named, unnamed, other = compaction_hook(hooks, session_id="mine"), compaction_hook(hooks), compaction_hook(hooks)
    assert unnamed.session.id != other.session.id
    for hook in (named, unnamed):
        hook.attach(scripted_agent(hook, ScriptedModel(calls=0), session_id="thread-7"))
    assert (named.session.id, unnamed.session.id) == ("mine", "thread-7")


async def test_a_host_that_appends_during_a_recovery_is_not_overwritten(provider: LoopbackProvider) -> None:
    word = UserMessage(content=[TextContent(text="Never mind.")])

    async def append(request: SummaryRequest) -> str:
        agent.append_message(word)
        return "## Goal\n- to go on"

    side, hook, agent = due(provider, "meanwhile", 10 * WINDOW, summarizer=append)
    side.reject_next = 1
    ended = await hook.prompt(agent, "Is that so?")
    assert agent.state.messages[-2:] == [word, ended]
    assert len(side.requests) == 2


async def test_a_cancelled_prompt_cancels_tinyagents_loop(provider: LoopbackProvider) -> None:
    """tinyagent leaves the loop running in the background; the host would never see its next call."""
    reached = asyncio.Event()

    async def wait(request: SummaryRequest) -> str:
        reached.set()
        return str(await asyncio.Event().wait())

    side, hook, agent = due(provider, "orphan", summarizer=wait)
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


async def test_an_agent_made_without_the_hook_is_told(provider: LoopbackProvider) -> None:
    side, hook, _ = due(provider, "without", 10 * WINDOW)
    agent = made_agent(None, openai_model(provider.openai_url), "without", BARE)
    agent.replace_messages(turns(8, 900))
    side.reject_next = 2
    with pytest.raises(ConfigurationError, match=r"AgentOptions\(transform_context=hook\)"):
        await hook.prompt(agent, "Is that so?")


async def test_one_hook_serves_one_running_agent() -> None:
    hook = compaction_hook(context_window=WINDOW)
    first, second = (scripted_agent(hook, ScriptedModel(calls=0)) for _ in range(2))
    refused: list[ConfigurationError] = []

    def attach_second(event: Any) -> None:
        if event.type == "turn_start":
            with pytest.raises(ConfigurationError, match="of its own") as raised:
                hook.attach(second)
            refused.append(raised.value)

    stop = first.subscribe(attach_second)
    await hook.prompt(first, "Hello.")
    stop()
    assert len(refused) == 1
    own = first.stream_fn
    assert extract_text(await hook.prompt(second, "Hello.")) == "All read."
    assert isinstance(first.stream_fn, ScriptedModel)
    assert first.stream_fn is not own


async def test_the_hosts_own_calls_of_the_stream_function_are_left_alone() -> None:
    hook, model = compaction_hook(context_window=8_192), ScriptedModel(calls=0)
    agent = hook.attach(scripted_agent(hook, model))
    agent.replace_messages(turns(8, 900))
    await agent.prompt("Hello.")
    messages: Any = turns(8, 900)
    assert agent.stream_fn is not None
    await agent.stream_fn(openai_model("http://127.0.0.1"), Context(messages=messages), SimpleStreamOptions())
    assert model.sent[-1] == messages
    assert len(model.sent[0]) < len(messages)


async def test_a_stream_function_that_is_set_after_attaching_gets_views_too() -> None:
    hook, model = compaction_hook(context_window=8_192), ScriptedModel(calls=0)
    agent = hook.attach(scripted_agent(hook, None))
    agent.replace_messages(turns(8, 900))
    agent.stream_fn = model
    await agent.prompt("Hello.")
    assert len(model.sent[0]) < len(agent.state.messages) - 1


@pytest.mark.full
async def test_a_models_summary_gets_back_what_it_drops(provider: LoopbackProvider) -> None:
    model = summarizer(stream_openai, openai_model(provider.openai_url), get_api_key=lambda _: "careless")
    await careless_model.check(model, provider.conversation("careless"))
