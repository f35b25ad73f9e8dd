"""Damage to a file loses the damaged entry and later ones, but no earlier one."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from compaction_hooks.replay import RecordedSession, ReplayError
from tests.cases import folded, sampled
from tests.replay.samples import KINDS, Json, Kind, Record, assert_calls_of_sessions_are_answered, read_all
from tests.strategies import examples

each_kind = pytest.mark.parametrize("kind", sampled(KINDS, 4), ids=lambda kind: kind.name)
turns = st.integers(min_value=1, max_value=4)
indents = st.sampled_from((None, 1))
fractions = st.floats(min_value=0, max_value=1)
junk = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def read(content: bytes) -> tuple[list[RecordedSession], ReplayError | None]:
    """Return the sessions of a file with this content, and the error after them, if any."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session"
        path.write_bytes(content)
        return read_all(path)


def assert_kept(content: bytes, whole: Sequence[Record]) -> None:
    """Assert that all marks of intact entries are read; an error is allowed only if no model answers in them."""
    sessions, error = read(content)
    assert_calls_of_sessions_are_answered(sessions)
    if not any(record.is_answer for record in whole):
        return
    assert sessions, error
    told = json.dumps([session.messages for session in sessions])
    assert [mark for record in whole for mark in record.marks if mark not in told] == []


def records_before(text: str, records: Sequence[Record], place: int) -> list[Record]:
    """Return the entries that are complete before a position in the text."""
    starts = [text.index(record.marks[0]) for record in records if record.marks] + [len(text)]
    marked = [record for record in records if record.marks]
    return [record for record, following in zip(marked, starts[1:], strict=True) if following <= place]


@folded("kind", {kind.name: kind for kind in KINDS})
def test_a_whole_file_is_read_whole(kind: Kind) -> None:
    records = kind.records(3)
    for indent in (None, 1):
        sessions, error = read(kind.text(records, indent=indent).encode())
        assert error is None
        (session,) = sessions
        told = json.dumps(session.messages)
        assert [mark for record in records for mark in record.marks if told.count(mark) != 1] == []
        assert session.unread == ()


@each_kind
@folded("nothing", [None, {}])
def test_an_entry_that_says_nothing_could_not_be_read(kind: Kind, nothing: Json | None) -> None:
    records = kind.records(3)
    for place in range(len(records)):
        damaged = [*records[:place], Record(nothing), *records[place + 1 :]]
        sessions, error = read(kind.text(damaged).encode())
        assert error or any(session.unread for session in sessions), place


@each_kind
@examples(50)
@given(count=turns, indent=indents, at=fractions)
def test_a_file_that_was_cut_off_keeps_the_entries_before(
    kind: Kind, count: int, indent: int | None, at: float
) -> None:
    records = kind.records(count)
    text = kind.text(records, indent=indent)
    place = round(at * len(text))
    assert_kept(text[:place].encode(), records_before(text, records, place))


@each_kind
@examples(50)
@given(count=turns, indent=indents, at=fractions, put=junk, gone=st.integers(min_value=0, max_value=30))
def test_a_damaged_place_keeps_the_entries_before(
    kind: Kind, count: int, indent: int | None, at: float, put: str, gone: int
) -> None:
    records = kind.records(count)
    text = kind.text(records, indent=indent)
    place = round(at * len(text))
    assert_kept((text[:place] + put + text[place + gone :]).encode(), records_before(text, records, place))


@each_kind
@examples(50)
@given(count=turns, at=fractions, put=st.binary(max_size=8))
def test_bytes_that_are_no_text_keep_the_entries_before(kind: Kind, count: int, at: float, put: bytes) -> None:
    records = kind.records(count)
    text = kind.text(records)
    place = round(at * len(text))
    content = text[:place].encode() + put + text[place:].encode()
    assert_kept(content, [] if b"\0" in put else records_before(text, records, place))


@pytest.mark.parametrize("kind", sampled([kind for kind in KINDS if kind.is_lines], 3), ids=lambda kind: kind.name)
@examples(50)
@given(data=st.data())
def test_lost_broken_joined_and_repeated_lines_cost_themselves_only(kind: Kind, data: st.DataObject) -> None:
    """A broken line is left out, two objects on one line are both read, a repeated line does no harm."""
    records = kind.records(data.draw(turns))
    lines = kind.text(records).splitlines()
    harmed: list[Record] = []
    for place in data.draw(st.lists(st.integers(0, len(lines) - 1), unique=True, max_size=3)):
        change = data.draw(st.sampled_from(("lost", "broken", "repeated", "joined")))
        if change in ("lost", "broken"):
            harmed.append(records[place])
            lines[place] = "" if change == "lost" else lines[place][: len(lines[place]) // 2]
        elif change == "repeated":
            lines[place] += f"\n{lines[place]}"
        else:
            lines[place] += "\x1d"
    content = "\n".join(lines).replace("\x1d\n", "").replace("\x1d", "")
    first = min((records.index(record) for record in harmed), default=len(records))
    assert_kept(content.encode(), records[:first])
