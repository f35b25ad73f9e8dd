"""The hook on the real tinyagent loop; only the model is scripted. Asserted is what the provider would receive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("tinyagent")

from compaction_adapters.tinyagent import TinyAgentFormat, compaction_hook, usage_of
from tinyagent import Agent, AgentOptions, extract_text
from tinyagent.agent_types import (
    AgentMessage,
    AgentTool,
    AgentToolResult,
    AssistantMessage,
    AssistantMessageEvent,
    CacheControl,
    Context,
    CustomAgentMessage,
    ImageContent,
    Model,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultMessage,
    UserMessage,
)

from compaction_hooks import CompactionSettings, SummaryRequest
from compaction_hooks.errors import FormatError
from compaction_hooks.testing import check_format
from tests.conversations import Scripted, controller, prose


class Reply:
    """A finished answer as tinyagent streams it: one `done` event."""

    def __init__(self, message: AssistantMessage) -> None:
        self._message = message
        self._events = [AssistantMessageEvent(type="done", message=message, reason="stop")]

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop()

    async def result(self) -> AssistantMessage:
        return self._message


class ScriptedModel:
    """Reads so many files one after the other, then says it is done. Remembers what it was sent."""

    def __init__(self, calls: int, parallel: int = 1) -> None:
        self.sent: list[list[Any]] = []
        self._left = calls
        self._parallel = parallel

    async def __call__(self, model: Model, context: Context, options: object) -> Reply:
        self.sent.append(list(context.messages))
        if self._left == 0:
            return Reply(AssistantMessage(content=[TextContent(text="All read.")], stop_reason="stop"))
        self._left -= 1
        calls = [
            ToolCallContent(id=f"c{self._left}-{n}", name="read_file", arguments={"path": f"src/m{self._left}_{n}.py"})
            for n in range(self._parallel)
        ]
        return Reply(AssistantMessage(content=[TextContent(text="Reading."), *calls], stop_reason="tool_calls"))


async def read_file(call_id: str, arguments: dict[str, Any], *_: object) -> AgentToolResult:
    return AgentToolResult(content=[TextContent(text=f"# {arguments['path']}\n{prose(400)}")])


def agent(model: ScriptedModel, hook: Callable[..., Awaitable[list[AgentMessage]]], **options: Any) -> Agent:
    tool = AgentTool(name="read_file", description="Reads a file.", parameters={"type": "object"}, execute=read_file)
    made = Agent(AgentOptions(stream_fn=model, transform_context=hook, **options))
    made.set_model(Model(provider="scripted", id="scripted", api="scripted"))
    made.set_system_prompt("You read files.")
    made.set_tools([tool])
    return made


def shown(messages: list[Any]) -> str:
    return "\n".join(message.model_dump_json() for message in messages)


async def test_a_prompt_of_ones_own_says_how_the_summary_is_written() -> None:
    prompts: list[str] = []

    def summarize(request: SummaryRequest) -> str:
        prompts.append(request.prompt)
        return "- facts"

    settings = CompactionSettings(clear_tool_results=False)
    hook = compaction_hook(
        context_window=8_192, settings=settings, summarizer=summarize, summary_prompt="In French, please."
    )
    await agent(ScriptedModel(calls=40), hook).prompt("Read everything.")
    assert "In French, please." in prompts[0]


async def test_a_long_run_stays_inside_the_window() -> None:
    """The view is transient, the agent's own state stays whole; no call loses its result."""
    hooks = controller(8_192, settings=CompactionSettings(clear_tool_results=False))
    model = ScriptedModel(calls=40, parallel=3)
    run = agent(model, compaction_hook(hooks))
    await run.prompt("Read everything, and never write.")
    assert len(model.sent) == 41
    assert len(run.state.messages) == 1 + 40 * (1 + 3) + 1
    assert max(len(shown(view)) for view in model.sent) < 8_192 * 4
    for view in model.sent[-5:]:
        assert "conversation history before this point was compacted" in shown(view[:1])
        assert "never write" in shown(view[:2])
        calls = [block.id for m in view if m.role == "assistant" for block in m.content if block.type == "tool_call"]
        assert calls == [m.tool_call_id for m in view if m.role == "tool_result"]
    assert "was compacted" not in shown(run.state.messages)


async def test_kept_messages_are_the_agents_own_objects() -> None:
    views: list[list[AgentMessage]] = []
    inner = compaction_hook(controller(8_192))

    async def hook(messages: list[AgentMessage], signal: asyncio.Event | None) -> list[AgentMessage]:
        view = await inner(messages, signal)
        views.append(view)
        assert view[-1] is messages[-1]
        return view

    await agent(ScriptedModel(calls=3), hook).prompt("Read.")
    assert len(views) == 4


async def test_below_the_threshold_the_list_itself_comes_back() -> None:
    messages: list[AgentMessage] = [UserMessage(content=[TextContent(text="hello")])]
    assert await compaction_hook(context_window=8_192)(messages, None) is messages


@pytest.mark.parametrize("how", ["hook.prompt", "agent.prompt"])
async def test_abort_of_the_hook_ends_the_run_and_no_other(how: str) -> None:
    """tinyagent's loop does not look at the signal that `agent.abort()` sets: it would make all 40 calls."""

    class Aborting(ScriptedModel):
        async def __call__(self, model: Model, context: Context, options: object) -> Reply:
            if len(self.sent) == 2:
                hook.abort()
            return await super().__call__(model, context, options)

    hook, model = compaction_hook(context_window=100_000), Aborting(calls=40)
    run = hook.attach(agent(model, hook))
    hook.abort()  # nothing runs yet: it is no concern of the next run
    prompt = partial(hook.prompt, run) if how == "hook.prompt" else run.prompt
    answer = await prompt("Read.")
    assert len(model.sent) == 3
    assert isinstance(answer, AssistantMessage)
    assert answer.stop_reason == "aborted"
    model.sent += [[]] * 3
    assert extract_text(await prompt("Go on.")) == "All read."


async def test_abort_during_a_summary_goes_on_uncompacted() -> None:
    """The signal is raced against the summarizer, which is cancelled; no error reaches the agent."""
    cancelled = asyncio.Event()
    running: list[Agent] = []

    async def slow(request: SummaryRequest) -> str:
        running[0].abort()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    model = ScriptedModel(calls=40)
    settings = CompactionSettings(clear_tool_results=False)
    run = agent(model, compaction_hook(context_window=8_192, summarizer=slow, settings=settings))
    running.append(run)
    await run.prompt("Read.")
    await asyncio.wait_for(cancelled.wait(), 5)
    assert "was compacted" not in shown(model.sent[-1])
    assert run.state.error is None


async def test_prompt_caching_marks_are_kept() -> None:
    """tinyagent marks copies of the user's messages before the hook sees them, anew on every call."""
    asked = Scripted("- facts")
    model = ScriptedModel(calls=30)
    settings = CompactionSettings(clear_tool_results=False)
    hook = compaction_hook(context_window=8_192, summarizer=asked, settings=settings)
    run = agent(model, hook, enable_prompt_caching=True)
    await run.prompt("Read.")
    pinned = model.sent[-1][1]
    assert pinned.content[0].cache_control is not None
    assert len(asked.requests) < 6


async def test_system_prompt_and_tools_are_counted_when_told() -> None:
    messages: list[AgentMessage] = []
    for n in range(8):
        messages += [
            UserMessage(content=[TextContent(text=f"{n} {prose(200)}")]),
            AssistantMessage(content=[TextContent(text=prose(200))], stop_reason="stop"),
        ]
    messages.append(UserMessage(content=[TextContent(text="and?")]))
    assert await compaction_hook(context_window=8_192)(messages, None) is messages
    assert await compaction_hook(context_window=8_192, system=prose(3_000))(messages, None) is not messages


def test_the_format_keeps_its_contract() -> None:
    samples: list[AgentMessage] = [
        UserMessage(
            content=[TextContent(text="look"), ImageContent(url="https://x.test/a.png", mime_type="image/png")]
        ),
        AssistantMessage(
            content=[
                ThinkingContent(thinking="hm", thinking_signature="sig"),
                TextContent(text="ok"),
                None,
                ToolCallContent(id="1", name="write", arguments={"path": "a", "content": "x" * 500}),
            ],
            stop_reason="tool_calls",
            usage={"input": 120, "output": 4, "cache_read": 100, "cache_write": 0, "total_tokens": 124},
            model="m",
        ),
        ToolResultMessage(tool_call_id="1", tool_name="write", content=[TextContent(text="done")], is_error=True),
        CustomAgentMessage(role="note"),
    ]
    check_format(TinyAgentFormat(), samples)


def test_a_shortened_text_keeps_its_marks_and_its_neighbours() -> None:
    mark, image = CacheControl(type="ephemeral"), ImageContent(url="https://example.org/a.png")
    said = UserMessage(content=[TextContent(text="long", cache_control=mark), image])
    made = TinyAgentFormat().rewrite(said, {(0, 0): "cut"})
    assert isinstance(made, UserMessage)
    assert made.content[0] == TextContent(text="cut", cache_control=mark)
    assert made.content[1] is image
    assert said.content[0] == TextContent(text="long", cache_control=mark)


@pytest.mark.parametrize(
    ("usage", "api", "whole"),
    [
        pytest.param(
            {"input": 120, "output": 4, "cache_read": 100, "total_tokens": 124}, None, 120, id="cached inside input"
        ),
        pytest.param(
            {"input": 20, "output": 4, "cache_read": 100, "total_tokens": 124}, None, 120, id="more cached than input"
        ),
        pytest.param(
            {"input": 80, "output": 4, "cache_read": 50, "total_tokens": 134}, None, 130, id="beside it, by the total"
        ),
        pytest.param(
            {"input": 100, "output": 5, "cache_read": 50, "cache_write": 7, "total_tokens": 105},
            "anthropic-messages",
            157,
            id="beside it, by the API",
        ),
        pytest.param({"input": 0, "output": 0, "total_tokens": 0}, None, 0, id="an error's zeros"),
    ],
)
def test_cached_tokens_are_counted_once(usage: dict[str, Any], api: str | None, whole: int) -> None:
    """OpenAI-like providers count cached tokens inside the input, Anthropic-like ones beside it."""
    read = usage_of(usage, api)
    assert read is not None
    assert read.input_tokens == whole


@pytest.mark.parametrize("usage", [None, {}, {"cost": {"total": 0.1}}])
def test_usage_without_numbers_is_none(usage: dict[str, Any] | None) -> None:
    assert usage_of(usage) is None


def test_dicts_are_refused_with_the_fix() -> None:
    with pytest.raises(FormatError, match="message models"):
        TinyAgentFormat().read({"role": "user", "content": "hi"})  # type: ignore[arg-type]  # wrong on purpose
