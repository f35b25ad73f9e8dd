"""`controller.session(id, carry=...)`, `controller.close(id)`: conversations, and the texts that come back in each."""

import re
from collections.abc import Callable

from compaction_hooks import Carried, CarryRequest, CompactionOutcome
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat
from tests.conversations import Controller, Scripted, above_threshold, controller, one_task, talk, texts


def carrying(**texts: str) -> Callable[[CarryRequest], list[Carried]]:
    return lambda _: [Carried(name, text) for name, text in texts.items()]


def carried_by(hooks: Controller, name: str) -> list[tuple[str, str]]:
    record = hooks.session(name).compact_sync(talk(20), keep_recent_tokens=300).record
    assert record is not None
    return re.findall(r'<carried name="(.*?)">\n(.*?)\n</carried>', record.rendered)


def test_each_conversation_has_texts_of_its_own_and_the_controllers() -> None:
    hooks = controller(200_000, summarizer=Scripted(), carry=carrying(rules="of all", plan="of all"))
    hooks.session("a", carry=carrying(plan="of a", skill="of a"))
    assert carried_by(hooks, "a") == [("rules", "of all"), ("plan", "of a"), ("skill", "of a")]
    assert carried_by(hooks, "b") == [("rules", "of all"), ("plan", "of all")]


def test_a_function_that_fails_leaves_the_other_one() -> None:
    def broken(_: CarryRequest) -> list[Carried]:
        raise OSError("no such project")

    events: list[CompactionEvent] = []
    hooks = controller(200_000, summarizer=Scripted(), carry=carrying(rules="of all"), events=events)
    hooks.session("a", carry=broken)
    assert carried_by(hooks, "a") == [("rules", "of all")]
    assert [*map(str, events)][1:2] == ["a: `carry` of the host failed: OSError: no such project"]


def test_the_host_is_asked_when_a_summary_is_made_and_not_before() -> None:
    asked: list[str] = []
    hooks = controller(summarizer=Scripted(), carry=lambda request: asked.append(request.session_id))
    cleared = hooks.session("clears").transform_context_sync(one_task())
    assert (len(hooks.session("clears").history()), "cleared" in texts(cleared), asked) == (1, True, [])

    session, messages = hooks.session("summarizes"), talk(20)
    preview = session.preview_sync(messages, keep_recent_tokens=300)
    assert asked == ["summarizes"]
    adopted = session.compact_sync(messages, keep_recent_tokens=300, preview=preview)
    assert (adopted.outcome, asked) == (CompactionOutcome.COMPACTED, ["summarizes"])
    session.compact_sync([*messages, *talk(20, first=20)], keep_recent_tokens=300)
    assert asked == ["summarizes"] * 2


def test_a_conversations_texts_come_back_in_each_of_its_formats() -> None:
    """As with an adapter, which opens the session in its framework's format."""
    hooks = controller(200_000, summarizer=Scripted())
    hooks.session("a", carry=carrying(plan="1. read"))
    record = hooks.session("a", AnthropicFormat()).compact_sync(talk(20), keep_recent_tokens=300).record
    assert record is not None
    assert '<carried name="plan">\n1. read\n</carried>' in record.rendered


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
