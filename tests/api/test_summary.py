"""`Summary`: an answer of a summarizer. Its usage is only for accounting: bad usage does not cost the summary."""

import logging
from typing import Any

import pytest

from compaction_hooks import CompactionFinished, CompactionRecord, Summary, Usage
from compaction_hooks.events import CompactionEvent
from tests.conversations import Scripted, controller, talk


def record_of(usage: Any, events: list[CompactionEvent] | None = None) -> CompactionRecord:
    hooks = controller(8_192, summarizer=Scripted(Summary("## Goal\n- go on", usage=usage)), events=events)
    hooks.transform_context_sync(talk(20))
    (record,) = hooks.session("default").export_records()
    assert "go on" in str(record["summary"])
    return CompactionRecord.from_dict(record)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input_tokens=900, output_tokens=40),
        {"prompt_tokens": 900, "completion_tokens": 40},
        {"input_tokens": 900, "output_tokens": 40},
    ],
)
def test_its_usage_may_be_the_providers_own(usage: Any) -> None:
    events: list[CompactionEvent] = []
    assert record_of(usage, events).usage == Usage(input_tokens=900, output_tokens=40)
    (finished,) = (event for event in events if isinstance(event, CompactionFinished))
    assert finished.usage == Usage(input_tokens=900, output_tokens=40)


def test_its_usage_may_be_a_clients_object() -> None:
    types = pytest.importorskip("openai").types
    usage = types.CompletionUsage(prompt_tokens=900, completion_tokens=40, total_tokens=940)
    assert record_of(usage).usage == Usage(input_tokens=900, output_tokens=40)


class Broken:
    def model_dump(self, *, exclude_none: bool = True) -> dict[str, object]:
        raise RuntimeError("no fields")


@pytest.mark.parametrize("usage", [940, "940 tokens", Broken(), Usage(input_tokens="900")])  # type: ignore[arg-type]
def test_an_unreadable_usage_costs_a_warning_and_not_the_summary(usage: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        assert record_of(usage).usage is None
    assert [record.getMessage() for record in caplog.records if "usage of a summary" in record.getMessage()]
