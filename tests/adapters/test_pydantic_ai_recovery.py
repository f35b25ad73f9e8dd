"""Overflows that the provider reports, in every way a run can be driven, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)
pytest.importorskip("pydantic_ai.models.anthropic", exc_type=ImportError)

from compaction_adapters.pydantic_ai import Compaction, ModelContextOverflowError
from pydantic_ai import Agent, CapabilityEvent, RunContext, capabilities
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelContextWindowExceededError,
    ModelHTTPError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SpeechPart,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage

from compaction_hooks import (
    CompactionController,
    CompactionSettings,
    CompactionStarted,
    ContextOverflowError,
    Usage,
)
from compaction_hooks.events import CompactionEvent
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import SECRET, reader, reads, spoken, steps, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage, own_event_loop
from tests.cases import crossed
from tests.provider import Answer, Rejection

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
LATE = CompactionSettings(auto_compact=False)
"""Nothing is compacted but for what the provider says."""
OUTAGE = Rejection(500, {"error": {"message": "Internal server error", "type": "server_error"}})


# -- ways to drive a run: each gives the final text and all messages

Driven = tuple[str, list[ModelMessage]]


@dataclass(kw_only=True)
class Unrelated(CapabilityEvent, namespace="tests", name="unrelated"):
    """Listening to any event makes `run` stream."""


async def by_run(agent: Agent[None, str], text: str, **options: Any) -> Driven:
    result = await agent.run(text, **options)
    return result.output, result.all_messages()


async def by_run_with_a_handler(agent: Agent[None, str], text: str, **options: Any) -> Driven:
    async def drain(_: RunContext[None], events: AsyncIterable[object]) -> None:
        async for _event in events:
            pass

    return await by_run(agent, text, event_stream_handler=drain, **options)


async def by_run_with_a_subscription(agent: Agent[None, str], text: str, **options: Any) -> Driven:
    @agent.on_event(Unrelated)
    async def listen(_: RunContext[None], event: Unrelated) -> None:
        raise AssertionError(event)

    return await by_run(agent, text, **options)


async def by_run_stream(agent: Agent[None, str], text: str, **options: Any) -> Driven:
    async with agent.run_stream(text, **options) as result:
        return await result.get_output(), result.all_messages()


async def by_iter(agent: Agent[None, str], text: str, **options: Any) -> Driven:
    async with agent.iter(text, **options) as run:
        async for _ in run:
            pass
    assert run.result is not None
    return run.result.output, run.result.all_messages()


async def by_iter_streaming(agent: Agent[None, str], text: str, **options: Any) -> Driven:
    async with agent.iter(text, **options) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                request: Any = node
                async with request.stream(run.ctx) as stream:
                    async for _event in stream:
                        pass
    assert run.result is not None
    return run.result.output, run.result.all_messages()


WAYS: list[Callable[..., Awaitable[Driven]]] = [
    by_run,
    by_run_with_a_handler,
    by_run_with_a_subscription,
    by_run_stream,
    by_iter,
    by_iter_streaming,
]
whole_and_streamed = pytest.mark.parametrize("way", [by_run, by_run_stream], ids=lambda way: way.__name__)


@crossed(way=WAYS, persist=[False, True], kind=["openai", "anthropic"])
async def test_an_overflow_is_recovered_once(way: Any, persist: bool, kind: str, stage: Stage) -> None:
    """One compact-and-retry; the failed attempt is in no history; the tool work done is kept."""
    side = stage.side(*steps(4))
    agent = reader(getattr(stage, kind)(), Compaction(context_window=WINDOW, persist=persist))
    history = spoken(6)
    side.reject_next = 1
    output, messages = await way(agent, "Go on.", message_history=history)
    assert output == "All read."
    assert [request.status for request in side.model_requests] == [400, *[200] * 5]
    assert side.model_requests[1].input_tokens < 0.6 * side.model_requests[0].input_tokens
    assert all(SECRET in texts(request.messages) for request in side.model_requests[1:])
    assert all("Go on." in texts(request.messages) for request in side.model_requests)
    if not persist:
        assert messages[: len(history)] == history
        assert len(messages) == len(history) + 10
        assert SECRET not in texts(messages)
    else:
        assert len(messages) < len(history)
        assert SECRET in texts(messages)


@crossed(way=WAYS, kind=["openai", "anthropic"])
async def test_an_overflow_in_the_middle_of_a_run_keeps_the_tool_work(way: Any, kind: str, stage: Stage) -> None:
    """The tools that ran do not run again."""
    side = stage.side(reads("a.py"), reads("b.py"), reads("c.py"), Answer("All read."))
    ran: list[str] = []
    agent: Agent[None, str] = Agent(getattr(stage, kind)(), capabilities=[Compaction(context_window=WINDOW)])

    @agent.tool_plain
    def read_file(path: str) -> str:
        ran.append(path)
        side.reject_next = len(ran) == 2
        return f"contents of {path}"

    output, _ = await way(agent, "Go on.", message_history=spoken(6))
    assert (output, ran) == ("All read.", ["a.py", "b.py", "c.py"])
    assert [request.status for request in side.model_requests] == [200, 200, 400, 200, 200]
    assert "contents of b.py" in texts(side.model_requests[3].messages)


@KINDS
async def test_the_second_attempt_is_prepared_for_the_wire_as_the_first_was(kind: str, stage: Stage) -> None:
    """Parts that no model takes as they are: the framework writes them anew for each model."""
    side = stage.side(Answer("Done."), window=6_000)
    feedback = RetryFeedbackPart("not in this tone", retry=RetryInfo("model_retry"))
    history = [*spoken(9), ModelRequest(parts=[UserPromptPart("More.")]), ModelResponse(parts=[TextPart("No.")])]
    history += [
        ModelRequest(parts=[feedback]),
        ModelResponse(parts=[SpeechPart(speaker="assistant", transcript="Yes.")]),
    ]
    agent = reader(getattr(stage, kind)(), Compaction())
    assert (await agent.run("Go on.", message_history=history)).output == "Done."
    assert [request.status for request in side.model_requests] == [400, 200]
    assert "not in this tone" in texts(side.model_requests[1].messages)


def test_a_sync_run_is_recovered(provider: Any) -> None:
    made = Stage(provider, "sync")
    side = made.side(*steps(2))
    side.reject_next = 1
    agent = reader(made.openai(), Compaction(context_window=WINDOW))
    with own_event_loop():
        assert agent.run_sync("Go on.", message_history=spoken(6)).output == "All read."
    assert [request.status for request in side.model_requests] == [400, 200, 200, 200]


async def test_the_failed_attempt_is_no_request_of_the_run(stage: Stage) -> None:
    """The framework counts the requests that were answered, and the summary."""
    side = stage.side(*steps(1))
    side.reject_next = 1
    agent = reader(stage.openai(), Compaction(context_window=WINDOW))
    result = await agent.run("Go on.", message_history=spoken(6))
    assert len(side.rejections) == 1
    assert result.usage.requests == len(side.requests) - 1 == 3


@whole_and_streamed
async def test_what_overflows_twice_is_an_error_that_names_the_part(way: Any, stage: Stage) -> None:
    """No third attempt; the provider's error is the cause."""
    side = stage.side(Answer("never"))
    side.reject_next = 5
    agent = reader(stage.openai(), Compaction(context_window=WINDOW))
    with pytest.raises(ContextOverflowError) as caught:
        await way(agent, "Go on.", message_history=spoken(6))
    assert len(side.model_requests) == 2
    assert caught.value.part is not None
    assert isinstance(caught.value, ModelContextOverflowError)
    assert isinstance(caught.value, ModelContextWindowExceededError)
    assert caught.value.model_name == "scripted"
    assert isinstance(caught.value.__cause__, ModelHTTPError)


SWITCHED_OFF = [
    CompactionSettings(compact_on_overflow=False),
    {"scripted": CompactionSettings(compact_on_overflow=False), "*": CompactionSettings()},
]
"""For all models, and for the one that is asked."""


@pytest.mark.parametrize(("way", "settings"), list(zip((by_run, by_run_stream), SWITCHED_OFF, strict=True)))
async def test_recovery_can_be_switched_off(way: Any, settings: Any, stage: Stage) -> None:
    """The provider's error comes through untouched."""
    side = stage.side()
    side.reject_next = 1
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=settings))
    with pytest.raises(ModelHTTPError):
        await way(agent, "Go on.", message_history=spoken(6))
    assert len(side.requests) == 1


@whole_and_streamed
async def test_other_errors_are_none_of_our_business(way: Any, stage: Stage) -> None:
    """No compaction, no second attempt."""
    side = stage.side(OUTAGE)
    agent = reader(stage.openai(), Compaction(context_window=WINDOW))
    with pytest.raises(ModelHTTPError) as caught:
        await way(agent, "Go on.", message_history=spoken(6))
    assert caught.value.status_code == 500
    assert len(side.requests) == 1


# -- streams


@KINDS
async def test_a_stream_that_breaks_before_its_first_chunk_is_recovered(kind: str, stage: Stage) -> None:
    side = stage.side(Answer("All done."))
    side.stream_fail_after = 0
    agent = reader(getattr(stage, kind)(), Compaction(context_window=WINDOW))
    output, _ = await by_run_stream(agent, "Go on.", message_history=spoken(6))
    assert output == "All done."
    assert len(side.model_requests) == 2


async def test_a_stream_that_breaks_later_is_an_error(stage: Stage) -> None:
    """What was shown cannot be taken back: the error surfaces, nothing is sent again."""
    side = stage.side(Answer("word " * 200))
    side.stream_fail_after = 5
    agent = reader(stage.openai(), Compaction(context_window=WINDOW))
    with pytest.raises(ModelAPIError):
        await by_run_stream(agent, "Go on.", message_history=spoken(6))
    assert len(side.requests) == 1


# -- behind a fallback


@whole_and_streamed
async def test_an_overflow_of_all_models_of_a_fallback_is_recovered(way: Any, stage: Stage) -> None:
    """Behind a `FallbackModel` the error is a group."""
    sides = [stage.side(key=key) for key in "ab"]
    sides[0].answers.extend(steps(1))
    for side in sides:
        side.reject_next = 1
    agent = reader(FallbackModel(stage.openai("a"), stage.anthropic("b")), Compaction(context_window=WINDOW))
    output, messages = await way(agent, "Go on.", message_history=spoken(6))
    assert output == "All read."
    assert [len(side.rejections) for side in sides] == [1, 1]
    assert [len(side.model_requests) for side in sides] == [3, 1]
    assert SECRET not in texts(messages)


async def test_a_fallback_that_answers_needs_no_recovery(stage: Stage) -> None:
    """The larger model took it; nothing is compacted, and the smaller one's error is its own."""
    small, large = stage.side(key="a", window=2_000), stage.side(*steps(1), key="b")
    agent = reader(FallbackModel(stage.openai("a"), stage.anthropic("b")), Compaction(context_window=WINDOW))
    assert (await agent.run("Go on.", message_history=spoken(6))).output == "All read."
    assert len(small.rejections) == len(small.requests) == 2
    assert SECRET not in texts(large.model_requests[-1].messages)


@pytest.mark.skipif(not hasattr(capabilities, "ModelFallback"), reason="this pydantic-ai has only FallbackModel")
@whole_and_streamed
async def test_what_overflows_twice_goes_to_the_frameworks_own_fallback(way: Any, stage: Stage) -> None:
    """The error that is left is one that `ModelFallback` falls back on."""
    small, large = stage.side(key="a"), stage.side(*steps(1), key="b", window=100_000)
    small.reject_next = 9
    agent = reader(
        stage.openai("a"), capabilities.ModelFallback(stage.anthropic("b")), Compaction(context_window=WINDOW)
    )
    output, _ = await way(agent, "Go on.", message_history=spoken(6))
    assert output == "All read."
    assert len(small.model_requests) == 4
    assert not large.rejections


# -- what answers tell


async def test_an_answer_cut_short_by_the_window_is_asked_for_again(stage: Stage) -> None:
    """OpenAI-like servers stop for length with an empty answer where the input fills the window."""
    side = stage.side(*steps(1), window=6_000, overflow="length")
    agent = reader(stage.openai(), Compaction(context_window=6_000, settings=LATE))
    assert (await agent.run("Go on.", message_history=spoken(9))).output == "All read."
    assert side.model_requests[0].input_tokens > 6_000 > side.model_requests[1].input_tokens


async def test_an_answer_that_says_the_window_was_exceeded_is_asked_for_again(stage: Stage) -> None:
    """Anthropic's `model_context_window_exceeded` comes with status 200."""
    side = stage.side(*steps(1), window=6_000, overflow="stop_reason")
    agent = reader(stage.anthropic(), Compaction(context_window=6_000, settings=LATE))
    assert (await agent.run("Go on.", message_history=spoken(9))).output == "All read."
    assert side.model_requests[0].input_tokens > 6_000 > side.model_requests[1].input_tokens


async def test_an_answer_cut_short_by_its_own_limit_is_an_answer(stage: Stage) -> None:
    """`length` with as much as was asked for, far below the window."""
    side = stage.side(Answer("half a", stop="length", usage=Usage(input_tokens=900, output_tokens=5)))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW))
    result = await agent.run("Go on.", message_history=spoken(2), model_settings={"max_tokens": 5})
    assert result.output == "half a"
    assert len(side.requests) == 1


async def test_silent_truncation_compacts_before_the_next_request(stage: Stage) -> None:
    """Accepted although it was too long; the answer stands, the next request is smaller."""
    side = stage.side(*steps(3), window=6_000, overflow="truncate")
    capability = Compaction[None](context_window=6_000, settings=LATE)
    agent = reader(stage.openai(), capability, tokens=300)
    assert (await agent.run("Go on.", message_history=spoken(9))).output == "All read."
    sizes = [request.input_tokens for request in side.model_requests]
    assert sizes[0] > 6_000
    assert all(size < 4_000 for size in sizes[1:])


# -- with others


class Reminder(AbstractCapability[None]):
    """Puts a message into each request that is in no history."""

    async def before_model_request(
        self, ctx: RunContext[None], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        reminder = ModelRequest(parts=[SystemPromptPart("Remember the budget.")])
        request_context.messages = [*request_context.messages, reminder]
        return request_context


@pytest.mark.parametrize("persist", [pytest.param(False, id="transient"), pytest.param(True, id="persisted")])
@pytest.mark.parametrize("order", ["before", "after"])
async def test_what_others_put_into_a_request_is_in_the_second_attempt(order: str, persist: bool, stage: Stage) -> None:
    side = stage.side(*steps(1))
    side.reject_next = 1
    compaction = Compaction[None](context_window=WINDOW, persist=persist)
    both = [Reminder(), compaction] if order == "before" else [compaction, Reminder()]
    agent = reader(stage.openai(), *both)
    if order == "after" and not hasattr(AbstractCapability, "prepare_model_request"):
        pytest.skip("this pydantic-ai does not show what comes after")
    result = await agent.run("Go on.", message_history=spoken(6))
    assert result.output == "All read."
    assert all("Remember the budget." in texts(request.messages) for request in side.model_requests)
    assert "Remember the budget." not in texts(result.all_messages())


@pytest.mark.parametrize("persist", [pytest.param(False, id="transient"), pytest.param(True, id="persisted")])
async def test_what_was_enqueued_for_a_request_is_in_the_second_attempt(persist: bool, stage: Stage) -> None:
    """It is delivered behind the view, into the run's history, and stays there."""
    side = stage.side(*steps(1))
    side.reject_next = 1

    class Enqueuing(AbstractCapability[None]):
        async def before_model_request(
            self, ctx: RunContext[None], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            if ctx.run_step == 1:
                ctx.enqueue("Mind the gap.")
            return request_context

    agent = reader(stage.openai(), Compaction(context_window=WINDOW, persist=persist), Enqueuing())
    result = await agent.run("Go on.", message_history=spoken(6))
    assert result.output == "All read."
    shown = [texts(request.messages).count("Mind the gap.") for request in side.model_requests]
    assert shown in ([1, 1, 1], [0, 0, 1])  # older versions deliver it with the next request
    assert texts(result.all_messages()).count("Mind the gap.") == 1


@pytest.mark.skipif(not hasattr(capabilities, "ModelFallback"), reason="this pydantic-ai has only FallbackModel")
async def test_the_window_is_that_of_the_model_that_refused(stage: Stage) -> None:
    """The framework moved on to another model after the view was made; that one's window is learned and used."""
    stage.side(OUTAGE, key="a")
    small = stage.side(Answer("All read."), key="b", window=6_000, wording="groq")
    events: list[CompactionEvent] = []
    agent = reader(
        stage.openai("a", profile={"context_window": 100_000}),
        capabilities.ModelFallback(stage.openai("b", model="other", profile={"context_window": 6_000})),
        Compaction(on_compaction=events.append),
    )
    small.reject_next = 1
    assert (await agent.run("Go on.", message_history=spoken(5))).output == "All read."
    assert {event.context_window for event in events if isinstance(event, CompactionStarted)} == {6_000}


@pytest.mark.skipif(not hasattr(capabilities, "ModelFallback"), reason="this pydantic-ai has only FallbackModel")
async def test_a_smaller_model_that_the_framework_moves_on_to_gets_what_fits_it(stage: Stage) -> None:
    """It need not refuse the larger model's view first."""
    stage.side(OUTAGE, key="a")
    small = stage.side(Answer("All read."), key="b", window=6_000)
    agent = reader(
        stage.openai("a", profile={"context_window": 100_000}),
        capabilities.ModelFallback(stage.openai("b", model="other", profile={"context_window": 6_000})),
        Compaction(),
    )
    assert (await agent.run("Go on.", message_history=spoken(9))).output == "All read."
    assert not small.rejections
    assert SECRET in texts(small.model_requests[-1].messages)


async def test_a_worker_that_does_not_know_the_run_recovers_the_request_alone(stage: Stage) -> None:
    """Durable engines send requests elsewhere, on the agent's own capabilities: what is sent is all there is."""
    side = stage.side(Answer("Done."))
    side.reject_next = 1
    controller: CompactionController[Any] = CompactionController(context_window=WINDOW)
    model = Compaction[None](controller).get_wrapper_model(stage.openai())
    assert model is not None
    messages = [*spoken(6), ModelRequest(parts=[UserPromptPart("Go on.")])]
    response = await model.request(messages, None, ModelRequestParameters())
    assert response.text == "Done."
    assert [request.status for request in side.requests] == [400, 200]
    assert controller.engine.conversation.history is None


async def test_a_paused_answer_is_continued_as_it_is() -> None:
    """The provider wants exactly what it had: neither a view nor a second attempt."""
    asked: list[int] = []

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        asked.append(len(messages))
        raise ModelHTTPError(400, "m", {"message": "prompt is too long: 9 tokens > 8 maximum"})

    model = Compaction[None](context_window=WINDOW).get_wrapper_model(FunctionModel(answer))
    assert model is not None
    paused = [*spoken(6), ModelResponse(parts=[TextPart("Let me")], state="suspended")]
    with pytest.raises(ModelHTTPError):
        await model.request(paused, None, ModelRequestParameters())
    assert asked == [13]
    ctx = RunContext[None](deps=None, model=model, usage=RunUsage(), messages=[*spoken(40), paused[-1]])
    request = ModelRequestContext(
        model=model, messages=ctx.messages, model_settings=None, model_request_parameters=ModelRequestParameters()
    )
    assert (await Compaction[None](context_window=WINDOW).before_model_request(ctx, request)).messages is ctx.messages
