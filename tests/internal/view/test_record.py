from __future__ import annotations

from dataclasses import replace

import pytest

from compaction_hooks import CompactionReason, CompactionRecord, Usage
from compaction_hooks.errors import RecordError
from compaction_hooks.view.parts import Reduction
from compaction_hooks.view.record import ParentSummary, Pin, collect_own_texts
from tests.cases import folded

RECORD = CompactionRecord(
    id="a1",
    parent="a0",
    prompt_version=1,
    reason=CompactionReason.THRESHOLD,
    summary="## Goal\n- port it",
    previous_summary=None,
    rendered="[Conversation summary]\n...",
    compacted_message_count=12,
    covered_runs=5,
    covered_digest="d" * 64,
    seen_runs=9,
    tokens_before=14_000,
    tokens_after=6_000,
    compaction_count=1,
    last_compacted_at="2026-02-10T21:30:00Z",
    pins=(Pin(run=0, digest="p" * 64), Pin(run=2, digest="q" * 64, is_users=True)),
    reductions=(
        Reduction(kind="result", run=6, ordinal=0, digest="x", shown_digest="y"),
        Reduction(kind="arguments", run=6, ordinal=1, digest="x", shown_digest="y", head_chars=300, tail_chars=100),
        Reduction(kind="text", run=7, ordinal=0, digest="x", shown_digest="y", head_chars=300, tail_chars=100),
        Reduction(kind="media", run=8, ordinal=0, digest="x", shown_digest="x"),
    ),
    base=ParentSummary(text_digest="t", runs=3, digest="e", pins=("p",)),
    read_files=("a.py",),
    modified_files=("b.py",),
    digest={"messages": {"user": 2}},
    usage=Usage(input_tokens=900, output_tokens=80),
    calibration={"estimator": "characters", "format": "openai_chat", "model": "gpt-5", "ratio": 1.2},
)


OF_STORED_LIST = replace(
    RECORD,
    previous_summary="## Goal\n- before",
    compaction_count=3,
    base=ParentSummary(text_digest="t", runs=3, digest="e", pins=("p",), reductions=RECORD.reductions),
)


@pytest.mark.parametrize("record", [RECORD, OF_STORED_LIST], ids=["of a whole list", "of a stored list"])
def test_a_record_survives_json(record: CompactionRecord) -> None:
    assert CompactionRecord.from_json(record.to_json()) == record
    assert record.reductions[0].apply("x" * 500) == "[Old tool result cleared: 500 characters]"


def test_the_reductions_under_a_stored_summary_are_known_too() -> None:
    known = collect_own_texts([replace(OF_STORED_LIST, reductions=())])
    kinds = [("result", 6, 0, "y"), ("arguments", 6, 1, "y"), ("text", 7, 0, "y"), ("media", 8, 0, "x")]
    assert known.originals == dict.fromkeys(kinds, "x")


def test_fields_of_a_later_version_are_kept() -> None:
    fields = {**RECORD.to_dict(), "colour": "blue"}
    assert CompactionRecord.from_dict(fields).to_dict()["colour"] == "blue"


def test_absent_optional_fields_get_their_defaults() -> None:
    needed = [
        "version",
        "id",
        "reason",
        "summary",
        "rendered",
        "compacted_message_count",
        "covered_runs",
        "covered_digest",
    ]
    fields = {name: RECORD.to_dict()[name] for name in needed}
    record = CompactionRecord.from_dict(fields)
    assert (record.pins, record.reductions, record.usage, record.previous_summary) == ((), (), None, None)
    assert (record.prompt_version, record.seen_runs, record.tokens_before, record.tokens_after) == (0, 0, 0, 0)
    assert (record.compaction_count, record.last_compacted_at) == (1, "")


@pytest.mark.parametrize("value", [None, 3, "1.2", [1.2], True])
def test_an_unreadable_calibration_is_an_empty_one(value: object) -> None:
    record = CompactionRecord.from_dict({**RECORD.to_dict(), "calibration": value})
    assert record == replace(RECORD, calibration={})


@folded(
    "changes, says",
    {
        "newer version": ({"version": 99}, "version=99 is newer"),
        "no version": ({"version": None}, "version must be int"),
        "wrong type": ({"summary": 7}, "summary must be str, not int"),
        "pins": ({"pins": "x"}, "pins must be a list, not str"),
        "a pin": ({"pins": [3]}, "pins must be an object, not int"),
        "files": ({"read_files": [1]}, "read_files"),
        "a bool is no number": ({"covered_runs": True}, "covered_runs must be int, not bool"),
        "missing": ({"covered_digest": None}, "covered_digest"),
        "one file instead of a list": ({"read_files": "a.py"}, "read_files"),
        "digest": ({"digest": 3}, "^digest must be an object"),
        "base": ({"base": 3}, "^base must be an object"),
        "usage": ({"usage": 3}, "^usage must be an object"),
        "unknown reason": ({"reason": "boredom"}, "reason=<str> is not one of threshold, overflow"),
        "no reduction": ({"reductions": [{"run": 1}]}, "^reductions: kind=None"),
        "unknown reduction": ({"reductions": [{"kind": "x", "digest": "d"}]}, "^reductions: kind=<str>"),
        "a reduction's number": ({"reductions": [{"kind": "text", "run": None}]}, "^run must be int"),
        "a reduction's digest": ({"reductions": [{"kind": "text", "run": 1, "ordinal": 1}]}, "^digest"),
    },
)
def test_a_damaged_record_names_its_field(changes: dict[str, object], says: str) -> None:
    with pytest.raises(RecordError, match=says):
        CompactionRecord.from_dict({**RECORD.to_dict(), **changes})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "^not JSON: "),
        ("{", "^not JSON: "),
        ("[]", "^a record must be an object"),
        ('"x"', "^a record must be an object"),
        ("[" * 100_000, "^not JSON: "),
    ],
)
def test_other_values_are_no_record(text: str, says: str) -> None:
    with pytest.raises(RecordError, match=says):
        CompactionRecord.from_json(text)


def test_lone_surrogates_are_stored() -> None:
    record = replace(RECORD, summary="half \ud83d")
    assert CompactionRecord.from_json(record.to_json().encode().decode()) == record
