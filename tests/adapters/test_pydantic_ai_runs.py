"""What belongs to one run: its conversation, what summaries cost it, who writes them, what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any, cast

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)

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

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionSettings,
    CompactionStarted,
    Summary,
    Usage,
)
from compaction_hooks.events import CompactionEvent
from compaction_hooks.messages import UsageReport
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import SECRET, CountingSummarizer, reader, spoken, steps, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.provider import Answer, Rejection

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

SUMMARISE = CompactionSettings(clear_tool_results=False)
COUNTED = CompletionUsage(prompt_tokens=900, completion_tokens=40, total_tokens=940)


# -- conversations


async def test_runs_without_a_common_history_are_conversations_of_their_own(stage: Stage) -> None:
    """Two runs of one agent with one controller: nothing of one reaches the other, however alike they begin."""
    side = stage.side(*steps(26), *steps(4))
    controller: CompactionController[Any] = CompactionController(context_window=WINDOW, settings=SUMMARISE)
    agent = reader(stage.openai(), Compaction(controller))
    await agent.run("Read everything.")
    assert SECRET in texts(side.requests[-1].messages)
    await agent.run("Read everything.")
    assert SECRET not in texts(side.requests[-1].messages)


async def test_runs_at_the_same_time_do_not_mix(stage: Stage) -> None:
    """One capability, many runs: each has its own request under way."""
    names = [f"task {n}" for n in range(4)]
    sides = {name: stage.side(*steps(26), key=name) for name in names}
    capability = Compaction[None](context_window=WINDOW, settings=SUMMARISE)

    async def run(name: str) -> None:
        sides[name].reject_next = 1
        sides[name].summary_text = f"## Goal\n- summary of {name}"
        result = await reader(stage.openai(name), capability).run(name, message_history=spoken(3))
        assert result.output == "All read."

    await asyncio.gather(*map(run, names))
    for name, side in sides.items():
        sent = texts(side.requests[-1].messages)
        assert [other for other in names if f"summary of {other}" in sent] == [name]
        assert len(side.rejections) == 1


async def test_an_id_of_the_hosts_own_is_the_sessions(stage: Stage) -> None:
    stage.side(Answer("Done."))
    controller: CompactionController[Any] = CompactionController(context_window=WINDOW)
    await reader(stage.openai(), Compaction(controller)).run("Go on.", conversation_id="thread-7")
    assert controller.session("thread-7").state().context_tokens is not None


async def test_a_replay_of_a_durable_run_does_the_same_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run left in memory would change what its replay asks for; the summary is a durable operation of a stable name."""
    stage.side(Answer("Done."), Answer("Done."))
    monkeypatch.setattr(RunContext, "in_durable_context", True)
    asked = CountingSummarizer()
    compaction = Compaction[None](context_window=WINDOW, summarizer=asked)
    heard: list[str] = []
    agent = reader(stage.openai(), compaction)

    @agent.on_event(CompactionStatusEvent)
    async def listen(_: RunContext[None], event: CompactionStatusEvent) -> None:
        heard.append(event.stage)

    for _ in range(2):
        await agent.run("Go on.", message_history=spoken(14), conversation_id="c")
    assert len(asked.asked) == 2
    assert not heard
    assert compaction.id == "compaction_hooks"
    assert list(collect_capability_operations(compaction)) == ["summarize"]


@pytest.mark.parametrize(
    ("usage", "read_again"),
    [
        (Usage(input_tokens=900, cache_read_tokens=800), Usage(input_tokens=900, cache_read_tokens=800)),
        ({"prompt_tokens": 900}, {"prompt_tokens": 900}),
        (COUNTED, COUNTED.model_dump()),
    ],
)
def test_a_summary_can_be_the_answer_of_a_durable_step(usage: UsageReport, read_again: object) -> None:
    """A workflow engine writes it as JSON and reads it again."""
    adapter = TypeAdapter(Summary)
    assert adapter.json_schema(mode="serialization")
    written = adapter.dump_json(Summary(text="## Goal\n- go on", usage=usage))
    assert adapter.validate_json(written) == Summary(text="## Goal\n- go on", usage=cast("UsageReport", read_again))


# -- what it costs


async def test_the_summary_is_in_the_runs_usage(stage: Stage) -> None:
    """Requests and tokens of the nested run are the run's."""
    side = stage.side(*steps(26))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE))
    result = await agent.run("Read everything.")
    assert sum(request.is_summary for request in side.requests) == 1
    assert result.usage.requests == len(side.requests)
    assert result.usage.input_tokens == sum(request.input_tokens for request in side.requests)


async def test_a_shared_controllers_summariser_counts_in_the_run_too(stage: Stage) -> None:
    side, writer = stage.side(*steps(26)), stage.side(key="writer")
    controller: CompactionController[Any] = CompactionController(
        context_window=WINDOW, settings=SUMMARISE, summarizer=summarizer(stage.openai("writer"))
    )
    result = await reader(stage.openai(), Compaction(controller)).run("Read everything.")
    assert [request.is_summary for request in writer.requests] == [True]
    assert not any(request.is_summary for request in side.requests)
    assert result.usage.requests == len(side.requests) + 1


async def test_a_summariser_outside_a_run_counts_nowhere(stage: Stage) -> None:
    """The same controller in another framework: there is no run to count in."""
    writer = stage.side(key="writer")
    controller: CompactionController[Any] = CompactionController(
        context_window=WINDOW, summarizer=summarizer(stage.openai("writer"))
    )
    chat = [{"role": role, "content": "word " * 3_000} for role in ("user", "assistant") * 4]
    result = await controller.compact([*chat, {"role": "user", "content": "Go on."}])
    assert result.record is not None
    assert result.record.usage is not None
    assert result.record.usage.input_tokens == sum(request.input_tokens for request in writer.requests)


async def test_a_summary_never_takes_the_last_request(stage: Stage) -> None:
    """The framework asked the limit for the request that waits: the summary must leave it one. The run goes on without."""
    side = stage.side(Answer("Done."))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE))
    result = await agent.run("Go on.", message_history=spoken(18), usage_limits=UsageLimits(request_limit=1))
    assert result.output == "Done."
    assert [request.is_summary for request in side.requests] == [False]


# -- who writes it


async def test_the_requests_own_model_writes_the_summary(stage: Stage) -> None:
    side = stage.side(*steps(26))
    agent = reader(stage.openai(model="own"), Compaction(context_window=WINDOW, settings=SUMMARISE))
    await agent.run("Read everything.")
    (summary,) = [request for request in side.requests if request.is_summary]
    assert summary.body["model"] == "own"
    assert not summary.tools
    assert 0 < summary.max_tokens < 4_096


async def test_a_model_given_writes_it_instead(stage: Stage) -> None:
    side, writer = stage.side(*steps(26)), stage.side(key="writer")
    agent = reader(
        stage.openai(),
        Compaction(context_window=WINDOW, settings=SUMMARISE, summarizer=stage.openai("writer", model="cheap")),
    )
    result = await agent.run("Read everything.")
    assert [request.body["model"] for request in writer.requests] == ["cheap"]
    assert result.usage.requests == len(side.requests) + 1


async def test_a_name_is_looked_up_when_it_is_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "test" names the framework's own model for tests."""
    side = stage.side(*steps(26))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE, summarizer="test"))
    writes = partialmethod(TestModel.__init__, custom_output_text=f"## Goal\n- {SECRET}")
    monkeypatch.setattr(TestModel, "__init__", writes)
    await agent.run("Read everything.")
    assert not any(request.is_summary for request in side.requests)
    assert SECRET in texts(side.requests[-1].messages)


async def test_a_name_that_nobody_knows_does_not_stop_the_run(stage: Stage) -> None:
    """A failing summarizer never fails the agent."""
    side = stage.side(*steps(26))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE, summarizer="nobody:nothing"))
    assert (await agent.run("Read everything.")).output == "All read."
    assert not side.rejections


async def test_a_model_that_cannot_write_is_not_asked() -> None:
    """Decision models answer no prose: the summarizer that needs no model writes instead."""
    asked: list[list[ModelMessage]] = []

    def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(messages)
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"response": 1})])

    events: list[CompactionEvent] = []
    model = FunctionModel(decide, profile={"supports_text_output": False})
    compaction = Compaction[None](context_window=WINDOW, on_compaction=events.append)
    agent = Agent(model, output_type=int, capabilities=[compaction])
    result = await agent.run("Go on.", message_history=spoken(14))
    assert result.output == 1
    assert len(asked) == 1
    assert "[Conversation summary]" in texts(asked[0])
    assert [event.used_fallback for event in events if isinstance(event, CompactionFinished)] == [False]


# -- what it is told


async def test_events_are_the_runs_and_the_controllers(stage: Stage) -> None:
    """A status line hears of it as the framework tells things; the controller's handlers too."""
    stage.side(*steps(26))
    events: list[CompactionEvent] = []
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE, on_compaction=events.append))
    heard: list[CompactionStatusEvent] = []

    @agent.on_event(CompactionStatusEvent)
    async def listen(_: RunContext[None], event: CompactionStatusEvent) -> None:
        heard.append(event)

    await agent.run("Read everything.", conversation_id="c")
    assert [type(event) for event in events] == [CompactionStarted, CompactionFinished]
    started, finished = heard
    assert (started.stage, started.reason, started.session_id) == ("started", "threshold", "c")
    assert finished.stage == "finished"
    assert finished.tokens_before == started.tokens > finished.tokens
    assert started.capability_id == "compaction_hooks"


async def test_what_was_skipped_or_failed_is_told_too(stage: Stage) -> None:
    side = stage.side(*steps(1))
    side.fail_summaries = True
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE))
    heard: list[CompactionStatusEvent] = []

    @agent.on_event(CompactionStatusEvent)
    async def listen(_: RunContext[None], event: CompactionStatusEvent) -> None:
        heard.append(event)

    await agent.run("Go on.", message_history=spoken(13))
    assert [event.stage for event in heard][:2] == ["started", "failed"]
    assert "500" in heard[1].detail


class Tracing:
    """A tracer that keeps what it is told."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def start_as_current_span(self, name: str, **_: Any) -> Iterator[Any]:
        self.spans.append((name, {}))
        yield self

    def set_attributes(self, attributes: dict[str, Any]) -> None:
        self.spans[-1][1].update(attributes)


async def test_a_compaction_is_a_span_of_the_runs_trace() -> None:
    """The names that pydantic-ai-harness uses."""
    tracer: Any = Tracing()
    ctx = RunContext[None](
        deps=None, model=FunctionModel(lambda *_: summary_response()), usage=RunUsage(), tracer=tracer
    )
    before = spoken(20)
    after = await Compaction[None](context_window=WINDOW).compact(before, ctx)
    ((name, attributes),) = tracer.spans
    assert name == "compact_messages"
    assert attributes["gen_ai.conversation.compacted"] is True
    assert attributes["compaction.messages_before"] == len(before)
    assert attributes["compaction.messages_after"] == len(after)
    assert attributes["compaction.tokens_before"] > attributes["compaction.tokens_after"]
    assert attributes["compaction.strategy"] == "compaction_hooks"


def summary_response() -> Any:
    return spoken(1, tokens=10)[1]


async def test_a_run_that_fails_leaves_its_summary_to_the_next_attempt(stage: Stage) -> None:
    outage = Rejection(500, {"error": {"message": "Internal server error", "type": "server_error"}})
    side = stage.side(outage, outage, Answer("Done."))
    history = spoken(14)
    agent = reader(stage.openai(), Compaction(context_window=WINDOW))
    for _ in range(2):
        with pytest.raises(ModelHTTPError):
            await agent.run("Go on.", message_history=history, conversation_id="c")
    assert (await agent.run("Go on.", message_history=history, conversation_id="c")).output == "Done."
    assert sum(request.is_summary for request in side.requests) == 1
