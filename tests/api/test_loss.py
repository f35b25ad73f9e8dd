"""`CompactionResult.loss`, also of events, and `loss_of(messages, record)`: how many facts a view keeps, by class.

Also `compaction_hooks.recall.diff(messages, view)`, for people to read, and `find_facts(messages)`, what a loss counts.
"""

import copy
import gc
import json
import logging
import pickle
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compaction_hooks import CompactionRecord, CompactionResult, CompactionSettings
from compaction_hooks.events import CompactionEvent, CompactionFinished
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.recall import diff, find_facts, loss_of
from compaction_hooks.testing import as_anthropic
from tests.conversations import (
    Chat,
    CountingFormat,
    Scripted,
    above_threshold,
    assistant,
    call,
    controller,
    prose,
    steps,
    tool,
    user,
)

OPENING: list[Chat] = [user("Port the parser."), assistant("I begin.")]
BARE = CompactionSettings(identifier_tokens=0)
TODO = [{"content": "port the lexer", "status": "pending"}, {"content": "port the tables", "status": "completed"}]
FACTS: Mapping[str, tuple[list[Chat], str]] = {
    "constraint": ([user("Never touch the public API."), assistant("Yes.")], "Never touch the public API."),
    "request": ([user("Then measure it twice."), assistant("Yes.")], "Then measure it twice."),
    "path": ([assistant("It is in /srv/app/main.cfg now.")], "/srv/app/main.cfg"),
    "url": ([assistant("See https://example.org/notes?id=7 for it.")], "https://example.org/notes?id=7"),
    "id": ([assistant("The ticket is TX-48213.")], "TX-48213"),
    "number": ([assistant("It listens at port: 8042 now.")], "8042"),
    "error": ([assistant(None, call("e")), tool("e", "Error: no such table\nat line 4")], "Error: no such table"),
    "task": ([assistant(None, call("t", "todo_write", todos=TODO)), tool("t", "ok")], "port the lexer"),
    "file": ([assistant(None, call("f", path="src/zebra.py")), tool("f", "ok")], "src/zebra.py"),
    "cause": ([assistant("The root cause is a stale cache.")], "The root cause is a stale cache."),
    "process": (
        [
            assistant(None, call("p", "bash", command="serve", run_in_background=True)),
            tool("p", "Started with ID: bash_7"),
        ],
        "bash_7",
    ),
}


def compacted(middle: list[Chat], summary: str, **more: Any) -> CompactionResult[Chat]:
    messages = [*OPENING, *middle, user("Go on."), *steps(12, 200)]
    hooks = controller(200_000, summarizer=Scripted(summary), settings=BARE, **more)
    return hooks.compact_sync(messages, keep_recent_tokens=600)


@pytest.mark.parametrize("kind", FACTS)
def test_a_fact_is_kept_if_the_view_has_it_and_recallable_if_not(kind: str) -> None:
    middle, fact = FACTS[kind]
    without, with_it = (compacted(middle, text).loss for text in ("- nothing", f"- nothing but {fact}"))
    is_carried = kind in ("constraint", "file")  # every summary has them
    assert with_it[kind].kept == without[kind].kept + (not is_carried)
    assert with_it[kind].recallable == without[kind].recallable - (not is_carried)
    assert (with_it[kind].lost, sum(with_it[kind])) == (0, sum(without[kind]))


def test_a_finished_task_and_a_successful_result_are_no_facts() -> None:
    loss = compacted([assistant(None, call("t", "todo_write", todos=TODO[1:])), tool("t", "ok")], "- nothing").loss
    assert "task" not in loss
    assert "error" not in loss


def test_two_digits_are_no_fact_since_nearly_every_view_has_them_by_chance() -> None:
    figures = [
        compacted([assistant(f"It is at step: {step} now.")], "- nothing").loss.get("number") for step in (42, 427)
    ]
    assert figures == [None, (0, 1, 0)]


def test_facts_of_a_summary_whose_messages_are_gone_are_lost() -> None:
    summarizer = Scripted("- the ticket is TX-48213", "- nothing")
    session = controller(200_000, summarizer=summarizer, settings=CompactionSettings(identifier_tokens=0)).session(
        "thread"
    )
    stored = session.compact_sync([*OPENING, user("Go on."), *steps(12, 200)], keep_recent_tokens=600).messages
    loss = session.compact_sync([*stored, *steps(12, 200, first=20)], keep_recent_tokens=600).loss
    assert loss["id"] == (0, 0, 1)


def test_a_whole_list_loses_nothing_however_often_it_is_compacted() -> None:
    """The words of an earlier summary are no facts of the list."""
    session = controller(200_000, summarizer=Scripted("- the ticket is TX-48213", "- nothing")).session("thread")
    messages = [*OPENING, user("Go on."), *steps(12, 200)]
    session.compact_sync(messages, keep_recent_tokens=600)
    loss = session.compact_sync([*messages, *steps(12, 200, first=20)], keep_recent_tokens=600).loss
    assert "id" not in loss
    assert sum(figures.lost for figures in loss.values()) == 0


def test_facts_of_messages_that_stay_are_not_counted() -> None:
    said = user("The ticket TX-48213 must stay open.")
    hooks = controller(200_000, summarizer=Scripted("- nothing"))
    hooks.pin(said)
    loss = hooks.compact_sync([*OPENING, said, assistant("Yes."), *steps(12, 200)], keep_recent_tokens=600).loss
    assert "id" not in loss
    assert "constraint" not in loss


def test_a_file_that_a_summary_names_in_a_sentence_is_kept() -> None:
    files, none = (
        compacted(*given).loss["file"] for given in ((FACTS["file"][0], "- see `src/zebra.py`."), ([], "- no"))
    )
    assert files == (none.kept + 1, none.recallable, 0)


def test_without_a_new_summary_the_figures_are_of_the_cleared_results_alone() -> None:
    ticket = [
        assistant(None, call("t", path="src/zebra.py")),
        tool("t", "The ticket is TX-48213.\n" + "Noted.\n" * 9_000),
    ]
    session = controller(32_000).session("thread")
    messages = [*FACTS["constraint"][0], *ticket, *steps(12, 1_600), user("And now?")]
    session.transform_context_sync(messages)
    [record] = session.records
    loss = loss_of(messages, record)
    assert (record.summary, loss["id"]) == ("", (0, 1, 0))
    assert not {"constraint", "request", "file"} & loss.keys()


def test_files_that_only_a_stored_summary_knew_are_lost_if_it_is_replaced() -> None:
    many = [step for n in range(300) for step in (assistant(None, call("f", path=f"src/part_{n}.py")), tool("f", "ok"))]
    session = controller(200_000, summarizer=Scripted("- nothing")).session("thread")
    stored = session.compact_sync([*OPENING, *many, *steps(12, 200)], keep_recent_tokens=600).messages
    loss = session.compact_sync([*stored, *steps(12, 200, first=20)], keep_recent_tokens=600).loss["file"]
    assert loss.lost > 100
    assert loss.recallable < 12


def test_names_are_counted_from_end_to_end_of_all_texts() -> None:
    paths = [f"src/part_{n}/main_{n}.cfg" for n in range(60)]
    ids = [f"TX-{48_000 + n}" for n in range(10)]
    names = [*paths, *ids]
    told = [assistant(f"{prose(900)} It is {name} now. {prose(900)}") for name in names]
    middle = [message for said in told for message in (said, user("Go on."))]
    loss = compacted(middle, f"- see {paths[3]}, {paths[4]} and {ids[7]}").loss
    others = compacted([], "- nothing").loss["path"].kept  # in the file lists
    assert (loss["path"], loss["id"]) == ((others + 2, 58, 0), (1, 9, 0))


def test_result_event_and_stored_record_have_the_same_figures() -> None:
    events: list[CompactionEvent] = []
    hooks = controller(200_000, summarizer=Scripted("- nothing", "- nothing"), events=events, settings=BARE)
    session = hooks.session("thread")
    messages = [*OPENING, *FACTS["id"][0], *FACTS["path"][0], user("Go on."), *steps(12, 200)]
    for first in (20, 40):
        result = session.compact_sync(messages, keep_recent_tokens=600)
        finished = [event for event in events if isinstance(event, CompactionFinished)][-1]
        assert result.record is not None
        stored = CompactionRecord.from_json(result.record.to_json())
        assert result.loss == finished.loss == loss_of(messages, stored)
        assert result.loss["id"] == (0, 1, 0)  # of all that the view leaves out, by whichever compaction
        messages += steps(12, 200, first=first)


def test_a_record_that_is_not_true_of_a_list_leaves_nothing_out() -> None:
    record = compacted(FACTS["id"][0], "- nothing").record
    assert record is not None
    assert loss_of([user("Something else."), *steps(12, 200)], record) == {}


def test_figures_are_counted_when_they_are_first_read_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    events: list[CompactionEvent] = []
    format, messages = CountingFormat(), [*OPENING, *FACTS["id"][0], user("Go on."), *steps(12, 200)]
    hooks = controller(200_000, summarizer=Scripted("- nothing"), events=events, format=format, settings=BARE)
    result = hooks.compact_sync(messages, keep_recent_tokens=600)
    [finished] = [event for event in events if isinstance(event, CompactionFinished)]
    read = format.reads
    assert f"{result!r}{finished!r}{finished}"
    assert (result, finished) == (replace(result), replace(finished))
    assert format.reads == read
    messages.insert(
        2, assistant("The other one is TX-48214.")
    )  # the list is read as it is now: not the one of the record
    assert (result.loss, format.reads > read) == ({}, True)
    messages.pop(2)
    read = format.reads
    assert (result.loss, format.reads) == ({}, read)
    assert finished.loss["id"] == (0, 1, 0)
    assert copy.deepcopy(finished).loss == pickle.loads(pickle.dumps(finished)).loss == finished.loss


class Held(dict[str, Any]):
    """A message that can be referred to weakly."""


def test_a_result_alone_holds_the_messages_until_it_is_read() -> None:
    messages: list[Chat] = [Held(user("Port the parser.")), *OPENING[1:], user("Go on."), *steps(12, 200)]
    hooks = controller(200_000, summarizer=Scripted("- nothing"))
    result = hooks.compact_sync(messages, keep_recent_tokens=600)
    message, freed = weakref.ref(messages[0]), weakref.ref(hooks)
    del messages, hooks
    gc.collect()
    assert (freed(), message() is not None) == (None, True)
    assert result.loss["request"]
    gc.collect()
    assert message() is None


def test_nothing_of_the_conversation_holds_the_messages_for_the_figures() -> None:
    hooks = controller(200_000, summarizer=Scripted("- nothing"))
    first = hooks.compact_sync(
        [Held(user("Port the parser.")), *OPENING[1:], user("Go on."), *steps(12, 200)], keep_recent_tokens=600
    )
    held = weakref.ref(first.loss_report)
    del first
    gc.collect()
    assert held() is None


def test_nothing_compacted_loses_nothing() -> None:
    assert controller().compact_sync([user("hi")]).loss == {}


LONG = prose(2_000)


def test_it_counts_the_parts_and_shows_the_summary_whole() -> None:
    messages = above_threshold()
    summarizer = Scripted("## Goal\n- the vault")
    settings = CompactionSettings(identifier_tokens=0)
    view = controller(8_192, summarizer=summarizer, settings=settings).transform_context_sync(messages)
    counts, *lines = diff(messages, view).splitlines()
    left_out = len(messages) - len(view) + 1
    assert counts == f"Parts of messages: {left_out} left out, 0 shortened, 1 added, {len(view) - 1} kept"
    assert sum(line.startswith("- ") for line in lines) == left_out
    added = [line for line in lines if line.startswith("+")]
    assert added[0] == "+ user: [Conversation summary]"
    assert {"+ ## Goal", "+ - the vault"} <= {*added}
    assert lines[0].startswith("  system: ")
    assert lines[1].startswith("- user: Question 0")
    assert lines[-2] == f"  ({len(view) - 4} more)"
    assert max(map(len, lines)) < 200


def test_a_shortened_result_is_one_line_with_both_sizes() -> None:
    messages = [user("Read it."), assistant("I do.", call("a", path="a.py")), tool("a", LONG), *steps(3)]
    view = controller(settings=CompactionSettings(max_result_tokens=1_000)).transform_context_sync(messages)
    shown = diff(messages, view).splitlines()
    assert shown[0].startswith("Parts of messages: 0 left out, 1 shortened, 0 added, ")
    assert shown[1:4] == ["  user: Read it.", "  assistant: I do.", '  assistant calls read_file("a.py")']
    assert shown[4].startswith(f"~ tool: {LONG[:60]}")
    assert shown[4].endswith(f"({len(LONG):,} -> {len(view[2]['content']):,} characters)")


def test_a_list_and_itself_have_no_difference() -> None:
    assert diff(above_threshold(), above_threshold()) == ""


@pytest.mark.parametrize("kind", FACTS)
def test_a_fact_is_named_in_its_class(kind: str) -> None:
    messages, fact = FACTS[kind]
    fact = fact.partition("=")[0]  # at which a word ends
    elsewhere = as_anthropic(piece for message in messages for piece in OpenAIChatFormat().read(message))
    before = json.dumps(messages)
    assert fact in find_facts(messages)[kind]
    assert find_facts(elsewhere) == find_facts(messages)
    assert json.dumps(messages) == before


def test_a_fact_is_named_once() -> None:
    assert find_facts([user("Port it."), user("Port it.")])["request"] == ["Port it."]


def test_nothing_has_no_facts() -> None:
    assert not any(find_facts([]).values())
