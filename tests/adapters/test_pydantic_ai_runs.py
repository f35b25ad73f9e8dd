"""One run and its conversation: identity, the costs and writers of summaries, events; and a conversation between two runs."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any, cast

import pytest
from compaction_adapters.pydantic_ai import Compaction, CompactionStatusEvent, summarizer
from openai.types import CompletionUsage
from pydantic import TypeAdapter
from pydantic_ai import Agent, RunContext
from pydantic_ai.durable_exec._capability_operation import collect_capability_operations
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage, UsageLimits

from compaction_hooks import CompactionController, CompactionFinished, Summary, Usage
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from tests import careless_model
from tests.adapters import summary_answers
from tests.adapters.pydantic_ai_messages import (
    SECRET,
    SUMMARIZE,
    CountingSummarizer,
    listen,
    reader,
    spoken,
    steps,
    texts,
)
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.provider import Answer, Rejection

THREAD = "thread-1"


# -- conversations


async def test_runs_without_a_common_history_are_conversations_of_their_own(stage: Stage) -> None:
    side = stage.side(*steps(12), *steps(4))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARIZE), tokens=1_600)
    await agent.run("Read everything.")
    assert SECRET in texts(side.requests[-1].messages)
    await agent.run("Read everything.")
    assert SECRET not in texts(side.requests[-1].messages)


async def test_a_conversation_that_comes_again_without_its_id_or_a_store_is_warned_of(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.side(Answer("Done."), Answer("Done."))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, summarizer=(asked := CountingSummarizer())))
    for _ in range(2):
        await agent.run("Go on.", message_history=spoken(14, first=1_000))
    assert len(asked.asked) == 2
    assert caplog.text.count("summarized a conversation once more") == 1


async def test_a_replay_of_a_durable_run_does_the_same_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds no summary of the first execution and depends on no handler; a summary is an operation with a stable name."""
    stage.side(Answer("Done."), Answer("Done."))
    monkeypatch.setattr(RunContext, "in_durable_context", True)
    compaction = Compaction[None](context_window=WINDOW, summarizer=(asked := CountingSummarizer()))
    agent = reader(stage.openai(), compaction)
    heard = listen(agent, CompactionStatusEvent)
    for _ in range(2):
        await agent.run("Go on.", message_history=spoken(14), conversation_id="c")
    assert len(asked.asked) == 2
    assert not heard
    assert compaction.id == "compaction_hooks"
    assert list(collect_capability_operations(compaction)) == ["summarize"]


def test_a_summary_can_be_the_answer_of_a_durable_step() -> None:
    """A workflow engine writes it as JSON and reads it again; a client's usage is read as its fields."""
    adapter, usage = TypeAdapter(Summary), Usage(input_tokens=900, cache_read_tokens=800)
    counted = CompletionUsage(prompt_tokens=900, completion_tokens=40, total_tokens=940)
    assert adapter.json_schema(mode="serialization")
    for given, read_again in ((usage, usage), (counted, counted.model_dump())):
        written = adapter.dump_json(Summary(text="## Goal", usage=given))
        assert adapter.validate_json(written) == Summary(text="## Goal", usage=read_again)


async def test_a_run_that_fails_leaves_its_summary_to_the_next_attempt(stage: Stage) -> None:
    outage = Rejection(500, {"error": {"message": "Internal server error", "type": "server_error"}})
    side, history = stage.side(outage, Answer("Done.")), spoken(14)
    agent = reader(stage.openai(), Compaction(context_window=WINDOW))
    with pytest.raises(ModelHTTPError):
        await agent.run("Go on.", message_history=history, conversation_id="c")
    assert (await agent.run("Go on.", message_history=history, conversation_id="c")).output == "Done."
    assert sum(request.is_summary for request in side.requests) == 1


# -- summaries


@pytest.mark.parametrize("is_shared", [False, True], ids=["of the capability", "of a shared controller"])
async def test_another_model_writes_the_summary_and_counts_in_the_run(is_shared: bool, stage: Stage) -> None:
    side, writer = stage.side(*steps(12)), stage.side(key="writer")
    cheap = stage.openai("writer", model="cheap")
    shared = CompactionController[Any](context_window=WINDOW, settings=SUMMARIZE, summarizer=summarizer(cheap))
    own = Compaction[None](context_window=WINDOW, settings=SUMMARIZE, summarizer=cheap)
    agent = reader(stage.openai(), Compaction(shared) if is_shared else own, tokens=1_600)
    result = await agent.run("Read everything.")
    assert [request.body["model"] for request in writer.requests] == ["cheap"]
    assert not any(request.is_summary for request in side.requests)
    assert result.usage.requests == len(side.requests) + 1


async def test_a_summarizer_outside_a_run_counts_in_none(stage: Stage) -> None:
    writer = stage.side(key="writer")
    controller = CompactionController[Any](context_window=WINDOW, summarizer=summarizer(stage.openai("writer")))
    chat = [{"role": role, "content": "word " * 3_000} for role in ("user", "assistant") * 4]
    record = (await controller.compact([*chat, {"role": "user", "content": "Go on."}])).record
    assert record is not None
    assert record.usage is not None
    assert record.usage.input_tokens == sum(request.input_tokens for request in writer.requests)


async def test_a_summary_never_takes_the_last_request(stage: Stage) -> None:
    """The framework has allowed the request that waits: the run goes on without a summary."""
    side = stage.side(Answer("Done."))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARIZE))
    result = await agent.run("Go on.", message_history=spoken(18), usage_limits=UsageLimits(request_limit=1))
    assert result.output == "Done."
    assert [request.is_summary for request in side.requests] == [False]


@pytest.mark.parametrize(("name", "writes"), [("test", True), ("openai:model", False)])
async def test_a_model_is_looked_up_by_name_at_each_summary(
    name: str, writes: bool, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "test" is the framework's own model for tests. A failing summarizer never fails the agent; handlers hear of it."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    side = stage.side(*steps(12))
    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARIZE, summarizer=name)
    agent = reader(stage.openai(), compaction, tokens=1_600)
    text = partialmethod(TestModel.__init__, custom_output_text=f"## Goal\n- {SECRET}")
    monkeypatch.setattr(TestModel, "__init__", text)
    heard = listen(agent, CompactionStatusEvent)
    assert (await agent.run("Read everything.")).output == "All read."
    assert not any(request.is_summary for request in side.requests)
    assert (SECRET in texts(side.requests[-1].messages)) == writes
    assert [event.stage for event in heard][1:3] == ["started", "finished" if writes else "failed"]
    assert writes or "OPENAI_API_KEY" in heard[2].detail
    assert not side.rejections


async def test_a_model_that_cannot_write_text_is_not_asked() -> None:
    """Decision models: the summarizer that needs no model writes instead."""
    asked, events = list[list[ModelMessage]](), list[CompactionEvent]()

    def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(messages)
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"response": 1})])

    model = FunctionModel(decide, profile={"supports_text_output": False})
    compaction = Compaction[None](context_window=WINDOW, on_event=events.append)
    result = await Agent(model, output_type=int, capabilities=[compaction]).run("Go on.", message_history=spoken(14))
    assert result.output == 1
    assert len(asked) == 1
    assert "[Conversation summary]" in texts(asked[0])
    assert [event.used_fallback for event in events if isinstance(event, CompactionFinished)] == [False]


class Tracing:
    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def start_as_current_span(self, name: str, **_: Any) -> Iterator[Any]:
        self.spans.append((name, {}))
        yield self

    def set_attributes(self, attributes: dict[str, Any]) -> None:
        self.spans[-1][1].update(attributes)


async def test_a_compaction_is_a_span_of_the_runs_trace() -> None:
    """The names are those of pydantic-ai-harness."""
    tracer: Any = Tracing()
    model = FunctionModel(lambda *_: cast("ModelResponse", spoken(1, tokens=10)[1]))
    ctx, before = RunContext[None](deps=None, model=model, usage=RunUsage(), tracer=tracer), spoken(20)
    after = await Compaction[None](context_window=WINDOW).compact(before, ctx)
    ((name, attributes),) = tracer.spans
    assert name == "compact_messages"
    assert attributes["gen_ai.conversation.compacted"] is True
    assert attributes["compaction.messages_before"] == len(before)
    assert attributes["compaction.messages_after"] == len(after)
    assert attributes["compaction.tokens_before"] > attributes["compaction.tokens_after"]
    assert attributes["compaction.strategy"] == "compaction_hooks"


# -- between runs


async def test_between_two_runs_a_conversation_is_compacted_by_hand(stage: Stage) -> None:
    side = stage.side(*steps(6), Answer("Gone on."), Answer("Undone."))
    compaction = Compaction[None](context_window=WINDOW)
    agent = reader(stage.openai(), compaction)
    run = await agent.run("Read six files.", conversation_id=THREAD)
    session = compaction.session(THREAD)
    assert session.state().context_tokens
    assert session.state().compaction_count == 0

    kept = await compaction.compact(run.all_messages())
    assert SECRET in texts(kept)
    assert len(kept) < len(run.all_messages())
    assert [record.reason for record in session.history()] == ["manual"]
    run = await agent.run("Go on.", message_history=run.all_messages(), conversation_id=THREAD)
    assert SECRET in texts(side.requests[-1].messages)
    assert run.usage.requests == 1

    assert session.undo() is not None
    await agent.run("Again.", message_history=run.all_messages(), conversation_id=THREAD)
    assert SECRET not in texts(side.requests[-1].messages)
    assert not side.rejections


async def test_a_finished_run_is_not_kept_for_a_compaction_between_runs() -> None:
    class Deps: ...

    compaction = Compaction[Deps](context_window=WINDOW)
    model = FunctionModel(lambda *_: cast("ModelResponse", spoken(1)[1]))
    agent = Agent(model, deps_type=Deps, capabilities=[compaction])
    kept = 0
    while kept < 5:  # a thread that a run starts keeps its context; a later run starts none
        deps = Deps()
        known = weakref.ref(deps)
        # In a task of its own: the framework leaves the run in the context of its caller.
        await asyncio.create_task(agent.run("Go on.", deps=deps, message_history=spoken(2), conversation_id=THREAD))
        del deps
        gc.collect()
        if known() is None:
            break
        kept += 1
    assert kept < 5
    assert compaction.session(THREAD).state().context_tokens


async def test_messages_that_name_no_conversation_are_refused_between_runs() -> None:
    with pytest.raises(ConfigurationError, match=r'compact\(messages, "thread-1"\)'):
        await Compaction[None](context_window=WINDOW).compact(spoken(12))


async def test_a_focus_is_that_of_one_copy_only(stage: Stage) -> None:
    shared = Compaction[None](context_window=WINDOW, summarizer=(asked := CountingSummarizer()))
    model = stage.openai()
    one, other = (RunContext[None](deps=None, model=model, usage=RunUsage(), conversation_id=id) for id in "ab")
    await asyncio.gather(shared.compact(spoken(12), one), shared.with_focus("the ledger").compact(spoken(12), other))
    assert sorted(request.focus or "" for request in asked.asked) == ["", "the ledger"]


@pytest.mark.parametrize("api", [pytest.param("openai", marks=pytest.mark.full), "responses", "anthropic"])
async def test_an_answer_that_is_no_summary_is_refused_and_reasoning_has_room(stage: Stage, api: str) -> None:
    await summary_answers.check(stage.side(window=200_000), summarizer(getattr(stage, api)()))


@pytest.mark.full
async def test_a_models_summary_gets_back_what_it_drops(stage: Stage) -> None:
    await careless_model.check(summarizer(stage.openai("writer")), stage.side(key="writer"))
