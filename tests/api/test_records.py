"""`session.record` and `.records`, `session.keep`, `session.unmerged`: for adapters, and for hosts with stores of their own."""

from compaction_hooks import CompactionSettings
from tests.conversations import Scripted, assistant, controller, system, talk, texts, user

MESSAGES = [system(), *talk(20)]
RULE = user("Never touch the public API.")


def test_the_record_is_the_active_one() -> None:
    session = controller(100_000, summarizer=Scripted("- kept")).session("thread")
    assert session.record is None
    made = session.compact_sync(MESSAGES, keep_recent_tokens=300).record
    assert session.record == made
    session.transform_context_sync(MESSAGES[:2])
    assert session.record is None
    session.transform_context_sync(MESSAGES)
    session.undo()
    assert session.record is None


def test_the_records_are_those_of_every_branch_with_the_notes() -> None:
    session = controller(100_000, summarizer=Scripted("- kept")).session("thread")
    session.compact_sync(MESSAGES, keep_recent_tokens=300)
    session.compact_sync([user("Another branch"), *talk(20, first=40)], keep_recent_tokens=300)
    session.pin(RULE)
    assert [record.to_dict() for record in session.records] == session.export_records()
    assert sorted(record.is_note for record in session.records) == [False, False, True]


def test_a_kept_message_stays_in_the_view_without_a_record_of_its_own() -> None:
    messages = [*talk(3), RULE, assistant("Understood."), *talk(6, first=3)]
    session = controller(200_000, summarizer=Scripted("- facts")).session("thread")
    session.keep(RULE)
    assert session.records == []
    assert RULE in session.compact_sync(messages, keep_recent_tokens=300).messages


def test_a_merged_view_is_stored_unmerged() -> None:
    settings = CompactionSettings(merge_user_messages=True)
    session = controller(100_000, summarizer=Scripted("- kept"), settings=settings).session("thread")
    session.compact_sync(MESSAGES, keep_recent_tokens=300)
    view = session.transform_context_sync(MESSAGES)
    stored = session.unmerged(view)
    assert len(stored) == len(view) + 1
    assert "- kept" in texts(stored)
    assert session.unmerged(MESSAGES) is MESSAGES
    assert session.transform_context_sync([*stored, assistant("Go on.")])[: len(view)] == view
