from compaction_hooks.replay.readers.notes import Skipped


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
