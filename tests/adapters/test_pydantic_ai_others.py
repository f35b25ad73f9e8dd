"""Next to others: the framework's own knowledge in the messages, the provider's tools and compaction, pydantic-ai-harness."""

from importlib.metadata import version
from typing import Any

import pytest
from compaction_adapters.pydantic_ai import SUMMARY_KEY, Compaction, PydanticAIFormat, history_processor
from compaction_adapters.pydantic_ai.models import pin_evidence
from pydantic_ai import Agent, RunContext
from pydantic_ai import messages as ai
from pydantic_ai.capabilities import Capability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    CachePoint,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RunUsage

from compaction_hooks import CompactionController, CompactionSettings
from tests.adapters.pydantic_ai_messages import (
    SECRET,
    SUMMARIZE,
    CountingSummarizer,
    reader,
    reads,
    spoken,
    steps,
    texts,
)
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.cases import crossed
from tests.conversations import prose
from tests.provider import Answer, Call, Rejection, Side


def context(model: Any = None, **fields: Any) -> RunContext[None]:
    """A run's context that the user makes by hand."""
    model = model or FunctionModel(lambda *_: ModelResponse(parts=[TextPart("- done")]))
    return RunContext[None](deps=None, model=model, usage=RunUsage(), **fields)


# -- knowledge that the framework reads from the messages after the newest summary


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


RHYMES = Capability[None](
    id="climate", description="Weather.", instructions="Say it in rhyme.", tools=[weather], defer_loading=True
)
SEARCH = Call("search_tools", {"queries": ["weather"]})
REVEALS = {
    "a search": SEARCH,
    "the model": Call("load_capability", {"id": "climate"}),
    "code": Call("prepare", {}),
}


@crossed(revealed_by=REVEALS, kind=["openai", "anthropic"], persist=[False, True])
async def test_tools_stay_available_after_a_summary(revealed_by: str, persist: bool, kind: str, stage: Stage) -> None:
    if revealed_by == "code" and not hasattr(RunContext, "load_capability"):
        pytest.skip("this pydantic-ai loads no capability by code")
    ask = Call("weather", {"city": "Rome"})
    side = stage.side(Answer(calls=(REVEALS[revealed_by],)), *steps(12)[:-1], Answer(calls=(ask,)), Answer("Done."))
    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARIZE, persist=persist)
    capabilities = [compaction] if revealed_by == "a search" else [RHYMES, compaction]
    agent = reader(getattr(stage, kind)(), *capabilities, tokens=1_600)
    if revealed_by == "a search":
        agent.tool_plain(defer_loading=True)(weather)

    @agent.tool
    def prepare(ctx: RunContext[None]) -> str:
        assert ctx.load_capability("climate")
        return "ready"

    assert (await agent.run("Go on.")).output == "Done."
    last = side.requests[-1]
    assert SECRET in texts(last.messages)
    assert all("weather" in texts(request.tools) for request in side.model_requests[1:])
    assert "sunny in Rome" in texts(last.messages)
    assert revealed_by == "a search" or "Say it in rhyme." in texts(last.messages) + last.system
    assert not side.rejections


async def test_calls_next_to_a_pinned_search_keep_their_results(stage: Stage) -> None:
    side = stage.side(Answer(calls=(*reads("a.py", "b.py").calls, SEARCH)), *steps(12))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARIZE), tokens=1_600)
    agent.tool_plain(defer_loading=True)(weather)
    assert (await agent.run("Go on.")).output == "All read."
    assert SECRET in texts(side.requests[-1].messages)
    assert "a.py" in texts(side.requests[-1].messages)
    assert not side.rejections


def test_tools_that_a_provider_found_stay_if_other_parts_identify_the_response() -> None:
    content: Any = {"discovered_tools": [{"name": "weather"}]}
    found = ai.NativeToolSearchReturnPart(content=content, tool_call_id="n", provider_name="anthropic")
    named, nameless = ModelResponse(parts=[found, TextPart("Found it.")]), ModelResponse(parts=[found])
    session = CompactionController[Any](context_window=WINDOW).session("s", format=PydanticAIFormat())
    messages = [*spoken(2), named, *spoken(4, first=2), nameless, *spoken(8, first=6)]
    pin_evidence(session, messages)
    made = session.compact_sync(messages).messages
    assert named in made
    assert nameless not in made


# -- the provider's own tools and compaction


def compacted_by(name: str, *, after: list[ModelMessage], calls: bool = False) -> list[ModelMessage]:
    """A conversation of eight messages that the provider itself compacted, the result of a call if asked for, and more."""
    product = ai.CompactionPart("kept by the provider", provider_name=name)
    second = ai.ToolCallPart("weather", {"city": "Bonn"}, "w1") if calls else TextPart("Yes.")
    own: list[ModelMessage] = [ModelResponse(parts=[product, second], provider_name=name)]
    if calls:
        own.append(ModelRequest(parts=[ToolReturnPart("weather", "sunny", "w1")]))
    return [*spoken(3), ModelRequest(parts=[UserPromptPart("And?")]), *own, *after]


@pytest.mark.parametrize("method", ["compact", "process"])
@pytest.mark.parametrize("calls", [False, True], ids=["words", "calls"])
async def test_our_summary_updates_the_providers_and_reads_nothing_before_it(
    calls: bool, method: str, stage: Stage
) -> None:
    question, asked = ModelRequest(parts=[UserPromptPart("And now?")]), CountingSummarizer()
    history = compacted_by("anthropic", after=[*spoken(18, first=3), question], calls=calls)
    ctx = context(stage.anthropic(), conversation_id="c")
    if method == "compact":
        view = await Compaction[None](context_window=WINDOW, summarizer=asked).compact(history, ctx)
    else:
        view = await history_processor(context_window=WINDOW, summarizer=asked)(ctx, history)
    assert SECRET in texts(view[:1])
    assert "kept by the provider" not in texts(view)
    (request,) = asked.asked
    assert request.previous_summary == "kept by the provider"
    assert "Question 0." not in request.transcript
    assert "Question 3." in request.transcript


# -- pydantic-ai-harness


async def test_it_is_a_tier_of_the_harness(stage: Stage) -> None:
    """`compact(messages, ctx)` is the shape of the harness's strategies: cheap ones first, then ours."""
    harness = pytest.importorskip("pydantic_ai_harness.compaction")
    if tuple(map(int, version("pydantic-ai-harness").split(".")[:2])) < (0, 62):
        pytest.skip("this harness sends the whole list again with the next request")
    side = stage.side(*steps(14))
    tiers = [harness.ClearToolResults(max_tokens=1, keep_pairs=1_000), Compaction[None](context_window=WINDOW)]
    tiered = harness.TieredCompaction(tiers=tiers, target_tokens=8_000)
    result = await reader(stage.openai(), tiered, tokens=1_600).run("Read everything.")
    assert result.output == "All read."
    assert not side.rejections
    assert SECRET in texts(side.requests[-1].messages)
    assert 1 <= sum(request.is_summary for request in side.requests) <= 4
    assert result.usage.requests == len(side.requests)


async def test_the_harness_compacts_with_it_between_runs(stage: Stage) -> None:
    harness = pytest.importorskip("pydantic_ai_harness.compaction")
    side = stage.side(Answer("Done."))
    model, usage, compaction = stage.openai(), RunUsage(), Compaction[None](context_window=WINDOW)
    history = await harness.compact_now(compaction, spoken(12), model=model, focus="the ledger", usage=usage)
    (request,) = side.requests
    assert request.is_summary
    assert "the ledger" in texts(request.messages)
    assert usage.requests == 1
    assert len(history) < 12
    assert (await reader(model, compaction).run("Go on.", message_history=history)).output == "Done."
    assert SECRET in texts(side.requests[-1].messages)

    pinned = ModelRequest(parts=[harness.pin("Never touch the ledger.")])
    tiered = harness.TieredCompaction(tiers=[Compaction[None](context_window=WINDOW)], target_tokens=1_000)
    history = await harness.compact_now(tiered, [*spoken(2), pinned, *spoken(10, first=2)], model=model)
    assert "Never touch the ledger." in texts(history)
    assert SECRET in texts(history)


async def test_a_summary_of_the_harness_is_carried_on() -> None:
    theirs = ai.CompactionPart(
        "they said: port the parser", metadata={"pydantic-ai-harness.compaction.summary.v1": True}
    )
    compaction = Compaction[None](context_window=WINDOW, summarizer=(asked := CountingSummarizer()))
    made = await compaction.compact([ModelRequest(parts=[theirs]), *spoken(12)], context())
    assert asked.asked[0].previous_summary == "they said: port the parser"
    assert theirs not in [part for message in made for part in message.parts]


async def test_a_list_that_cannot_be_made_to_fit_comes_back_itself() -> None:
    """A tier must not end the run: others may still shrink it."""
    huge: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("word " * 40_000)])]
    assert await Compaction[None](context_window=WINDOW).compact(huge, context()) is huge


async def test_contexts_without_any_id_have_no_conversation_in_common() -> None:
    compaction = Compaction[None](context_window=WINDOW, summarizer=(asked := CountingSummarizer()))
    for _ in range(2):
        await compaction.compact(spoken(12), context())
    assert [request.previous_summary for request in asked.asked] == [None, None]


MERGE = CompactionSettings(merge_user_messages=True, clear_tool_results=False)


@crossed(kind=["openai", "anthropic"], instructions=[None, "You are careful."], persist=[False, True])
async def test_the_request_comes_last(stage: Stage, kind: str, instructions: str | None, persist: bool) -> None:
    """pydantic-ai puts no message of its own after the summary."""
    side = stage.side()
    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARIZE, persist=persist)
    agent = Agent(getattr(stage, kind)(), instructions=instructions, capabilities=[compaction])
    first = await agent.run("And now?", message_history=spoken(13))
    await agent.run("And then?", message_history=first.all_messages())
    system = int(kind == "openai" and bool(instructions))
    for sent, request in zip(side.model_requests, ["And now?", "And then?"], strict=True):
        assert SECRET in texts(sent.messages)
        assert request in str(sent.messages[-1]["content"])
        assert [message["role"] for message in sent.messages].count("system") == system
        assert "<pyai" not in sent.system


async def test_the_last_cache_point_reaches_the_provider_on_the_summary(stage: Stage) -> None:
    side, messages = stage.side(Answer("Done.")), spoken(20)
    messages[2] = ModelRequest(parts=[UserPromptPart([prose(500), CachePoint(ttl="1h"), "More.", CachePoint()])])
    agent = reader(stage.anthropic(), Compaction(context_window=WINDOW, summarizer=CountingSummarizer()))
    await agent.run("Go on.", message_history=messages)
    blocks = [block for message in side.model_requests[0].messages for block in message["content"]]
    (with_mark,) = [block for block in blocks if "cache_control" in block]
    assert "[Conversation summary]" in with_mark["text"]
    assert with_mark["cache_control"]["ttl"] == "5m"


# -- `merge_user_messages=True`, on a server whose chat template wants user and assistant in turn


def strict(stage: Stage, *answers: Answer | Rejection) -> Side:
    side = stage.side(*answers)
    side.wants_turns = True
    return side


@pytest.mark.parametrize("persist", [False, True])
async def test_an_overflow_is_recovered_with_one_more_merged_request(stage: Stage, persist: bool) -> None:
    side = strict(stage, Answer("Done."))
    side.reject_next = 1
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=MERGE, persist=persist))
    result = await agent.run("Go on.", message_history=spoken(6))
    assert [request.status for request in side.model_requests] == [400, 200]
    users = [message for message in side.model_requests[1].messages if message["role"] == "user"]
    assert users[0]["content"].endswith("\n\nGo on.")
    assert sum(SUMMARY_KEY in (message.metadata or {}) for message in result.all_messages()) == persist


async def test_prompts_of_one_request_are_merged_too(stage: Stage) -> None:
    """The framework joins the requests in a row that it is given: a summary, a prompt whose run failed, the next prompt."""
    side = strict(stage, Rejection(500, None), Answer("Done."))
    compaction = Compaction[None](context_window=WINDOW, settings=MERGE)
    agent = reader(stage.openai(), compaction)
    stored = await compaction.session("thread").compact(spoken(8))
    failed = [*stored.messages, ModelRequest(parts=[UserPromptPart("First try.")])]
    with pytest.raises(ModelHTTPError, match="500"):
        await agent.run("Second try.", message_history=failed, conversation_id="thread")
    await agent.run("Third try.", message_history=failed, conversation_id="thread")
    assert [request.status for request in side.model_requests] == [500, 200]


def test_merged_prompts_keep_their_images_and_results_their_places() -> None:
    image = ImageUrl("https://example.org/a.png")
    request = ModelRequest(parts=[ToolReturnPart("read", "text", "c"), UserPromptPart("One.")])
    second = ModelRequest(parts=[UserPromptPart(["Two.", image]), UserPromptPart("Three.")], run_id="r")
    view: list[ModelMessage] = [request, second, *spoken(1)[1:]]
    before = list(view)
    merged = PydanticAIFormat().merge(view)
    assert view == before
    first: Any = merged[0]
    assert first.parts[0] is request.parts[0]
    assert first.run_id == "r"
    assert [part.content for part in first.parts[1:]] == [["One.", "Two.", image, "Three."]]
    assert merged[1:] == view[2:]
    assert PydanticAIFormat().merge(merged) is merged
    results: list[ModelMessage] = [ModelRequest(parts=request.parts[:1]), ModelRequest(parts=request.parts[:1])]
    assert PydanticAIFormat().merge(results) is results
