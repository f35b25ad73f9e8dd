"""`session.export_records()` and `session.import_records()`: records that a host keeps itself."""

import json

from compaction_hooks.stores import MemoryStore
from tests.conversations import Scripted, above_threshold, controller, steps, user


def test_a_record_that_arrives_late_is_found_in_a_list_that_was_read_already() -> None:
    stored = controller(8_192, summarizer=Scripted()).session("a")
    result = stored.compact_sync(above_threshold())
    other = controller(8_192)
    other.transform_context_sync(result.messages)
    assert other.state().compaction_count == 0
    other.session("default").import_records(stored.export_records())
    other.transform_context_sync(result.messages)
    assert other.state().compaction_count == 1


def test_exported_records_are_plain_json() -> None:
    """Stores and checkpointers may keep them as they are: lists, no tuples."""
    session = controller(8_192, summarizer=Scripted()).session("x")
    session.transform_context_sync([user("go"), *steps(40, 300)])
    (record,) = session.export_records()
    assert record["digest"]
    assert json.loads(json.dumps(record)) == record


def test_imported_records_are_in_the_store_at_once() -> None:
    made = controller(8_192, summarizer=Scripted()).session("a")
    result = made.compact_sync(above_threshold())
    store = MemoryStore()
    controller(8_192, store=store).session("b").import_records(made.export_records())
    later = controller(8_192, store=store).session("b")
    later.transform_context_sync(result.messages)
    assert later.state().compaction_count == 1
