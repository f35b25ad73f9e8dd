"""`project(messages, record)`: the view that a record gives of a list."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from compaction_hooks import CompactionController, CompactionRecord, CompactionSettings, project
from compaction_hooks.formats import AnthropicFormat, OpenAIResponsesFormat
from compaction_hooks.messages import Message, PartAddress, Text
from tests.conversations import (
    PLAIN,
    Chat,
    Scripted,
    assistant,
    call,
    controller,
    prose,
    steps,
    system,
    talk,
    texts,
    tool,
    user,
)


def record_of(messages: list[Chat], window: int = 8_192, **more: object) -> CompactionRecord:
    """Return the record of a compaction of these messages."""
    settings = CompactionSettings(keep_user_tokens=0)
    result = controller(window, summarizer=Scripted(), settings=settings).compact_sync(messages, keep_recent_tokens=600)
    assert result.record is not None
    return result.record


CONVERSATION = [system(), user("Port the parser."), *steps(12), assistant("Ported."), *talk(3)]


def test_the_view_is_system_summary_then_the_recent_messages() -> None:
    view = project(CONVERSATION, record_of(CONVERSATION))
    assert view[0] is CONVERSATION[0]
    assert view[1]["role"] == "user"
    assert "conversation history before this point was compacted" in texts([view[1]])
    kept = view[2:]
    assert kept
    assert all(mine is theirs for mine, theirs in zip(kept, CONVERSATION[-len(kept) :], strict=True))


def test_a_record_that_is_not_true_of_the_list_is_not_applied() -> None:
    record = record_of(CONVERSATION)
    rewound = CONVERSATION[:4]
    edited = [CONVERSATION[0], user("Port the lexer."), *CONVERSATION[2:]]
    assert project(rewound, record) == rewound
    assert project(edited, record) == edited


def test_a_reduction_of_something_else_is_not_applied() -> None:
    """A result that changed since stays as it is: reductions name their text by digest."""
    messages = [user("go"), *steps(30, result_tokens=400)]
    hooks = controller(16_384, summarizer=Scripted())
    assert hooks.transform_context_sync(messages)[2] is not messages[2]
    record = CompactionRecord.from_dict(hooks.session("default").export_records()[-1])
    changed = [*messages]
    changed[2] = {**messages[2], "content": "another result " + prose(400)}
    assert project(changed, record)[2] is changed[2]
    assert project(changed, record)[4] is not changed[4]


def test_each_record_of_a_stored_list_with_a_shortened_result_is_true_of_it_alone() -> None:
    settings = CompactionSettings(clear_tool_results=False)
    hooks = controller(2_048, summarizer=Scripted(), settings=settings)
    stored = [*hooks.transform_context_sync([user("go"), *steps(4, 200), *steps(1, 3_000, first=10)])]
    for number in (30, 40, 50):
        stored += steps(5, 150, first=number)
        view = hooks.transform_context_sync(stored)
        assert project(stored, hooks.history()[-1]) == view != stored


def test_reductions_of_messages_that_a_rewind_removed_are_passed_over() -> None:
    messages = [user("go"), *steps(30, result_tokens=400)]
    hooks = controller(16_384, summarizer=Scripted())
    view = hooks.transform_context_sync(messages)
    record = CompactionRecord.from_dict(hooks.session("default").export_records()[-1])
    assert not record.rendered
    assert len(record.reductions) > 2
    assert project(messages[:5], record) == view[:5]
    assert view[2] != messages[2]


def test_a_summary_comes_before_kept_messages_some_of_which_are_cleared() -> None:
    messages = [system(), user("go"), *steps(30, result_tokens=400)]
    hooks = controller(16_384, summarizer=Scripted())
    hooks.transform_context_sync(messages)
    cleared = CompactionRecord.from_dict(hooks.session("default").export_records()[-1])
    summed = hooks.compact_sync(messages, keep_recent_tokens=5_700).record
    assert summed is not None
    kept = tuple(item for item in cleared.reductions if item.run >= summed.covered_runs)
    both = replace(summed, reductions=kept)
    view, whole = project(messages, both), project(messages, replace(summed, reductions=()))
    assert len(view) == len(whole) < len(messages)
    smaller = [place for place, message in enumerate(view) if message != whole[place]]
    assert len(smaller) == len(kept) == 2
    assert all(view[place]["tool_call_id"] == whole[place]["tool_call_id"] for place in smaller)
    same = [place for place in range(3, len(view)) if place not in smaller]
    assert all(view[place] is whole[place] for place in same)


def test_anthropic_messages_that_mix_results_and_words_are_split_at_the_cut() -> None:
    messages: list[Chat] = [{"role": "user", "content": "go"}]
    for n in range(12):
        messages += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"n": n}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"t{n}", "content": prose(300)},
                    {"type": "text", "text": f"and now {n}", "cache_control": {"type": "ephemeral"}},
                ],
            },
        ]
    settings = CompactionSettings(keep_user_tokens=0)
    session = controller(8_192, summarizer=Scripted(), settings=settings).session("a", format=AnthropicFormat())
    result = session.compact_sync(messages, keep_recent_tokens=900)
    assert result.record is not None
    assert result.messages[-1] is messages[-1]
    assert result.messages[1]["role"] == "assistant"


def shorten_words() -> tuple[list[Chat], CompactionRecord]:
    """Return a list whose older message was shortened, and the record that says so."""
    messages = [system(), user("Old. " + prose(10_000)), user("Now this.")]
    result = controller(8_192).compact_sync(messages)
    assert result.record is not None
    return messages, result.record


def test_a_text_that_changed_since_is_not_shortened() -> None:
    messages, record = shorten_words()
    edited = [messages[0], user("Other. " + prose(8_000)), messages[2]]
    assert project(edited, record) == edited


def test_a_rewind_makes_a_shortened_text_the_request_again_and_whole() -> None:
    messages, record = shorten_words()
    assert project(messages[:2], record)[1] is messages[1]


def test_a_conversation_shows_a_shortened_text_whole_while_it_is_the_request() -> None:
    """After a rewind, call after call: copies in the views of earlier calls cannot be reused."""
    messages, record = shorten_words()
    hooks = controller(200_000, settings=CompactionSettings(auto_compact=False))
    hooks.session("default").import_records([record.to_dict()])
    gone_on = [*messages[:2], assistant("hm"), user("And?")]
    for listed in (messages, gone_on[:2], gone_on[:3], gone_on, gone_on[:2], messages):
        for _ in range(2):
            assert hooks.transform_context_sync(listed) == project(listed, record)


def test_a_list_stored_with_a_shortened_text_is_its_own_view() -> None:
    messages, record = shorten_words()
    stored = project(messages, record)
    assert project([*stored, assistant("Done."), user("next")], record) == [*stored, assistant("Done."), user("next")]


def test_reasoning_alone_stays_with_its_call() -> None:
    """OpenAI Responses: a reasoning item is kept with the call it led to, or goes with it."""
    items: list[Chat] = [{"role": "user", "content": "do it"}]
    for n in range(30):
        items += [
            {"type": "reasoning", "id": f"rs{n}", "summary": [], "encrypted_content": "x" * 80},
            {"type": "function_call", "id": f"fc{n}", "call_id": f"c{n}", "name": "run", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{n}", "output": prose(350)},
        ]
    session = controller(8_192, summarizer=Scripted()).session("r", format=OpenAIResponsesFormat())
    view = session.compact_sync(items, keep_recent_tokens=900).messages
    kinds = [item.get("type") for item in view[2:]]
    assert kinds[:3] == ["reasoning", "function_call", "function_call_output"]
    assert len(kinds) % 3 == 0


def test_a_record_made_on_a_stored_list_is_enough_to_read_that_list() -> None:
    """Another process has the stored list and the newest record, and nothing else."""
    hooks = controller(8_192, summarizer=Scripted("- one", "- two"), settings=PLAIN)
    stored = hooks.compact_sync([system(), user("start"), *steps(16, 350)]).messages
    longer = [*stored, *steps(16, 350, first=40)]
    view = hooks.transform_context_sync(longer)
    record = CompactionRecord.from_dict(hooks.session("default").export_records()[-1])
    assert "- two" in texts(view)
    assert project(longer, record) == view


def test_of_parallel_calls_the_one_whose_arguments_are_too_large_is_shortened() -> None:
    small = call("a", "write_file", text="short")
    both = assistant(None, small, call("b", "write_file", text=prose(4_000)))
    messages = [user("go"), *steps(3), both, tool("a", "ok"), tool("b", "ok")]
    shown = controller(4_096, summarizer=Scripted()).transform_context_sync(messages)[-3]["tool_calls"]
    assert isinstance(shown, list)
    assert shown[0] == small
    assert "characters left out" in texts(shown[1:])


def test_a_request_that_was_sent_twice_is_kept_once() -> None:
    messages = [*talk(3), user("once more"), user("once more"), *steps(12)]
    view = project(messages, record_of(messages))
    assert [message["content"] for message in view].count("once more") == 1
    assert any(message is messages[7] for message in view)


def test_a_message_that_the_host_replaced_by_an_equal_one_is_the_present_object() -> None:
    messages = [system("Be careful."), *talk(3), user("once more"), *steps(12)]
    hooks = CompactionController[Chat](context_window=8_192, summarizer=Scripted("- so far"), settings=PLAIN)
    hooks.compact_sync(messages, keep_recent_tokens=500)
    assert hooks.transform_context_sync(messages)[0] is messages[0]
    replaced = [dict(messages[0]), *messages[1:]]
    assert hooks.transform_context_sync(replaced)[0] is replaced[0]


def test_a_result_that_was_cut_off_and_comes_again_is_cleared_as_before() -> None:
    messages = [user("go"), *steps(30, result_tokens=400)]
    hooks = controller(16_384, summarizer=Scripted())
    view = hooks.transform_context_sync(messages)
    cleared = [place for place, message in enumerate(view) if message is not messages[place]]
    assert len(cleared) > 5
    hooks.transform_context_sync(messages[: cleared[-1] - 2])
    assert hooks.transform_context_sync(messages) == view


def test_a_request_before_the_cut_is_shown_when_a_rewind_makes_it_current_again() -> None:
    messages = [user("Read all."), *steps(12), user("Now sum up."), *steps(1, first=12)]
    hooks = controller(16_384, summarizer=Scripted())
    record = hooks.compact_sync(messages, keep_recent_tokens=1_200).record
    assert record is not None
    assert messages[0] not in hooks.transform_context_sync(messages)
    rewound = messages[:-3]
    view = hooks.transform_context_sync(rewound)
    assert view == project(rewound, record)
    assert any(message is messages[0] for message in view)


def test_a_cleared_result_is_shown_cleared_though_it_is_too_large_for_any_view() -> None:
    messages = [user("go"), *steps(24, result_tokens=700)]
    hooks, later = (
        controller(16_384, settings=CompactionSettings(max_result_tokens=500, auto_compact=is_automatic))
        for is_automatic in (True, False)
    )
    view = hooks.transform_context_sync(messages)
    record = CompactionRecord.from_dict(hooks.session("default").export_records()[-1])
    assert not record.rendered
    later.session("default").import_records([record.to_dict()])
    assert view == project(messages, record) == later.transform_context_sync(messages)


class Exchange:
    """Reads a question with its answer from one message."""

    name = "exchange"

    def read(self, message: Chat, /) -> Sequence[Message]:
        asked, answered = message.get("asked"), message.get("answered")
        question = () if asked is None else (Message(role="user", parts=(Text(asked),)),)
        return question if answered is None else (*question, Message(role="assistant", parts=(Text(answered),)))

    def summary(self, text: str, /) -> Chat:
        return {"asked": text}

    def take(self, message: Chat, pieces: Sequence[int], /) -> Chat:
        fields = list(message.items())
        return dict(fields[piece] for piece in pieces)

    def rewrite(self, message: Chat, texts: Mapping[PartAddress, str], /) -> Chat:
        raise AssertionError("no results")


@pytest.mark.parametrize("keep", [350, 500])
def test_a_record_may_end_in_the_middle_of_a_message(keep: int) -> None:
    messages: list[Chat] = [{"asked": f"{n}? {prose(100)}", "answered": f"{n}: {prose(200)}"} for n in range(12)]
    hooks: CompactionController[Chat] = CompactionController(
        context_window=8_192,
        format=Exchange(),
        summarizer=Scripted("- so far"),
        settings=replace(PLAIN, keep_user_tokens=0),
    )
    hooks.compact_sync(messages, keep_recent_tokens=keep)
    view = hooks.transform_context_sync(messages)
    assert [[*message] for message in view] == [["asked"], ["answered"], ["asked", "answered"]]
    grown = [*messages, {"asked": "more?", "answered": "yes"}]
    assert hooks.transform_context_sync(grown) == [*view, grown[-1]]
    other: CompactionController[Chat] = CompactionController(context_window=8_192, format=Exchange())
    other.session("other").import_records(hooks.session("default").export_records())
    assert other.session("other").transform_context_sync(grown) == [*view, grown[-1]]
