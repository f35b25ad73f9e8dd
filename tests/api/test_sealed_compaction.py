"""A summary that only the provider can read (OpenAI, xAI): where it is in views, and who gets it."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_hooks import CompactionController, CompactionFinished, CompactionOutcome, project
from compaction_hooks.formats import OpenAIResponsesFormat
from compaction_hooks.stores import MemoryStore
from tests.checked_session import CheckedSession
from tests.conversations import prose, texts

NAMES = ["src/parser/tokens.py", "ISSUE-4711", "read_header", "a3f9c2e1d4b5", "https://example.org/spec", "port 8443"]
SYSTEM = {"type": "message", "role": "developer", "content": "You are a careful engineer."}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" + "x" * 3_995}
REQUEST = {"type": "message", "role": "user", "content": f"Make {', '.join(NAMES)} work."}


def talk(start: int, end: int) -> list[Any]:
    return [
        {"type": "message", "role": role, "content": text}
        for n in range(start, end)
        for role, text in (("user", f"Part {n}?"), ("assistant", prose(400)))
    ]


def conversation() -> list[Any]:
    """Return a conversation that the provider compacted in the middle of a turn."""
    return [SYSTEM, *talk(0, 20), REQUEST, ITEM, {"type": "message", "role": "assistant", "content": "It works."}]


def controller(**keywords: Any) -> CompactionController[Any]:
    given: dict[str, Any] = {"model": "gpt-5", "context_window": 20_000}
    return CompactionController(**given | keywords)


def text_of(view: Sequence[Any]) -> str:
    return "\n".join(str(message) for message in view)


def test_a_view_begins_with_the_item_and_goes_on_with_the_request_before_it_and_the_messages_after_it() -> None:
    session = controller().session("one")
    messages = conversation()
    view = session.transform_context_sync(messages)
    assert view == [ITEM, SYSTEM, REQUEST, messages[-1]]
    assert all(any(shown is message for message in messages) for shown in view)
    later = [*messages, *talk(30, 31)]
    assert session.transform_context_sync(later) == [*view, *talk(30, 31)], "the provider's cached prefix stays"


def test_messages_before_the_item_weigh_nothing_and_the_item_a_quarter_of_its_characters() -> None:
    session = controller().session("one")
    session.transform_context_sync([SYSTEM, *talk(0, 20), ITEM, *talk(30, 31)])
    whole = session.state().context_tokens
    session.transform_context_sync([SYSTEM, *talk(30, 31)])
    assert whole is not None
    assert whole - (session.state().context_tokens or 0) == 1_000 + 4, "4,000 characters, and the frame of a message"


def test_a_list_that_begins_with_the_item_is_sent_as_it_is() -> None:
    messages = [ITEM, REQUEST, *talk(0, 2)]
    assert controller().transform_context_sync(messages) is messages


def test_a_pinned_message_before_the_item_stays() -> None:
    session = controller().session("one")
    messages = conversation()
    session.pin(messages[2])
    assert session.transform_context_sync(messages) == [ITEM, SYSTEM, messages[2], REQUEST, messages[-1]]


def test_our_summary_covers_an_item_with_an_event_and_stays_behind_it() -> None:
    events: list[object] = []
    session = controller(on_event=events.append).session("one")
    messages = [*conversation(), *talk(30, 40)]
    result = session.compact_sync(messages, keep_recent_tokens=500)
    assert result.record is not None
    assert result.messages[:2] == [ITEM, SYSTEM]
    assert result.messages[2]["content"][0]["text"] == result.record.rendered
    assert [name for name in NAMES if name not in result.record.rendered] == [], (
        "our summary reads the messages before it"
    )
    assert project(messages, result.record) == result.messages
    (finished,) = (event for event in events if isinstance(event, CompactionFinished))
    assert finished.native_summaries == 1

    again = session.compact_sync([*messages, *talk(40, 50)], keep_recent_tokens=500)
    assert again.messages[:2] == [ITEM, SYSTEM]
    assert [each.native_summaries for each in events if isinstance(each, CompactionFinished)] == [1, 0]


def test_a_host_may_store_the_compacted_list_with_the_item_in_front() -> None:
    session = controller().session("one")
    stored = session.compact_sync([*conversation(), *talk(30, 40)], keep_recent_tokens=500).messages
    longer = [*stored, *talk(50, 60)]
    assert session.transform_context_sync(longer) is longer
    bare = session.transform_context_sync(longer, model="grok-4")
    assert bare == longer[1:]
    again = session.compact_sync(longer, keep_recent_tokens=500)
    assert again.outcome is CompactionOutcome.COMPACTED
    assert again.messages[0] is ITEM
    assert again.record is not None
    assert again.record.compaction_count == 2


def test_a_newer_item_takes_the_place_of_our_summary() -> None:
    session = controller().session("one")
    messages = [SYSTEM, *talk(0, 20), REQUEST, *talk(20, 22)]
    session.compact_sync(messages, keep_recent_tokens=500)
    newer = {**ITEM, "id": "cmp_2", "encrypted_content": "gAAAAB"}
    view = session.transform_context_sync([*messages, newer, *talk(30, 31)])
    assert view == [newer, SYSTEM, *talk(30, 31)]
    other = session.transform_context_sync([*messages, newer, *talk(30, 31)], model="grok-4")
    assert [name for name in NAMES if name not in text_of(other)] == [], "our summary has them"


@pytest.mark.parametrize("model", ["grok-4", "gpt-5-mini", "azure/gpt-5", "claude-opus-5"])
def test_another_model_gets_the_messages_and_the_first_one_the_item_again(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = controller(model="openai/gpt-5").session("one")
    messages = [*conversation(), *talk(30, 31)]
    first = session.transform_context_sync(messages)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert session.transform_context_sync(messages, model=model) == [
                message for message in messages if message is not ITEM
            ]
    assert [record.getMessage() for record in caplog.records if "left out" in record.getMessage()] == [
        "session one: a summary that only another provider or model can read is left out"
    ]
    assert session.transform_context_sync(messages) == first
    dated = session.transform_context_sync(messages, model="gpt-5-2025-08-07")
    assert dated == first, "a dated name of the same model"


def test_another_model_gets_a_summary_of_all_messages_if_they_are_too_many() -> None:
    session = controller().session("one")
    session.transform_context_sync(conversation())
    view = session.transform_context_sync(conversation(), model="grok-4", context_window=4_000)
    assert session.record is not None
    assert "Part 0?" in texts(view)
    assert ITEM not in view


@pytest.mark.parametrize("kept", [[], [SYSTEM], [SYSTEM, REQUEST]], ids=["nothing", "system", "user"])
def test_a_line_says_that_messages_are_missing_if_no_request_can_read_them(kept: list[Any]) -> None:
    """A host may drop the messages before the item, all or those of the assistant."""
    session = controller().session("one")
    session.transform_context_sync(conversation())
    messages = [*kept, ITEM, *talk(30, 31)]
    view = session.transform_context_sync(messages, model="grok-4")
    places = [
        place for place, message in enumerate(view) if "The messages before this point are missing" in str(message)
    ]
    assert places == [int(SYSTEM in kept)]
    del view[places[0]]
    assert view == [*kept, *talk(30, 31)]


def test_the_issuer_is_that_of_the_call_which_brought_the_item_also_after_a_restart_with_another_model() -> None:
    store, (*before, item, _) = MemoryStore(), conversation()
    controller(store=store).session("one").call_sync(before, lambda _: {"output": [item]})
    session = controller(store=store, model="grok-4").session("one")
    assert item not in session.transform_context_sync(conversation())
    assert session.transform_context_sync(conversation(), model="gpt-5")[0] is ITEM


class RefusedError(Exception):
    """OpenAI's refusal of an item of another account."""

    status_code = 400
    code = "invalid_encrypted_content"

    def __init__(self) -> None:
        super().__init__("The encrypted content for item cmp_1 could not be verified.")


@pytest.mark.parametrize("window", [20_000, 4_000])
def test_a_host_that_catches_the_refusal_recovers_without_the_item(window: int) -> None:
    """If the messages that the item covers are too many for the window, they are compacted at once."""
    session = controller(context_window=window).session("one")
    session.transform_context_sync(conversation())
    view = session.recover_sync(RefusedError(), conversation())
    assert ITEM not in view
    assert (session.state().context_tokens or 0) < window
    assert [name for name in NAMES if name not in text_of(view)] == []
    with pytest.raises(RefusedError):
        session.recover_sync(RefusedError(), conversation())


def test_a_refusal_is_known_to_a_fork_and_after_its_restart() -> None:
    session, store = controller().session("one"), MemoryStore()
    session.transform_context_sync(conversation())
    view = session.recover_sync(RefusedError(), conversation())
    fork = controller(store=store).session("two")
    fork.import_records(session.export_records())
    assert fork.transform_context_sync(conversation()) == view
    assert controller(store=store).session("two").transform_context_sync(conversation()) == view


MODELS = ["gpt-5", "grok-4"]
PARTS = st.lists(st.sampled_from(["user", "assistant", *MODELS]), min_size=1, max_size=8)


@settings(max_examples=20)
@given(PARTS, st.data())
def test_an_item_is_in_a_view_once_in_front_and_only_for_its_issuer(parts: list[str], data: st.DataObject) -> None:
    """Items come with the answers of two models; any prefix of the list is sent to either, and compacted."""
    session = CheckedSession(controller(context_window=200_000).session("one"), OpenAIResponsesFormat())
    messages: list[Any] = [SYSTEM, *talk(0, 1)]
    issuers: dict[str, str] = {}
    for number, part in enumerate(parts):
        if part in MODELS:
            session.transform_context(messages, model=part)
            issuers[f"gAAAA{number}"] = part
            messages.append({"type": "compaction", "encrypted_content": f"gAAAA{number}"})
            session.transform_context(messages, model=part)
        else:
            messages.append({"type": "message", "role": part, "content": f"{part} {number}"})

        model = data.draw(st.sampled_from(MODELS))
        if data.draw(st.booleans()):
            session.compact(messages, keep_recent_tokens=1, model=model)
        view = session.transform_context(messages, model=model)
        items = [message["encrypted_content"] for message in view if message["type"] == "compaction"]
        assert len(items) <= 1
        assert all(issuers[item] == model for item in items)
        assert not items or view[0]["type"] == "compaction" or messages[: len(view)] == view
        request = next(message for message in reversed(messages) if message.get("role") == "user")
        assert request in view
        assert SYSTEM in view
