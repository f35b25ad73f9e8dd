"""Requests that the provider refuses or cuts short, in every way to drive a run, over real HTTP."""

from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from compaction_adapters.pydantic_ai import Compaction, ModelContextOverflowError
from pydantic_ai import Agent, CapabilityEvent, RunContext, capabilities
from pydantic_ai import messages as ai
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import FallbackExceptionGroup, ModelContextWindowExceededError, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage

from compaction_hooks import (
    CompactionController,
    CompactionSettings,
    CompactionStarted,
    ContextOverflowError,
    parse_overflow,
)
from compaction_hooks.events import CompactionEvent
from tests.adapters.pydantic_ai_messages import (
    SECRET,
    Changing,
    CountingSummarizer,
    listen,
    reader,
    spoken,
    steps,
    texts,
)
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.cases import sampled
from tests.provider import WORDINGS, Answer, Rejection

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
LATE = CompactionSettings(auto_compact=False)
"""Compact for refusals only."""
OUTAGE = Rejection(500, {"error": {"message": "Internal server error", "type": "server_error"}})
needs_model_fallback = pytest.mark.skipif(
    not hasattr(capabilities, "ModelFallback"), reason="this pydantic-ai has only FallbackModel"
)


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
    listen(agent, Unrelated)
    return await by_run(agent, text, **options)


async def by_run_stream(agent: Agent[None, str], text: str, **options: Any) -> Driven:
    async with agent.run_stream(text, **options) as result:
        return await result.get_output(), result.all_messages()


async def by_iter(agent: Agent[None, str], text: str, *, streams: bool = False, **options: Any) -> Driven:
    async with agent.iter(text, **options) as run:
        async for node in run:
            if streams and Agent.is_model_request_node(node):
                request: Any = node
                async with request.stream(run.ctx) as stream:
                    async for _event in stream:
                        pass
    assert run.result is not None
    return run.result.output, run.result.all_messages()


async def by_iter_streaming(agent: Agent[None, str], text: str, **options: Any) -> Driven:
    return await by_iter(agent, text, streams=True, **options)


WAYS: list[Callable[..., Awaitable[Driven]]] = [
    by_run,
    by_run_with_a_handler,
    by_run_with_a_subscription,
    by_run_stream,
    by_iter,
    by_iter_streaming,
]
whole_and_streamed = pytest.mark.parametrize("way", [by_run, by_run_stream], ids=lambda way: way.__name__)


# -- overflows


DIFFERENT = {(by_run, False, "openai"), (by_run_with_a_handler, True, "anthropic")}
"""The cases that the fast suite has."""


@pytest.mark.parametrize(
    ("way", "persist", "kind"),
    [
        pytest.param(*case, marks=() if case in DIFFERENT else pytest.mark.full)
        for case in product(WAYS, (False, True), ("openai", "anthropic"))
    ],
)
async def test_each_overflow_of_a_run_is_recovered_once(way: Any, persist: bool, kind: str, stage: Stage) -> None:
    side, ran = stage.side(*steps(4)), list[str]()
    compaction = Compaction[None](context_window=WINDOW, persist=persist)
    agent: Agent[None, str] = Agent(getattr(stage, kind)(), capabilities=[compaction])

    @agent.tool_plain
    def read_file(path: str) -> str:
        ran.append(path)
        side.reject_next = len(ran) == 2
        return f"contents of {path}"

    history = spoken(6)
    side.reject_next = 1
    output, messages = await way(agent, "Go on.", message_history=history)
    assert output == "All read."
    assert ran == [f"src/{number}.py" for number in range(4)]
    assert [request.status for request in side.model_requests] == [400, 200, 200, 400, 200, 200, 200]
    assert side.model_requests[1].input_tokens < 0.6 * side.model_requests[0].input_tokens
    assert all(SECRET in texts(request.messages) for request in side.model_requests[1:])
    assert all("Go on." in texts(request.messages) for request in side.model_requests)
    assert "contents of src/1.py" in texts(side.model_requests[4].messages)
    assert (SECRET in texts(messages)) == persist
    assert (messages[: len(history)] == history) != persist
    assert len(messages) < len(history) + 10 if persist else len(messages) == len(history) + 10


@KINDS
async def test_the_second_attempt_is_prepared_for_the_wire_as_the_first_was(kind: str, stage: Stage) -> None:
    """Parts that no model takes as they are: the framework writes them anew for each model."""
    side = stage.side(Answer("Done."), window=6_000)
    feedback = ai.RetryFeedbackPart("not in this tone", retry=ai.RetryInfo("model_retry"))
    history = [*spoken(9), ModelRequest(parts=[UserPromptPart("More.")]), ModelResponse(parts=[TextPart("No.")])]
    speech = ModelResponse(parts=[ai.SpeechPart(speaker="assistant", transcript="Yes.")])
    history += [ModelRequest(parts=[feedback]), speech]
    agent = reader(getattr(stage, kind)(), Compaction())
    result = await agent.run("Go on.", message_history=history)
    assert result.output == "Done."
    assert [request.status for request in side.model_requests] == [400, 200]
    assert "not in this tone" in texts(side.model_requests[1].messages)
    assert result.usage.requests == len(side.requests) - 1  # the framework counts answers only


@whole_and_streamed
async def test_a_request_that_overflows_twice_ends_in_an_error_that_names_the_part(way: Any, stage: Stage) -> None:
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


OFF = CompactionSettings(compact_on_overflow=False)


@pytest.mark.parametrize(
    ("way", "settings", "status"),
    [
        pytest.param(by_run, OFF, 400, id="recovery is off"),
        pytest.param(by_run_stream, {"scripted": OFF, "*": CompactionSettings()}, 400, id="for this model"),
        pytest.param(by_run, None, 500, id="an outage"),
        pytest.param(by_run_stream, None, 500, id="an outage, streamed"),
    ],
)
async def test_other_errors_come_through_unchanged(way: Any, settings: Any, status: int, stage: Stage) -> None:
    side = stage.side(OUTAGE)
    side.reject_next = status == 400
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=settings))
    with pytest.raises(ModelHTTPError) as caught:
        await way(agent, "Go on.", message_history=spoken(6))
    assert caught.value.status_code == status
    assert len(side.requests) == 1


@KINDS
async def test_a_stream_that_breaks_before_its_first_chunk_is_recovered(kind: str, stage: Stage) -> None:
    side = stage.side(Answer("All done."))
    side.stream_fail_after = 0
    agent = reader(getattr(stage, kind)(), Compaction(context_window=WINDOW))
    assert (await by_run_stream(agent, "Go on.", message_history=spoken(6)))[0] == "All done."
    assert len(side.model_requests) == 2


# -- wordings


@KINDS
@pytest.mark.parametrize("wording", sampled(sorted(WORDINGS.keys() - {"cerebras"}), 2))  # that one has no words at all
async def test_errors_of_every_wording_are_recognized(wording: str, kind: str, stage: Stage) -> None:
    model = getattr(stage, kind)()
    stage.side(wording=wording).reject_next = 3
    limit = WINDOW if "{limit}" in WORDINGS[wording].text else None
    for asked, error_type in ((model, ModelHTTPError), (FallbackModel(model, model), FallbackExceptionGroup)):
        with pytest.raises(error_type) as caught:
            await Agent(asked).run("Go on.", model_settings={"max_tokens": 500})
        info = parse_overflow(caught.value)
        assert info is not None
        assert (info.kind, info.limit_tokens) == ("context_overflow", limit)


def test_the_frameworks_own_error_needs_no_words() -> None:
    error = ModelContextWindowExceededError("m", "no words of any provider")
    info = parse_overflow(FallbackExceptionGroup("all failed", [error]))
    assert info is not None
    assert info.kind == "context_overflow"


# -- behind a fallback


@whole_and_streamed
async def test_a_model_of_a_fallback_that_overflows_is_recovered_before_the_next_one_is_asked(
    way: Any, stage: Stage
) -> None:
    first, second = stage.side(*steps(1), key="a"), stage.side(key="b")
    first.reject_next = 1
    agent = reader(FallbackModel(stage.openai("a"), stage.anthropic("b")), Compaction(context_window=WINDOW))
    output, messages = await way(agent, "Go on.", message_history=spoken(6))
    assert output == "All read."
    assert [request.status for request in first.model_requests] == [400, 200, 200]
    assert second.requests == []
    assert SECRET not in texts(messages)


@whole_and_streamed
async def test_a_model_of_a_fallback_that_overflows_twice_leaves_the_request_to_the_next_one(
    way: Any, stage: Stage
) -> None:
    first, second = stage.side(key="a"), stage.side(*steps(1), key="b")
    first.reject_next = 9
    agent = reader(FallbackModel(stage.openai("a"), stage.anthropic("b")), Compaction(context_window=WINDOW))
    assert (await way(agent, "Go on.", message_history=spoken(6)))[0] == "All read."
    assert len(first.model_requests) == 4  # two for each of the two requests
    assert second.rejections == []
    assert SECRET in texts(second.model_requests[0].messages)


@needs_model_fallback
@whole_and_streamed
async def test_a_request_that_overflows_twice_goes_to_the_frameworks_own_fallback(way: Any, stage: Stage) -> None:
    small, large = stage.side(key="a"), stage.side(*steps(1), key="b", window=100_000)
    small.reject_next = 9
    fallback = capabilities.ModelFallback(stage.anthropic("b"))
    agent = reader(stage.openai("a"), fallback, Compaction(context_window=WINDOW))
    assert (await way(agent, "Go on.", message_history=spoken(6)))[0] == "All read."
    assert len(small.model_requests) == 4
    assert not large.rejections


@needs_model_fallback
@pytest.mark.parametrize(("turns", "refuses"), [(9, 0), (5, 1)], ids=["the view fits it", "it refuses"])
async def test_a_smaller_model_that_the_framework_moves_on_to_has_its_own_window(
    turns: int, refuses: int, stage: Stage
) -> None:
    """The framework chose it after the view was made. It need not refuse the larger model's view first."""
    stage.side(OUTAGE, key="a")
    small = stage.side(Answer("All read."), key="b", window=6_000, wording="groq")
    events: list[CompactionEvent] = []
    agent = reader(
        stage.openai("a", profile={"context_window": 100_000}),
        capabilities.ModelFallback(stage.openai("b", model="other", profile={"context_window": 6_000})),
        Compaction(on_event=events.append),
    )
    small.reject_next = refuses
    assert (await agent.run("Go on.", message_history=spoken(turns))).output == "All read."
    assert len(small.rejections) == refuses
    assert SECRET in texts(small.model_requests[-1].messages)
    assert {event.context_window for event in events if isinstance(event, CompactionStarted)} == {6_000}


# -- answers cut short


@pytest.mark.parametrize(("kind", "overflow"), [("openai", "length"), ("anthropic", "stop_reason")])
async def test_an_answer_that_the_window_cut_is_asked_for_again(kind: str, overflow: Any, stage: Stage) -> None:
    """An empty answer that stopped for its length, or Anthropic's `model_context_window_exceeded`, both with status 200."""
    side = stage.side(*steps(1), window=6_000, overflow=overflow)
    agent = reader(getattr(stage, kind)(), Compaction(context_window=6_000, settings=LATE))
    assert (await agent.run("Go on.", message_history=spoken(9))).output == "All read."
    assert side.model_requests[0].input_tokens > 6_000 > side.model_requests[1].input_tokens


# -- media


async def test_too_many_bytes_of_images_are_sent_once_more_without_the_oldest(stage: Stage) -> None:
    side = stage.side(Answer("Fine."), window=100_000)
    side.limit_bytes = 250_000
    agent = reader(stage.openai(), Compaction(context_window=100_000, summarizer=CountingSummarizer()))
    images = [ai.BinaryContent(bytes([number]) * 30_000, media_type="image/png") for number in range(8)]
    history: list[ModelMessage] = []
    for image in images:
        history += [ModelRequest(parts=[UserPromptPart(["Look.", image])]), ModelResponse(parts=[TextPart("Seen.")])]
    assert (await agent.run("And now?", message_history=history)).output == "Fine."
    assert [request.status for request in side.model_requests] == [413, 200]
    sent = str(side.model_requests[1].messages)
    assert [image.base64 in sent for image in images] == [False] * 4 + [True] * 4
    assert sent.count("[Left out, the request was too large with it: image/png sha256 ") == 4


# -- with other capabilities


def remind(_: RunContext[None], request: ModelRequestContext) -> None:
    request.messages = [*request.messages, ModelRequest(parts=[ai.SystemPromptPart("Mind the gap.")])]


def enqueue(ctx: RunContext[None], _: ModelRequestContext) -> None:
    """The message is delivered after the view, into the run's history, and stays there."""
    if ctx.run_step == 1:
        ctx.enqueue("Mind the gap.")


@pytest.mark.parametrize("persist", [False, True])
@pytest.mark.parametrize("other", ["reminder before", "reminder after", "enqueuing"])
async def test_messages_of_other_capabilities_are_in_the_second_attempt(
    other: str, persist: bool, stage: Stage
) -> None:
    if other == "reminder after" and not hasattr(AbstractCapability, "prepare_model_request"):
        pytest.skip("this pydantic-ai does not show messages added later")
    side = stage.side(*steps(1))
    side.reject_next = 1
    both = [
        Changing(enqueue if other == "enqueuing" else remind),
        Compaction[None](context_window=WINDOW, persist=persist),
    ]
    agent = reader(stage.openai(), *(both if other == "reminder before" else reversed(both)))
    result = await agent.run("Go on.", message_history=spoken(6))
    assert result.output == "All read."
    sent = [texts(request.messages).count("Mind the gap.") for request in side.model_requests]
    assert sent in ([[1, 1, 1], [0, 0, 1]] if other == "enqueuing" else [[1, 1, 1]])  # older versions deliver it later
    assert texts(result.all_messages()).count("Mind the gap.") == (other == "enqueuing")


# -- outside the run


async def test_a_worker_that_does_not_know_the_run_recovers_the_request_alone(stage: Stage) -> None:
    """Durable engines send requests elsewhere, on the agent's own capabilities."""
    side = stage.side(Answer("Done."))
    side.reject_next = 1
    controller: CompactionController[Any] = CompactionController(context_window=WINDOW)
    model = Compaction[None](controller).get_wrapper_model(stage.openai())
    assert model is not None
    messages = [*spoken(6), ModelRequest(parts=[UserPromptPart("Go on.")])]
    assert (await model.request(messages, None, ModelRequestParameters())).text == "Done."
    assert [request.status for request in side.requests] == [400, 200]
    assert controller.state().context_tokens is None


async def test_a_paused_answer_is_continued_as_it_is() -> None:
    """The provider wants exactly its own messages: neither a view nor a second attempt."""
    asked: list[int] = []

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        asked.append(len(messages))
        raise ModelHTTPError(400, "m", {"message": "prompt is too long: 9 tokens > 8 maximum"})

    compaction = Compaction[None](context_window=WINDOW)
    model = compaction.get_wrapper_model(FunctionModel(answer))
    assert model is not None
    paused = [*spoken(40), ModelResponse(parts=[TextPart("Let me")], state="suspended")]
    with pytest.raises(ModelHTTPError):
        await model.request(paused, None, ModelRequestParameters())
    assert asked == [81]
    ctx = RunContext[None](deps=None, model=model, usage=RunUsage(), messages=paused)
    request = ModelRequestContext(
        model=model, messages=paused, model_settings=None, model_request_parameters=ModelRequestParameters()
    )
    assert (await compaction.before_model_request(ctx, request)).messages is paused
