"""One span per compaction: its figures are the event's, its parent is the caller's, and no text of the conversation is in it."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import pytest
from compaction_adapters.otel import OpenTelemetryHandler
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer

from compaction_hooks import CompactionController, CompactionSettings, ContextOverflowError, Summarizer, Summary, Usage
from compaction_hooks.events import (
    CompactionEvent,
    CompactionFailed,
    CompactionFinished,
    CompactionSkipped,
    EventHandler,
)
from tests.conversations import Chat, Scripted, steps, system, talk, user

ROOT = Path(__file__).resolve().parents[2]
SECRET = "the-passphrase-is-marmalade"
COST = Usage(input_tokens=900, output_tokens=70, cache_read_tokens=300, cache_write_tokens=20)


class Traced:
    """A controller whose events and spans are kept; the host makes spans with the same tracer."""

    def __init__(self, tracer: Tracer, exporter: InMemorySpanExporter) -> None:
        self.tracer = tracer
        self._exporter = exporter
        self.events: list[CompactionEvent] = []

    def controller(
        self, summarizer: Summarizer, window: int | None = 8_192, settings: CompactionSettings | None = None
    ) -> CompactionController[Mapping[str, object]]:
        handlers: list[EventHandler] = [self.events.append, OpenTelemetryHandler(self.tracer)]
        return CompactionController(context_window=window, summarizer=summarizer, settings=settings, on_event=handlers)

    @property
    def spans(self) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == "compact conversation"]


@pytest.fixture
def traced(caplog: pytest.LogCaptureFixture) -> Iterator[Traced]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Traced(provider.get_tracer("host"), exporter)
    provider.shutdown()
    said = [record.getMessage() for record in caplog.get_records("call")]
    assert not [text for text in said if "an event handler failed" in text]


def conversation() -> list[Chat]:
    return [system(), user(f"Port the parser; {SECRET}."), *steps(30, 300)]


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def figures(event: CompactionEvent) -> dict[str, object]:
    values = {f"compaction.{field.name}": getattr(event, field.name) for field in fields(event)}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def cost(usage: Usage) -> dict[str, object]:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write_tokens,
    }


def test_a_compaction_is_one_span_with_the_events_figures(traced: Traced) -> None:
    session = traced.controller(Scripted(Summary(text="## Goal\n- port it", usage=COST))).session("thread-1")
    session.transform_context_sync(conversation())
    (span,) = traced.spans
    event = traced.events[-1]
    assert isinstance(event, CompactionFinished)
    assert len(figures(event)) == 11
    assert attributes(span) == {
        "gen_ai.operation.name": "compact",
        "gen_ai.conversation.id": "thread-1",
        "gen_ai.conversation.compacted": True,
        "compaction.event_version": 1,
        "compaction.reason": "threshold",
        "compaction.count": 1,
        "compaction.record_id": event.record.id,
        **figures(event),
        **cost(COST),
    }
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is StatusCode.UNSET


def test_an_estimated_cost_is_marked(traced: Traced) -> None:
    traced.controller(Scripted()).transform_context_sync(conversation())
    (span,) = traced.spans
    event = traced.events[-1]
    assert isinstance(event, CompactionFinished)
    assert event.usage is not None
    marked = {"compaction.usage_is_estimate": True, **cost(event.usage)}
    assert {name: value for name, value in attributes(span).items() if "usage" in name} == marked


def test_without_a_compaction_there_is_no_span(traced: Traced) -> None:
    hooks = traced.controller(Scripted())
    hooks.transform_context_sync(talk(2))
    hooks.compact_sync([user("Go on.")])
    assert isinstance(traced.events[-1], CompactionSkipped)
    assert traced.spans == []


def test_a_session_without_a_name_or_a_current_span_is_a_root_without_an_id(traced: Traced) -> None:
    """The conventions want no stand-in for an id that is not known; no text of the conversation is in a span."""
    traced.controller(Scripted(f"## Goal\n- {SECRET}")).transform_context_sync(conversation())
    (span,) = traced.spans
    assert "gen_ai.conversation.id" not in attributes(span)
    assert span.parent is None
    assert SECRET not in span.to_json()


# -- parent and times


async def test_the_parents_of_async_callers_spans_are_their_own(traced: Traced) -> None:
    hooks = traced.controller(Scripted())

    async def turn(name: str) -> int:
        with traced.tracer.start_as_current_span(name) as current:
            await hooks.session(name).transform_context(conversation())
            return current.get_span_context().span_id

    names = ["a", "b", "c"]
    own = dict(zip(names, await asyncio.gather(*map(turn, names)), strict=True))
    parents = {attributes(span)["gen_ai.conversation.id"]: span.parent for span in traced.spans}
    assert {name: parent.span_id for name, parent in parents.items() if parent is not None} == own


def test_a_span_lasts_as_long_as_its_compaction(traced: Traced) -> None:
    started = time.time_ns()
    traced.controller(Scripted()).transform_context_sync(conversation())
    ended = time.time_ns()
    (span,) = traced.spans
    event = traced.events[-1]
    assert isinstance(event, CompactionFinished)
    assert span.start_time is not None
    assert span.end_time is not None
    assert started <= span.start_time < span.end_time <= ended
    assert span.end_time - span.start_time == int(event.duration_seconds * 1_000_000_000)


# -- what goes wrong


def test_a_failed_summarizer_is_an_error_without_its_text(traced: Traced) -> None:
    """The context is over the threshold and fits the window: nothing is compacted."""
    settings = CompactionSettings(trigger_tokens=8_000, clear_tool_results=False)
    hooks = traced.controller(Scripted(ValueError(f"cannot read: {SECRET}")), 32_768, settings)
    hooks.session("thread-1").transform_context_sync(conversation())
    (span,) = traced.spans
    event = traced.events[-1]
    assert isinstance(event, CompactionFailed)
    assert SECRET in event.error
    assert span.status.status_code is StatusCode.ERROR
    assert not span.events
    assert attributes(span) == {
        "gen_ai.operation.name": "compact",
        "gen_ai.conversation.id": "thread-1",
        "compaction.event_version": 1,
        "compaction.reason": "threshold",
        "error.type": "ValueError",
        **figures(event),
    }


class TooLongError(Exception):
    status_code = 400

    def __init__(self) -> None:
        super().__init__("prompt is too long: 9000 tokens > 8000 maximum")


def test_an_overflow_that_nothing_cures_is_an_error(traced: Traced) -> None:
    hooks = traced.controller(Scripted(), window=None)
    messages = [user("word " * 60_000)]
    with pytest.raises(ContextOverflowError):
        hooks.recover_sync(TooLongError(), messages)
    (span,) = traced.spans
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "ContextOverflowError"
    assert "gen_ai.conversation.compacted" not in attributes(span)


def test_the_page_names_every_attribute_and_no_other(traced: Traced) -> None:
    traced.controller(Scripted(Summary(text="## Goal\n- port it", usage=COST))).session("a").transform_context_sync(
        conversation()
    )
    traced.controller(Scripted()).transform_context_sync(conversation())
    settings = CompactionSettings(trigger_tokens=8_000, clear_tool_results=False)
    traced.controller(Scripted(ValueError()), 32_768, settings).transform_context_sync(conversation())
    page = (ROOT / "docs" / "tracing.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.+?) \|", page, re.MULTILINE)
    recorded = {name for span in traced.spans for name in attributes(span)}
    assert set(re.findall(r"`([^`]+)`", " ".join(cells))) == recorded


# -- the global provider

LATER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from compaction_adapters.otel import OpenTelemetryHandler
from compaction_hooks import CompactionController
from tests.conversations import steps, user

hooks = CompactionController(context_window=8_192, on_event=OpenTelemetryHandler())
exporter = InMemorySpanExporter()
hooks.transform_context_sync(messages := [user("go"), *steps(30, 300)])
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
hooks.transform_context_sync([*messages, *steps(30, 300, first=30)])
print(hooks.state().compaction_count, "compactions,", len(exporter.get_finished_spans()), "span")
"""


def test_without_a_provider_nothing_is_recorded_and_one_set_later_is_used() -> None:
    run = subprocess.run([sys.executable, "-c", LATER], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("2 compactions, 1 span\n", "")


def test_the_sdk_is_not_imported() -> None:
    script = "import sys, compaction_adapters.otel; print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
