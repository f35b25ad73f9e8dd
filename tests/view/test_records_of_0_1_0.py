"""Records that 0.1.0 wrote, with the lists they were made of: an upgrade costs no summary, and both versions may share a store.

The files were written by the controller of the release (commit c823bd4); `view` is the list that it sent.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionRecord, CompactionSession, CompactionSettings, project
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import MessageFormat
from tests.conversations import Scripted

FORMATS: dict[str, MessageFormat[Any]] = {
    made.name: made for made in (OpenAIChatFormat(), AnthropicFormat(), OpenAIResponsesFormat())
}
WRITTEN = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parents[1] / "fixtures" / "records_0_1_0").glob("*.json"))
}
READ_ALIKE = ("plain", "pinned", "cleared_and_summarized", "deep_objects")
READ_OTHERWISE = ("hosted_anthropic", "hosted_anthropic_pinned", "hosted_responses", "errors", "errors_pinned")
"""Conversations with blocks of hosted tools, or with results that are errors: 0.1.0's digests leave both out."""


def session(written: dict[str, Any], summarizer: Scripted) -> CompactionSession[Any]:
    """Return a session of this version for a conversation of 0.1.0, at whose size nothing is due."""
    hooks = CompactionController[Any](
        context_window=1_000_000,
        format=FORMATS[written["format"]],
        summarizer=summarizer,
        settings=CompactionSettings(auto_compact=False),
    )
    return hooks.session("thread")


def new_records(written: dict[str, Any]) -> list[Any]:
    """Return the record of the same summary by this version."""
    worker = session(written, Scripted())
    worker.compact_sync(written["messages"], keep_recent_tokens=10)
    return worker.export_records()


def test_every_conversation_is_there() -> None:
    assert len(WRITTEN) == 15


@pytest.mark.parametrize("name", WRITTEN)
def test_the_upgrade_costs_no_summary(name: str) -> None:
    """The view is that of 0.1.0, message for message, and no model is asked."""
    written, summarizer = WRITTEN[name], Scripted()
    worker = session(written, summarizer)
    worker.import_records(written["records"])
    assert worker.transform_context_sync(written["messages"]) == written["view"]
    assert summarizer.requests == []
    newest = CompactionRecord.from_dict(written["records"][-1])
    assert project(written["messages"], newest, format=FORMATS[written["format"]]) == written["view"]


@pytest.mark.parametrize("name", WRITTEN)
def test_its_records_are_stored_as_its_own(name: str) -> None:
    """The record that this version writes is checked by the same rule again."""
    written = WRITTEN[name]
    worker = session(written, Scripted())
    worker.import_records(written["records"])
    again = session(written, Scripted())
    again.import_records(worker.export_records())
    assert again.transform_context_sync(written["messages"]) == written["view"]


@pytest.mark.parametrize("name", [*READ_ALIKE, *READ_OTHERWISE])
def test_older_workers_use_its_new_records_where_they_read_the_same(name: str) -> None:
    """0.1.0 finds a new record true where its digest is the one that 0.1.0 itself would have made; else it goes on without."""
    written = WRITTEN[name]
    theirs = {made["covered_runs"]: made["covered_digest"] for made in written["records"]}
    (mine,) = new_records(written)
    assert (mine["covered_digest"] == theirs[mine["covered_runs"]]) is (name in READ_ALIKE)


@pytest.mark.parametrize("name", READ_OTHERWISE)
def test_edits_that_it_did_not_see_are_seen_by_new_records(name: str) -> None:
    """A block of a hosted tool, or an error flag, that is changed makes a new record untrue; a record of 0.1.0 stays true."""
    written = WRITTEN[name]
    edited = json.loads(
        json.dumps(written["messages"])
        .replace('"is_error": true', '"is_error": false')
        .replace("example.org", "elsewhere.org")
    )
    for records, is_true in ((written["records"], True), (new_records(written), False)):
        worker = session(written, Scripted())
        worker.import_records(records)
        assert (worker.transform_context_sync(edited) != edited) is is_true


def test_both_versions_on_one_store_agree_after_each_compaction_and_keep_all_records() -> None:
    """Tools fail; at each size this version had its turn first. 0.1.0 skips its records and makes two of its own."""
    written, summarizer = WRITTEN["errors_side_by_side"], Scripted()
    mine, theirs, mine_again, theirs_again = written["records"]
    assert [made.get("digest_rule") for made in written["records"]] == [2, None, 2, None]
    assert [mine_again["parent"], theirs_again["parent"]] == [theirs["id"], theirs["id"]]
    worker = session(written, summarizer)
    worker.import_records(written["records"])
    for end in range(len(written["view"]), len(written["messages"])):
        worker.transform_context_sync(written["messages"][:end])
    assert worker.transform_context_sync(written["messages"]) == written["view"]
    assert written["view"][0]["content"] == theirs_again["rendered"]
    assert summarizer.requests == []
    assert {made["id"] for made in worker.export_records()} == {made["id"] for made in written["records"]}
    without = session(written, summarizer)
    without.import_records([mine, theirs, mine_again])
    assert without.transform_context_sync(written["messages"])[0]["content"] == mine_again["rendered"]


def test_a_record_by_a_later_rule_is_left_alone() -> None:
    """A version that does not know how a digest was made neither applies the record nor loses it."""
    written = WRITTEN["plain"]
    later = {**written["records"][0], "digest_rule": 3}
    worker = session(written, Scripted())
    worker.import_records([later])
    assert worker.transform_context_sync(written["messages"]) == written["messages"]
    assert worker.export_records()[0]["digest_rule"] == 3
