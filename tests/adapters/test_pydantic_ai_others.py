"""Beside others: the framework's own knowledge in the messages, providers' compaction, pydantic-ai-harness."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)
pytest.importorskip("pydantic_ai.models.anthropic", exc_type=ImportError)

from compaction_adapters.kit import status_of
from compaction_adapters.pydantic_ai import Compaction, PydanticAIFormat, history_processor
from compaction_adapters.pydantic_ai.requests import count_replaced, leaf_models, model_name, pin_evidence
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability, Capability
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolSearchReturnPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RunUsage

from compaction_hooks import CompactionController, CompactionSettings, StoreFailed
from compaction_hooks.events import CompactionEvent
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import SECRET, CountingSummarizer, reader, reads, spoken, steps, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.cases import crossed
from tests.provider import Answer, Call

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
PERSIST = pytest.mark.parametrize("persist", [pytest.param(False, id="transient"), pytest.param(True, id="persisted")])
SUMMARISE = CompactionSettings(clear_tool_results=False)


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


# -- what the framework reads from the messages


@crossed(kind=["openai", "anthropic"], persist=[False, True])
async def test_tools_that_were_found_stay_found(persist: bool, kind: str, stage: Stage) -> None:
    """The framework looks for them behind the newest summary, so what tells of them stays there."""
    search, ask = Call("search_tools", {"queries": ["weather"]}), Call("weather", {"city": "Rome"})
    side = stage.side(Answer(calls=(search,)), *steps(26)[:-1], Answer(calls=(ask,)), Answer("Done."))
    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARISE, persist=persist)
    agent = reader(getattr(stage, kind)(), compaction)
    agent.tool_plain(defer_loading=True)(weather)
    result = await agent.run("Go on.")
    assert result.output == "Done."
    assert SECRET in texts(side.requests[-1].messages)
    assert all("weather" in texts(request.tools) for request in side.model_requests[1:])
    assert "sunny in Rome" in texts(side.requests[-1].messages)
    assert not side.rejections


@crossed(kind=["openai", "anthropic"], persist=[False, True])
async def test_capabilities_that_were_loaded_stay_loaded(persist: bool, kind: str, stage: Stage) -> None:
    load, ask = Call("load_capability", {"id": "climate"}), Call("weather", {"city": "Rome"})
    side = stage.side(Answer(calls=(load,)), *steps(26)[:-1], Answer(calls=(ask,)), Answer("Done."))
    climate = Capability[None](
        id="climate", description="Weather.", instructions="Say it in rhyme.", tools=[weather], defer_loading=True
    )
    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARISE, persist=persist)
    result = await reader(getattr(stage, kind)(), climate, compaction).run("Go on.")
    assert result.output == "Done."
    last = side.requests[-1]
    assert SECRET in texts(last.messages)
    assert all("weather" in texts(request.tools) for request in side.model_requests[1:])
    assert "Say it in rhyme." in texts(last.messages) + last.system
    assert "sunny in Rome" in texts(last.messages)
    assert not side.rejections


@pytest.mark.skipif(not hasattr(RunContext, "load_capability"), reason="this pydantic-ai loads none by code")
@PERSIST
async def test_capabilities_that_were_loaded_by_code_stay_loaded(persist: bool, stage: Stage) -> None:
    load, ask = Call("prepare", {}), Call("weather", {"city": "Rome"})
    side = stage.side(Answer(calls=(load,)), *steps(26)[:-1], Answer(calls=(ask,)), Answer("Done."))
    climate = Capability[None](
        id="climate", description="Weather.", instructions="Say it in rhyme.", tools=[weather], defer_loading=True
    )
    agent = reader(stage.openai(), climate, Compaction(context_window=WINDOW, settings=SUMMARISE, persist=persist))

    @agent.tool
    def prepare(ctx: RunContext[None]) -> str:
        assert ctx.load_capability("climate")
        return "ready"

    result = await agent.run("Go on.")
    assert result.output == "Done."
    last = side.requests[-1]
    assert SECRET in texts(last.messages)
    assert all("weather" in texts(request.tools) for request in side.model_requests[1:])
    assert "Say it in rhyme." in texts(last.messages)
    assert "sunny in Rome" in texts(last.messages)


def test_what_a_provider_found_stays_where_something_else_names_its_response() -> None:
    """A provider's own tool search stands in a response: that is kept whole."""
    found = NativeToolSearchReturnPart(
        content={"discovered_tools": [{"name": "weather"}]}, tool_call_id="n", provider_name="anthropic"
    )
    named, nameless = ModelResponse(parts=[found, TextPart("Found it.")]), ModelResponse(parts=[found])
    session = CompactionController[Any](context_window=WINDOW).session("s", format=PydanticAIFormat())
    messages = [*spoken(2), named, *spoken(4, first=2), nameless, *spoken(8, first=6)]
    pin_evidence(session, messages)
    made = session.compact_sync(messages).messages
    assert named in made
    assert nameless not in made


# -- what a provider compacted


def compacted_by(name: str, *, after: list[ModelMessage], calls: bool = False) -> list[ModelMessage]:
    """A conversation in which the provider itself compacted once."""
    product = CompactionPart("what the provider kept", provider_name=name)
    parts: list[Any] = [product, *([ToolCallPart("weather", {"city": "Bonn"}, "w1")] if calls else [TextPart("Yes.")])]
    own: list[ModelMessage] = [ModelResponse(parts=parts, provider_name=name)]
    if calls:
        own.append(ModelRequest(parts=[ToolReturnPart("weather", "sunny", "w1")]))
    return [*spoken(3), ModelRequest(parts=[UserPromptPart("And?")]), *own, *after]


@pytest.mark.parametrize("calls", [False, True], ids=["words beside it", "calls beside it"])
async def test_what_the_provider_compacted_is_left_alone(calls: bool, stage: Stage) -> None:
    """What lies before a provider's own summary is not sent, so it is neither counted nor cut, and the response is kept whole."""
    model = stage.anthropic()
    question = ModelRequest(parts=[UserPromptPart("And now?")])
    history = compacted_by("anthropic", after=[*spoken(18, first=3), question], calls=calls)
    head = history[: 9 if calls else 8]
    ctx = RunContext[None](deps=None, model=model, usage=RunUsage(), conversation_id="c")
    for method in ("compact", "process"):
        asked = CountingSummarizer()
        if method == "compact":
            view = await Compaction[None](context_window=WINDOW, summarizer=asked).compact(history, ctx)
        else:
            view = await history_processor(context_window=WINDOW, summarizer=asked)(ctx, history)
        assert all(one is other for one, other in zip(view, head, strict=False))
        assert SECRET in texts(view[len(head) :])
        assert len(asked.asked) == 1
        assert "Question 0." not in asked.asked[0].transcript
        assert "Question 3." in asked.asked[0].transcript


def test_only_models_that_leave_out_what_a_provider_compacted_count(stage: Stage) -> None:
    """Chat completions send everything: there the list is compacted like any other."""
    anthropic, openai = stage.anthropic(), stage.openai()
    history = compacted_by("anthropic", after=spoken(2))
    assert count_replaced(history, anthropic) == 8
    assert count_replaced(history, WrapperModel(anthropic)) == 8
    assert count_replaced(history, FallbackModel(anthropic, anthropic)) == 8
    assert count_replaced(history, FallbackModel(anthropic, openai)) == 0
    assert count_replaced(compacted_by("openai", after=[]), openai) == 0
    responses = OpenAIResponsesModel("m", provider=openai.provider or "openai")
    assert count_replaced(compacted_by("openai", after=[]), responses) == 8
    assert count_replaced(history, responses) == 0
    nothing = ModelResponse(parts=[CompactionPart(provider_name="anthropic")])
    empty = [nothing if message is history[7] else message for message in history]
    assert count_replaced(empty, anthropic) == 0


def test_the_name_behind_a_fallback_is_that_of_the_model_that_answered(stage: Stage) -> None:
    """Usage and windows are kept by model: the one that answered last is the likeliest to answer next."""
    fallback = FallbackModel(stage.openai(model="one"), stage.anthropic(model="two"))
    assert [leaf.model_name for leaf in leaf_models(WrapperModel(fallback))] == ["one", "two"]
    assert model_name(fallback, []) == "one"
    assert model_name(fallback, [ModelResponse(parts=[], model_name="two-2026-01-01")]) == "two"
    assert model_name(stage.openai(model="three"), []) == "three"


# -- pydantic-ai-harness


def context(model: Any = None, **fields: Any) -> RunContext[None]:
    return RunContext[None](
        deps=None,
        model=model or FunctionModel(lambda *_: ModelResponse(parts=[TextPart("- done")])),
        usage=RunUsage(),
        **fields,
    )


async def test_it_is_a_tier_of_the_harness(stage: Stage) -> None:
    """`compact(messages, ctx)` is the shape of the harness's strategies: cheap ones first, then ours."""
    harness = pytest.importorskip("pydantic_ai_harness.compaction")
    if tuple(map(int, version("pydantic-ai-harness").split(".")[:2])) < (0, 62):
        pytest.skip("this harness sends the whole list again with the next request")
    side = stage.side(*steps(30))
    tiers = [harness.ClearToolResults(max_tokens=1, keep_pairs=1_000), Compaction[None](context_window=WINDOW)]
    tiered = harness.TieredCompaction(tiers=tiers, target_tokens=8_000)
    result = await reader(stage.openai(), tiered).run("Read everything.")
    assert result.output == "All read."
    assert not side.rejections
    assert SECRET in texts(side.requests[-1].messages)
    assert 1 <= sum(request.is_summary for request in side.requests) <= 6
    assert result.usage.requests == len(side.requests)


async def test_the_harness_compacts_with_it_between_runs(stage: Stage) -> None:
    """`compact_now`, with a focus; the run goes on from what it gives."""
    harness = pytest.importorskip("pydantic_ai_harness.compaction")
    side = stage.side(Answer("Done."))
    model, usage = stage.openai(), RunUsage()
    compaction = Compaction[None](context_window=WINDOW)
    history = await harness.compact_now(compaction, spoken(12), model=model, focus="the ledger", usage=usage)
    (request,) = side.requests
    assert request.is_summary
    assert "the ledger" in texts(request.messages)
    assert usage.requests == 1
    assert len(history) < 12
    result = await reader(model, compaction).run("Go on.", message_history=history)
    assert result.output == "Done."
    assert SECRET in texts(side.requests[-1].messages)


async def test_what_the_harness_pins_stays(stage: Stage) -> None:
    harness = pytest.importorskip("pydantic_ai_harness.compaction")
    stage.side(Answer("Done."))
    pinned = ModelRequest(parts=[harness.pin("Never touch the ledger.")])
    tiered = harness.TieredCompaction(tiers=[Compaction[None](context_window=WINDOW)], target_tokens=1_000)
    history = await harness.compact_now(tiered, [*spoken(2), pinned, *spoken(10, first=2)], model=stage.openai())
    assert "Never touch the ledger." in texts(history)
    assert SECRET in texts(history)


async def test_a_summary_of_the_harness_is_carried_on() -> None:
    """A list that begins with somebody else's summary: ours is made from it, and takes its place."""
    theirs = CompactionPart("they said: port the parser", metadata={"pydantic-ai-harness.compaction.summary.v1": True})
    asked = CountingSummarizer()
    compaction = Compaction[None](context_window=WINDOW, summarizer=asked)
    history = [ModelRequest(parts=[theirs]), *spoken(12)]
    made = await compaction.compact(history, context())
    assert asked.asked[0].previous_summary == "they said: port the parser"
    assert [part.content for m in made for part in m.parts if isinstance(part, CompactionPart)] != [theirs.content]


async def test_a_list_that_cannot_be_made_to_fit_comes_back_as_it_is() -> None:
    """A tier must not end the run: others may still shrink it."""
    huge: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("word " * 40_000)])]
    assert await Compaction[None](context_window=WINDOW).compact(huge, context()) is huge


async def test_a_context_made_by_hand_belongs_to_no_other_conversation() -> None:
    """Without any id a session is used once: two such calls have nothing in common."""
    compaction = Compaction[None](context_window=WINDOW, summarizer=(asked := CountingSummarizer()))
    for _ in range(2):
        await compaction.compact(spoken(12), context())
    assert [request.previous_summary for request in asked.asked] == [None, None]
    assert PydanticAIFormat().name == "pydantic_ai"


async def test_parallel_reads_before_a_pinned_search_stay_paired(stage: Stage) -> None:
    """A search among other calls: the whole step stays, so that no call is without its result."""
    search = Call("search_tools", {"queries": ["weather"]})
    first = Answer(calls=(*reads("a.py", "b.py").calls, search))
    side = stage.side(first, *steps(26))
    agent: Agent[None, str] = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE))
    agent.tool_plain(defer_loading=True)(weather)
    assert (await agent.run("Go on.")).output == "All read."
    assert SECRET in texts(side.requests[-1].messages)
    assert "a.py" in texts(side.requests[-1].messages)
    assert not side.rejections


def test_a_store_that_fails_is_told_as_what_it_is() -> None:
    event = status_of(StoreFailed(session_id="a", action="load", error="OSError: no such host"))
    assert (event.stage, event.reason, event.session_id) == ("failed", "store", "a")
    assert event.detail == "load: OSError: no such host"


class Clearing(AbstractCapability[None]):
    """Clears all results but the newest, for good, once the provider counted more than 8,000 tokens."""

    cleared = 0

    async def before_model_request(
        self, ctx: RunContext[None], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        answers = [message for message in ctx.messages if isinstance(message, ModelResponse)]
        if answers and answers[-1].usage.input_tokens > 8_000:
            self.cleared += 1
            ctx.messages[:-1] = map(self._without_results, ctx.messages[:-1])
            request_context.messages = list(ctx.messages)
        return request_context

    def _without_results(self, message: ModelMessage) -> ModelMessage:
        if not isinstance(message, ModelRequest):
            return message
        texts = {(n, 0): "[cleared]" for n, part in enumerate(message.parts) if isinstance(part, ToolReturnPart)}
        return PydanticAIFormat().rewrite(message, texts)


async def test_usage_from_before_another_capability_cleared_results_is_not_counted(stage: Stage) -> None:
    side = stage.side(*steps(20))
    clearing, events = Clearing(), list[CompactionEvent]()
    settings = CompactionSettings(trigger_tokens=9_000)
    compaction = Compaction[None](context_window=WINDOW, settings=settings, on_compaction=events.append)
    agent = reader(stage.openai(), clearing, compaction, tokens=800)
    assert (await agent.run("Go on.")).output == "All read."
    assert clearing.cleared
    assert not events
    assert not side.rejections
