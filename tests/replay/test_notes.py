"""Damaged files: what is kept before the first mistake, and the notes that tell of it."""

import json

from compaction_hooks.replay.readers.notes import Skipped
from compaction_hooks.replay.readers.salvage import Salvaged, salvage
from tests.cases import folded


def test_one_reason_is_said_once_with_its_places() -> None:
    skipped = Skipped()
    skipped.add("a result without its call", 4)
    skipped.add("cut off", 9)
    skipped.add("a result without its call", 7, 4)
    assert skipped.notes() == ("lines 4, 7: a result without its call", "line 9: cut off")


def test_of_many_places_the_first_are_named_and_the_others_counted() -> None:
    skipped = Skipped("event")
    skipped.add("odd", *range(8))
    assert skipped.notes() == ("events 0, 1, 2, 3, 4 and 3 more: odd",)


def test_a_reason_without_a_place_is_said_alone() -> None:
    skipped = Skipped()
    skipped.add("a sub-agent's session")
    skipped.add("a sub-agent's session")
    assert skipped.notes() == ("a sub-agent's session",)


def test_kinds_are_counted_in_one_note_the_most_frequent_first() -> None:
    skipped = Skipped()
    for kind in ("info", "error", "error"):
        skipped.add_kind(kind)
    skipped.add("odd", 1)
    assert skipped.notes() == ("line 1: odd", "no part of the conversation: error 2, info 1")


def test_nothing_skipped_is_nothing_said() -> None:
    assert Skipped().notes() == ()


@folded(
    "text, value",
    {
        "member": ('{"a": 1, "b": 2, "c": ', {"a": 1, "b": 2}),
        "text": ('{"a": 1, "b": "cut o', {"a": 1}),
        "innermost": ('{"a": {"b": 1, "c": [1, 2, 3', {"a": {"b": 1, "c": [1, 2]}}),
        "object of a list": ('[{"a": 1}, {"b": 2, "c": [3, ', [{"a": 1}]),
        "outermost object of a list": ('{"m": [{"a": [{"b": 1}, {"c"', {"m": []}),
        "list of a list": ('[[{"a": 1}], [{"b": 2}, {"c"', [[{"a": 1}], [{"b": 2}]]),
        "marks in a text": ('{"a": "} ] \\" , {", "b": [1, 2}', {"a": '} ] " , {', "b": [1]}),
        "mistake inside a text": ('{"a": 1, "b": "bad \\q", "c": 3}', {"a": 1}),
        "comma": ('{"a": 1 "b": 2}', {}),
        "opened": ("[", []),
    },
)
def test_values_before_the_first_mistake_are_kept(text: str, value: object) -> None:
    found = salvage(text)
    assert found is not None
    assert (found.value, found.is_whole) == (value, False)
    assert 0 < found.end <= len(text)


def test_a_value_without_a_mistake_is_whole() -> None:
    assert salvage('ab {"a": [1]} more', 3) == Salvaged({"a": [1]}, True, 13)


@folded(
    "text",
    {
        "prose": "Dear diary",
        "nothing": "",
        "nested too deeply": "[" * 100_000,
        "number too long": f'{{"a": {"9" * 5_000}',
    },
)
def test_a_text_without_object_or_list_gives_nothing(text: str) -> None:
    assert salvage(text) is None


def test_every_prefix_of_a_document_gives_a_part_of_it() -> None:
    document = json.dumps({"a": [{"b": "x"}, {"c": [1, {"d": None}]}], "e": "end"}, indent=1)
    for end in range(1, len(document)):
        found = salvage(document[:end])
        assert found is not None
        assert isinstance(found.value, dict)
        assert found.value.get("a", []) in ([], [{"b": "x"}], [{"b": "x"}, {"c": [1, {"d": None}]}])
