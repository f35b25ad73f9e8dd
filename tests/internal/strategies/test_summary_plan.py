"""What is summarized, what stays and how much the summary may hold, on situations with round numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest

from compaction_hooks import CompactionRecord, Message
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import HistoryReader, OwnTexts
from compaction_hooks.history.digests import message_digest
from compaction_hooks.strategies.candidate import Goal, find_parts
from compaction_hooks.strategies.summarize import Summarize, drop_marker
from compaction_hooks.strategies.summary_plan import Summarized, SummaryPlan, plan_summary
from compaction_hooks.tokens.budget import Budget
from compaction_hooks.tokens.calibration import Calibration
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.parts import TEXTS
from compaction_hooks.view.record import UNKNOWN_RUN, collect_own_texts
from compaction_hooks.view.snapshot import Reading, Snapshot, ViewKey
from compaction_hooks.view.texts import SUMMARY_MARKER, render_summary
from compaction_hooks.view.view_of import view_of
from tests.conversations import Chat, assistant, call, step, steps, system, talk, tool, user

WRAPPER = len(render_summary("", file_tags="", continuation=True, covered=0, unseen=0))


class Flat:
    """Every message and every part of it weighs 100 tokens; our own texts weigh their length."""

    name = "flat"

    def estimate_tokens(self, text: str, /) -> int:
        return 100

    def estimate_message_tokens(self, message: Message, /) -> int:
        text = message.text
        return len(text) if text.startswith((SUMMARY_MARKER, "<read-files>", "<modified-files>")) else 100


def budget(**tokens: int) -> Budget:
    """A budget that bounds nothing, but for what is given."""
    roomy = dict.fromkeys((field.name for field in fields(Budget)), 1_000_000)
    numbers: dict[str, Any] = {**roomy, "summary": 1_000, "minimum_clear": 0, "keep_user": 0, **tokens}
    return Budget(**numbers)


def situation(
    messages: Sequence[Chat],
    *,
    keep: int = 500,
    records: Sequence[CompactionRecord] = (),
    ratio: float = 1.0,
    pinned: Sequence[Chat] = (),
    **tokens: int,
) -> tuple[Snapshot[Chat], Goal[Chat]]:
    """A situation in which the last of the records is in force, and what is to be reached; without steps at the border."""
    chat, flat = OpenAIChatFormat(), Flat()
    known = collect_own_texts(records) if records else OwnTexts()
    history = HistoryReader(chat, flat.estimate_message_tokens, SUMMARY_MARKER).read(messages, known)
    record = records[-1] if records else None
    digests = {message_digest(piece): UNKNOWN_RUN for message in pinned for piece in chat.read(message)}
    reading = Reading(
        messages=[*messages],
        history=history,
        record=record,
        shown_record=record,
        view=view_of(history, record, flat.estimate_message_tokens),
        key=ViewKey(history.log, history.piece_count, None, 0, None),
        budget=None,
        system_tokens=0,
        tools_tokens=0,
        issuer=None,
        binds_reasoning=False,
        is_changed=False,
    )
    snapshot = Snapshot(
        reading=reading,
        tokens=1,
        most_tokens=1,
        format=chat,
        estimator=flat,
        cached_tokens=None,
        seconds_since_last_call=None,
        calibration=Calibration(ratio=ratio),
        user_pins=digests,
        has_recall=False,
        dress=lambda view, _, __: view,
        joins_rows=False,
    )
    bounds = budget(**tokens)
    return snapshot, Goal(reason=CompactionReason.MANUAL, budget=bounds, keep_tokens=keep, at="2026-01-01T00:00:00Z")


def plan(messages: Sequence[Chat], **more: Any) -> SummaryPlan:
    found = plan_summary(*situation(messages, **more))
    assert found is not None
    return found


def kept(messages: Sequence[Chat], **more: Any) -> list[Chat]:
    snapshot, goal = situation(messages, **more)
    found = Summarize().propose(snapshot, goal)
    assert found is not None
    return list(messages[snapshot.history.piece(snapshot.history.run_start(found.cut)).host :])


def compacted(messages: Sequence[Chat], *, strategy: Summarize = Summarize(), **more: Any) -> CompactionRecord:  # noqa: B008
    """The record of a summary of all but the newest 500 tokens."""
    snapshot, goal = situation(messages, **more)
    found = strategy.propose(snapshot, goal)
    assert found is not None
    return strategy.from_summary(snapshot, goal, found, Summarized("## Goal\n- go on", None)).record


def words(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


# -- how much is kept


def test_tokens_to_keep_are_the_models() -> None:
    messages = [user("go"), *steps(10)]
    assert kept(messages, keep=800) == messages[-8:]
    assert kept(messages, keep=800, ratio=2.0) == messages[-4:]


def test_kept_messages_fill_the_target_to_the_token() -> None:
    messages = [system(), *talk(8), user("now")]
    room = WRAPPER + int(2_000 * 1.25)
    exactly = {"keep": 10_000, "summary": 2_000}
    assert kept(messages, target=room + 100 + 500, **exactly) == messages[-5:]
    assert kept(messages, target=room + 100 + 499, **exactly) == messages[-3:]


def test_the_current_request_before_the_cut_takes_its_part_of_the_target() -> None:
    messages = [user("the request"), *steps(10)]
    room = WRAPPER + int(1_000 * 1.25)
    assert kept(messages, keep=10_000, target=room + 500) == messages[-4:]


# -- how much the summary may hold


def test_the_summary_is_allowed_its_part_of_the_budget_in_the_models_tokens() -> None:
    assert plan(talk(8)).allowance == 1_000
    assert plan(talk(8), ratio=2.0).allowance == 500


def test_the_summary_may_fill_the_trigger_next_to_messages_that_cannot_shrink() -> None:
    said = [*talk(8), user("now")]
    for more in (0, 3):
        trigger = 100 + more * 100 + WRAPPER + 400
        assert plan([system()] * more + said, keep=100, target=0, trigger=trigger).allowance == 400
    worked = [user("go"), *(message for n in range(8) for message in long_step(n))]
    rigid = 100 + 200 - 200  # the request and the last step, without its arguments and its result
    assert plan(worked, keep=100, target=0, trigger=rigid + WRAPPER + 400).allowance == 400


def test_the_summary_is_always_allowed_enough_to_say_something() -> None:
    assert plan([*talk(8), user("now")], keep=100, target=0, trigger=100 + WRAPPER).allowance == 160


@pytest.mark.parametrize(("above", "allowance"), [(160, 160), (159, int(10_000 * 0.3) - WRAPPER)])
def test_where_the_trigger_leaves_nothing_the_summary_gets_a_share_of_the_window(above: int, allowance: int) -> None:
    messages = [*talk(8), user("now")]
    found = plan(messages, keep=100, target=0, trigger=100 + above, window=10_100, summary=10_000)
    assert found.allowance == allowance


# -- what is summarized


def test_a_second_summary_covers_the_messages_since_and_carries_the_first_one_on() -> None:
    messages = [user("go"), *talk(6)]
    record = compacted(messages)
    longer = [*messages, *talk(6, first=6)]
    found = plan(longer, records=[record])
    assert found.previous_summary == record.summary
    first_kept = situation(messages, records=[record])[0].history.run_start(record.covered_runs)
    assert words(found.messages) == [str(message["content"]) for message in longer[first_kept:-4]]


def apply_view(messages: Sequence[Chat], record: CompactionRecord) -> list[Chat]:
    now, _ = situation(messages, records=[record])
    return now.write(now.view)


# -- what goes along


def test_files_of_earlier_summaries_stay_and_take_their_part_of_the_allowance() -> None:
    messages = [user("go"), *steps(6), *step(6, name="write_file"), *talk(4)]
    record = compacted(messages)
    found = plan([*messages, *steps(6, first=7)], records=[record])
    assert "src/module_0.py" in found.files.read
    assert "src/module_6.py" in found.files.modified
    assert "src/module_6.py" in found.frame.tags
    assert found.allowance == 1_000 - len(found.frame.tags)


def test_the_file_lists_take_a_fifth_of_the_allowance_at_most() -> None:
    messages = [user("go"), *steps(60), *talk(4)]
    found = plan(messages)
    assert 400 < len(found.frame.tags) <= 500
    assert len(plan(messages, summary=200).frame.tags) <= 100


def long_step(number: int) -> list[Chat]:
    return [assistant(None, call(f"c{number}", "look")), tool(f"c{number}", "x" * 1_000)]


def test_a_marker_says_how_many_messages_were_dropped_by_role() -> None:
    found = plan([user("go"), *steps(4), *talk(4)], keep=400)
    assert drop_marker(found) == "[Compacted 13 messages: 6 assistant, 4 tool, 3 user]"


# -- pins


def test_a_request_that_is_kept_is_no_pin() -> None:
    messages = [*talk(4), user("now")]
    assert plan(messages, keep=100).pins == ()
    assert situation(messages)[0].pinned_pieces(len(messages) - 1) == []


def test_a_pinned_request_is_a_pin_of_the_user() -> None:
    messages = [user("go"), *steps(4), user("remember"), *steps(8, first=4)]
    pins = plan(messages, keep=400, pinned=[messages[9], messages[2]]).pins
    assert [pin.is_users for pin in pins] == [True, True, True]
    assert [pin.run for pin in pins] == [1, 2, 8]


def test_a_pinned_result_keeps_the_whole_step_it_belongs_to() -> None:
    parallel = [assistant("look", call("a"), call("b")), tool("a", "one"), tool("b", "two")]
    messages = [user("go"), *steps(2), *parallel, *steps(8, first=2)]
    start = len(messages) - 4
    assert situation(messages, pinned=[parallel[1]])[0].pinned_pieces(start) == [0, 5, 6, 7]
    assert situation(messages, pinned=[parallel[0]])[0].pinned_pieces(start) == [0, 5, 6, 7]


def test_a_pinned_result_keeps_the_step_it_answers_where_ids_are_used_again() -> None:
    again = [assistant("first", call("a")), tool("a", "one"), assistant("second", call("a")), tool("a", "two")]
    messages = [user("go"), *again, *steps(8)]
    assert situation(messages, pinned=[again[3]])[0].pinned_pieces(len(messages) - 4) == [0, 3, 4]


@pytest.mark.parametrize("first", [user("go"), assistant("hello", call("x"))], ids=["a request", "a call"])
def test_a_pinned_result_without_a_call_stays_alone(first: Chat) -> None:
    messages = [first, tool("nobody", "lost"), user("request"), *steps(8)]
    assert situation(messages, pinned=[messages[1]])[0].pinned_pieces(len(messages) - 4) == [1, 2]


def test_a_pinned_text_keeps_no_other_message() -> None:
    messages = [user("first"), *steps(2), user("second"), *steps(8, first=2)]
    assert situation(messages, pinned=[messages[0]])[0].pinned_pieces(len(messages) - 4) == [0, 5]


def test_a_pin_keeps_its_place_in_a_list_that_begins_with_the_summary() -> None:
    """The stored list no longer shows in which run the pinned message stood."""
    messages = [*talk(2), user("remember"), *steps(6)]
    record = compacted(messages, pinned=[messages[0]])
    places = {pin.digest: pin.run for pin in record.pins}
    stored = apply_view(messages, record)
    again = compacted([*stored, *steps(6, first=6)], records=[record], pinned=[messages[0]])
    assert {pin.digest: pin.run for pin in again.pins} == places


def test_shortened_texts_are_never_the_current_request_pinned_or_of_the_system() -> None:
    pin = user("b")
    messages = [system("s"), user("a"), pin, assistant("c", call("1")), tool("1", "r"), user("d")]
    found = find_parts(*situation(messages, pinned=[pin]), TEXTS)
    assert [(part.run, part.ordinal, part.text) for part in found] == [(0, 0, "a"), (1, 0, "c")]
