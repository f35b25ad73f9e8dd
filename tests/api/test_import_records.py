"""`session.export_records()` and `session.import_records()`: records that a host keeps itself."""

from __future__ import annotations

import json
import logging

import pytest

from tests.conversations import Scripted, above_threshold, controller, steps, talk, user

MESSAGES = [user("go"), *steps(30, 300)]


def test_a_record_that_arrives_late_is_found_in_a_list_that_was_read_already() -> None:
    stored = controller(8_192, summarizer=Scripted()).session("a")
    result = stored.compact_sync(above_threshold())
    other = controller(8_192)
    other.transform_context_sync(result.messages)
    assert other.state().compaction_count == 0
    other.session("default").import_records(stored.export_records())
    other.transform_context_sync(result.messages)
    assert other.state().compaction_count == 1


def test_a_damaged_record_is_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    hooks = controller(8_192)
    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        assert hooks.session("default").import_records([{"version": 99}, {}]) == 0
    assert len(caplog.records) == 2
    assert hooks.transform_context_sync(talk(2))


@pytest.mark.parametrize("garbage", ["text", None, 7, [1]])
def test_garbage_among_imported_records_is_skipped(garbage: object) -> None:
    assert controller().session("x").import_records([garbage]) == 0  # type: ignore[list-item]  # wrong on purpose


def test_a_record_taken_back_does_not_come_in_again() -> None:
    session = controller(8_192, summarizer=Scripted()).session("x")
    session.transform_context_sync(MESSAGES)
    records = session.export_records()
    assert session.undo() is not None
    assert session.import_records(records) == 0
    assert session.history() == []


def test_exported_records_are_plain_json() -> None:
    """Stores and checkpointers may keep them as they are: lists, no tuples."""
    session = controller(8_192, summarizer=Scripted()).session("x")
    session.transform_context_sync([user("go"), *steps(40, 300)])
    (record,) = session.export_records()
    assert record["digest"]
    assert json.loads(json.dumps(record)) == record
