"""`controller.session(id, host_files=...)`, `controller.close(id)`: conversations, and the files that the host tracks for each."""

from compaction_hooks import CompactionOutcome
from compaction_hooks.events import CompactionEvent
from compaction_hooks.files import FileOperations
from compaction_hooks.formats import AnthropicFormat
from tests.conversations import Controller, Scripted, above_threshold, controller, one_task, talk, texts


def files_of(hooks: Controller, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    record = hooks.session(name).compact_sync(talk(20), keep_recent_tokens=300).record
    assert record is not None
    return record.read_files, record.modified_files


def test_each_conversation_has_files_of_its_own_and_the_controllers() -> None:
    hooks = controller(200_000, summarizer=Scripted(), host_files=lambda: FileOperations(read=("all.md",)))
    hooks.session("a", host_files=lambda: FileOperations(read=("a.py",), modified=("b.py",)))
    assert files_of(hooks, "a") == (("all.md", "a.py"), ("b.py",))
    assert files_of(hooks, "b") == (("all.md",), ())


def test_a_list_that_fails_leaves_the_other_one() -> None:
    def broken() -> FileOperations:
        raise OSError("no such project")

    events: list[CompactionEvent] = []
    listed = FileOperations(read=("all.md",))
    hooks = controller(200_000, summarizer=Scripted(), host_files=lambda: listed, events=events)
    hooks.session("a", host_files=broken)
    assert files_of(hooks, "a") == (("all.md",), ())
    assert [*map(str, events)][1:2] == ["a: the host's files could not be read: OSError: no such project"]


def test_the_host_is_asked_when_a_summary_is_made_and_not_before() -> None:
    asked: list[str] = []

    def listed() -> FileOperations:
        asked.append("asked")
        return FileOperations()

    hooks = controller(summarizer=Scripted(), host_files=listed)
    cleared = hooks.session("clears").transform_context_sync(one_task())
    assert (len(hooks.session("clears").history()), "cleared" in texts(cleared), asked) == (1, True, [])

    session, messages = hooks.session("summarizes"), talk(20)
    preview = session.preview_sync(messages, keep_recent_tokens=300)
    assert asked == ["asked"]
    adopted = session.compact_sync(messages, keep_recent_tokens=300, preview=preview)
    assert (adopted.outcome, asked) == (CompactionOutcome.COMPACTED, ["asked"])
    session.compact_sync([*messages, *talk(20, first=20)], keep_recent_tokens=300)
    assert asked == ["asked"] * 2


def test_a_conversations_files_are_known_in_each_of_its_formats() -> None:
    """As with an adapter, which opens the session in its framework's format."""
    hooks = controller(200_000, summarizer=Scripted())
    hooks.session("a", host_files=lambda: FileOperations(read=("a.py",)))
    record = hooks.session("a", AnthropicFormat()).compact_sync(talk(20), keep_recent_tokens=300).record
    assert record is not None
    assert record.read_files == ("a.py",)


def open_a_thousand(hooks: Controller) -> None:
    for number in range(1_000):
        hooks.session(f"other {number}")


def test_of_a_thousand_later_sessions_the_least_recently_used_one_is_evicted() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    hooks.session("a").transform_context_sync(above_threshold())
    open_a_thousand(hooks)
    assert hooks.session("a").export_records() == []


def test_a_session_is_the_same_each_time_and_found_again_while_it_is_held() -> None:
    hooks = controller(8_192)
    held = hooks.session("a")
    assert hooks.session("a") is held
    open_a_thousand(hooks)
    assert hooks.session("a") is held


def test_close_frees_a_conversation() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    hooks.session("a").compact_sync(above_threshold())
    hooks.close("a")
    assert hooks.session("a").export_records() == []
