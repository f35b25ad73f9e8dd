"""`CompactionResult.loss`, also in records and events: how many facts a compaction keeps, by class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from compaction_hooks import CompactionRecord, CompactionResult, CompactionSettings
from compaction_hooks.events import CompactionEvent, CompactionFinished
from tests.conversations import Chat, Scripted, assistant, call, controller, steps, tool, user

OPENING: list[Chat] = [user("Port the parser."), assistant("I begin.")]
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
    bare = CompactionSettings(ledger_tokens=0)
    hooks = controller(200_000, summarizer=Scripted(summary), settings=bare, **more)
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
    session = controller(200_000, summarizer=Scripted("- the ticket is TX-48213", "- nothing")).session("thread")
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
    session.transform_context_sync([*FACTS["constraint"][0], *ticket, *steps(12, 1_600), user("And now?")])
    [record] = session.records
    assert (record.summary, record.loss["id"]) == ("", (0, 1, 0))
    assert not {"constraint", "request", "file"} & record.loss.keys()


def test_files_that_only_a_stored_summary_knew_are_lost_if_it_is_replaced() -> None:
    many = [step for n in range(300) for step in (assistant(None, call("f", path=f"src/part_{n}.py")), tool("f", "ok"))]
    session = controller(200_000, summarizer=Scripted("- nothing")).session("thread")
    stored = session.compact_sync([*OPENING, *many, *steps(12, 200)], keep_recent_tokens=600).messages
    loss = session.compact_sync([*stored, *steps(12, 200, first=20)], keep_recent_tokens=600).loss["file"]
    assert loss.lost > 100
    assert loss.recallable < 12


def test_record_and_event_have_the_figures_and_no_text() -> None:
    events: list[CompactionEvent] = []
    result = compacted(FACTS["id"][0], "- nothing", events=events)
    assert result.record is not None
    [finished] = [event for event in events if isinstance(event, CompactionFinished)]
    assert finished.loss == result.record.loss == result.loss
    written = result.record.to_json()
    assert json.loads(written)["loss"]["id"] == {"kept": 0, "recallable": 1, "lost": 0}
    assert CompactionRecord.from_json(written) == result.record
    assert "TX-48213" not in json.dumps(json.loads(written)["loss"])


def test_a_record_without_the_figures_is_read() -> None:
    record = compacted([], "- nothing").record
    assert record is not None
    fields = record.to_dict()
    assert CompactionRecord.from_dict({name: fields[name] for name in fields.keys() - {"loss"}}).loss == {}


def test_nothing_compacted_loses_nothing() -> None:
    assert controller().compact_sync([user("hi")]).loss == {}
