"""`loss_of(messages, record)`: how many facts a view keeps, by class.

Also `compaction_hooks.recall.diff(messages, view)`, for people to read, and `find_facts(messages)`, what a loss counts.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import pytest

from compaction_hooks import CompactionRecord, CompactionSettings
from compaction_hooks.events import CompactionEvent, CompactionFinished
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.recall import LossFigures, diff, find_facts, loss_of
from compaction_hooks.strategies import ShortenParts
from compaction_hooks.testing import as_anthropic
from tests.conversations import (
    Chat,
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
    "answer": ([assistant("Shall I drop it?"), user("yes"), assistant("Well.")], "Shall I drop it? -> yes"),
    "path": ([assistant("It is in /srv/app/main.cfg now.")], "/srv/app/main.cfg"),
    "url": ([assistant("See https://example.org/notes?id=7 for it.")], "https://example.org/notes?id=7"),
    "id": ([assistant("The ticket is TX-48213.")], "TX-48213"),
    "number": ([assistant("It listens at port: 8042 now.")], "8042"),
    "error": ([assistant(None, call("e")), tool("e", "Error: no such table\nat line 4")], "Error: no such table"),
    "task": ([assistant(None, call("t", "todo_write", todos=TODO)), tool("t", "ok")], "port the lexer"),
    "file": ([assistant(None, call("f", path="src/zebra.py")), tool("f", "ok")], "src/zebra.py"),
    "process": (
        [
            assistant(None, call("p", "bash", command="serve", run_in_background=True)),
            tool("p", "Started with ID: bash_7"),
        ],
        "bash_7",
    ),
}


Figures: TypeAlias = Mapping[str, LossFigures]


def compact(hooks: Any, messages: list[Chat]) -> Figures:
    """Compact by hand, and return the loss."""
    return loss_of(messages, hooks.compact_sync(messages, keep_recent_tokens=600).record)


def compacted(middle: list[Chat], summary: str) -> Figures:
    hooks = controller(200_000, summarizer=Scripted(summary), settings=BARE)
    return compact(hooks, [*OPENING, *middle, user("Go on."), *steps(12, 200)])


@pytest.mark.parametrize("kind", FACTS)
def test_a_fact_is_kept_if_the_view_has_it_and_recallable_if_not(kind: str) -> None:
    middle, fact = FACTS[kind]
    without, with_it = (compacted(middle, text) for text in ("- nothing", f"- nothing but {fact}"))
    is_carried = kind in ("constraint", "file")  # every summary has them
    assert with_it[kind].kept == without[kind].kept + (not is_carried)
    assert with_it[kind].recallable == without[kind].recallable - (not is_carried)
    assert (with_it[kind].lost, sum(with_it[kind])) == (0, sum(without[kind]))


def test_a_finished_task_and_a_successful_result_are_no_facts() -> None:
    loss = compacted([assistant(None, call("t", "todo_write", todos=TODO[1:])), tool("t", "ok")], "- nothing")
    assert "task" not in loss
    assert "error" not in loss


def test_two_digits_are_no_fact_since_nearly_every_view_has_them_by_chance() -> None:
    figures = [compacted([assistant(f"It is at step: {step} now.")], "- nothing").get("number") for step in (42, 427)]
    assert figures == [None, (0, 1, 0)]


def test_facts_of_a_summary_whose_messages_are_gone_are_lost() -> None:
    summarizer = Scripted("- the ticket is TX-48213", "- nothing")
    session = controller(200_000, summarizer=summarizer, settings=CompactionSettings(identifier_tokens=0)).session(
        "thread"
    )
    stored = session.compact_sync([*OPENING, user("Go on."), *steps(12, 200)], keep_recent_tokens=600).messages
    loss = compact(session, [*stored, *steps(12, 200, first=20)])
    assert loss["id"] == (0, 0, 1)


@pytest.mark.parametrize("between", [[], [{**assistant("I beg"), "stop_reason": "error"}]], ids=["in a row", "apart"])
def test_shortened_words_of_a_stored_view_are_lost_if_recall_cannot_read_them(between: list[Any]) -> None:
    first, *others = (user(f"Request {number}: {prose(300)}") for number in range(12))
    asked = [first, *between, *others]
    shortening = controller(16_384, settings=CompactionSettings(strategies=[ShortenParts()])).session("thread")
    shortening.transform_context_sync(asked)
    stored = shortening.recover_sync(RuntimeError("prompt is too long: 16500 tokens > 16384 maximum"), asked)
    session = controller(16_384, summarizer=Scripted("- nothing")).session("thread")
    session.import_records(shortening.export_records())
    assert [message for message in stored if message not in asked] == [stored[0]]
    messages = [*stored, assistant("Yes."), user("Go on."), *steps(12, 200)]
    loss = compact(session, messages)["request"]
    listed = sum("Request 0" in part.text for part in session.covered(messages))
    assert loss == (0, 11 + listed, 1 - listed)
    assert listed == (not between)  # what was said in a row is one part


def test_a_whole_list_loses_nothing_however_often_it_is_compacted() -> None:
    """The words of an earlier summary are no facts of the list."""
    session = controller(200_000, summarizer=Scripted("- the ticket is TX-48213", "- nothing")).session("thread")
    messages = [*OPENING, user("Go on."), *steps(12, 200)]
    session.compact_sync(messages, keep_recent_tokens=600)
    loss = compact(session, [*messages, *steps(12, 200, first=20)])
    assert "id" not in loss
    assert sum(figures.lost for figures in loss.values()) == 0


def test_facts_of_messages_that_stay_are_not_counted() -> None:
    said = user("The ticket TX-48213 must stay open.")
    hooks = controller(200_000, summarizer=Scripted("- nothing"))
    hooks.pin(said)
    loss = compact(hooks, [*OPENING, said, assistant("Yes."), *steps(12, 200)])
    assert "id" not in loss
    assert "constraint" not in loss


def test_a_file_that_a_summary_names_in_a_sentence_is_kept() -> None:
    files, none = (compacted(*given)["file"] for given in ((FACTS["file"][0], "- see `src/zebra.py`."), ([], "- no")))
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
    loss = compact(session, [*stored, *steps(12, 200, first=20)])["file"]
    assert loss.lost > 100
    assert loss.recallable < 12


def test_names_are_counted_from_end_to_end_of_all_texts() -> None:
    paths = [f"src/part_{n}/main_{n}.cfg" for n in range(60)]
    ids = [f"TX-{48_000 + n}" for n in range(10)]
    names = [*paths, *ids]
    told = [assistant(f"{prose(900)} It is {name} now. {prose(900)}") for name in names]
    middle = [message for said in told for message in (said, user("Go on."))]
    loss = compacted(middle, f"- see {paths[3]}, {paths[4]} and {ids[7]}")
    others = compacted([], "- nothing")["path"].kept  # in the file lists
    assert (loss["path"], loss["id"]) == ((others + 2, 58, 0), (1, 9, 0))


def test_the_records_of_a_result_an_event_and_a_store_have_the_same_figures_in_a_list_that_grows() -> None:
    events: list[CompactionEvent] = []
    hooks = controller(200_000, summarizer=Scripted("- nothing", "- nothing"), events=events, settings=BARE)
    session = hooks.session("thread")
    messages = [*OPENING, *FACTS["id"][0], *FACTS["path"][0], user("Go on."), *steps(12, 200)]
    for first in (20, 40):
        record = session.compact_sync(messages, keep_recent_tokens=600).record
        finished = [event for event in events if isinstance(event, CompactionFinished)][-1]
        assert record is not None
        stored = CompactionRecord.from_json(record.to_json())
        loss = loss_of(messages, record)
        assert loss["id"] == (0, 1, 0)  # of all that the view leaves out, by whichever compaction
        messages += steps(12, 200, first=first)
        assert loss == loss_of(messages, finished.record) == loss_of(messages, stored)


def test_a_format_may_be_named() -> None:
    messages = [*OPENING, *FACTS["id"][0], *FACTS["path"][0], user("Go on."), *steps(12, 200)]
    hooks = controller(200_000, summarizer=Scripted("- nothing"), settings=BARE)
    record = hooks.compact_sync(messages, keep_recent_tokens=600).record
    assert record is not None
    elsewhere: list[Any] = as_anthropic(piece for message in messages for piece in OpenAIChatFormat().read(message))
    loss = loss_of(messages, record, format=OpenAIChatFormat())
    assert loss["id"] == (0, 1, 0)
    assert loss == loss_of(messages, record) == loss_of(elsewhere, record, format=AnthropicFormat())


def test_a_record_that_is_not_true_of_a_list_leaves_nothing_out() -> None:
    hooks = controller(200_000, summarizer=Scripted("- nothing"))
    record = hooks.compact_sync([*OPENING, user("Go on."), *steps(12, 200)], keep_recent_tokens=600).record
    assert record is not None
    assert loss_of([user("Something else."), *steps(12, 200)], record) == {}


LONG = prose(2_000)


def test_it_counts_the_parts_and_shows_the_summary_whole() -> None:
    messages = above_threshold()
    summarizer = Scripted("## Goal\n- the vault")
    settings = CompactionSettings(identifier_tokens=0, keep_user_tokens=0)
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
