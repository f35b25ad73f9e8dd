"""`compaction-hooks records`, on SQLite files that a controller wrote."""

import builtins
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("rich", reason="needs the extra cli")

import typer

from compaction_hooks import CompactionRecord, Summary, Usage
from compaction_hooks.command import app
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.stores import SQLiteStore
from tests.cases import folded
from tests.conversations import controller, steps, system, talk

Capture = pytest.CaptureFixture[str]

SUMMARY = "## Goal\n- Port the parser.\x1b[31m"
MESSAGES = [system(), *talk(20), *steps(5, 100), *talk(10, first=20)]


@pytest.fixture(autouse=True)
def terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "records.db"
    usage = Usage(input_tokens=12_345, output_tokens=678, cache_read_tokens=1_000)
    with SQLiteStore(path) as store:
        by_model = controller(100_000, summarizer=lambda _: Summary(text=SUMMARY, usage=usage), store=store)
        session = by_model.session("user-7/a")
        session.compact_sync(MESSAGES, keep_recent_tokens=300)
        session.pin(MESSAGES[-1])
        session.compact_sync([*MESSAGES, *talk(20, first=30)], keep_recent_tokens=300)
        by_rule = controller(100_000, store=store)
        for id in ("user-7/b", "user-8/\x1b[2J"):
            by_rule.session(id).compact_sync(MESSAGES, keep_recent_tokens=300)
    return path


@pytest.fixture
def file(original: Path, tmp_path: Path) -> Path:
    """Return the file of three conversations: one with two compactions and a pin, one by rule, one with an odd name."""
    return Path(shutil.copy(original, tmp_path))


def run(*arguments: object) -> int:
    return app.run(["records", *map(str, arguments)])


def stored_ids(file: Path) -> list[str]:
    with SQLiteStore(file) as store:
        return [*store.session_ids()]


def damage(file: Path) -> None:
    with SQLiteStore(file) as store:
        store.append("user-7/b", "odd", "{damaged")


# -- shown


def test_without_an_id_each_conversation_has_a_row(file: Path, capsys: Capture) -> None:
    damage(file)
    assert run(file) == 0
    said = capsys.readouterr().out
    rows = {line.split()[0]: line for line in said.splitlines() if line.startswith("user")}
    assert [*rows] == ["user-7/a", "user-7/b", "user-8/?[2J"]
    with SQLiteStore(file) as store:
        size = sum(len(text) for text in store.load("user-7/a"))
        newest = json.loads(store.load("user-7/b")[0])
    assert rows["user-7/a"].split()[1] == "3"
    assert rows["user-7/a"].split()[-2:] == ["model", f"{size:,}"]
    day, minute = newest["last_compacted_at"][:16].split("T")
    assert rows["user-7/b"].split()[1:5] == ["1", day, minute, str(newest["compacted_message_count"])]
    assert " rule " in rows["user-7/b"]
    assert "3 conversations, 5 records" in said
    assert "1 entry cannot be read." in said
    assert "\x1b" not in said


def test_a_beginning_of_ids_leaves_the_others_out(file: Path, capsys: Capture) -> None:
    assert run(file, "--prefix", "user-7/") == 0
    said = capsys.readouterr().out
    assert "user-7/b" in said
    assert "user-8" not in said
    assert run(file, "--prefix", "nobody") == 0
    assert capsys.readouterr().out == "0 conversations, 0 records, 0 bytes.\n"


def test_an_id_shows_each_record_in_words(file: Path, capsys: Capture) -> None:
    assert run(file, "user-7/a") == 0
    said = " ".join(capsys.readouterr().out.split())
    with SQLiteStore(file) as store:
        first, second = (fields for text in store.load("user-7/a") if (fields := json.loads(text))["rendered"])
    for expected in (
        "UTC, manual",
        f"{first['tokens_before']:,} before, {first['tokens_after']:,} after",
        f"Summarized {second['compacted_message_count']} messages",
        "12,345 tokens read (1,000 cached), 678 written",
        "Summary by model",
        "src/module_0.py",
        f"{second['id']}, built on {first['id']}",
        "- Port the parser.",
        "Pinned 1 message",
        "1 conversation, 3 records",
    ):
        assert expected in said, expected
    assert said.index(first["id"]) < said.index("built on") < said.index("Note")
    assert "\x1b" not in said


@folded(
    "answer, shown",
    {
        "an estimate": (SUMMARY, " written, by estimate "),
        "no cost": (Summary(text=SUMMARY, is_by_rule=True), "Summary by not told "),
        "markup": (
            Summary(text="## Goal\n- [bold]Port[/bold] it.", usage=Usage(input_tokens=1)),
            "- [bold]Port[/bold] it. ",
        ),
    },
)
def test_answers_of_a_summarizer_are_shown_as_they_are(
    answer: str | Summary, shown: str, file: Path, capsys: Capture
) -> None:
    with SQLiteStore(file) as store:
        hooks = controller(100_000, summarizer=lambda _: answer, store=store)
        hooks.session(f"with {shown}").compact_sync(MESSAGES, keep_recent_tokens=300)
    assert run(file, f"with {shown}") == 0
    assert shown in " ".join(capsys.readouterr().out.split())


def test_a_provider_that_compacted_is_named(file: Path, capsys: Capture) -> None:
    with SQLiteStore(file) as store:
        made = CompactionRecord.from_json(store.load("user-7/b")[0])
        items = NativeItems(Issuer("anthropic", "https://api.anthropic.com", "m1"), ({"type": "compaction"},))
        store.append("user-9", made.id, replace(made, native=items).to_json())
    assert run(file, "user-9", "--no-text") == 0
    assert "provider (m1)" in capsys.readouterr().out


def test_the_text_can_be_left_out(file: Path, capsys: Capture) -> None:
    assert run(file, "user-7/a", "--no-text") == 0
    said = capsys.readouterr().out
    assert "Port the parser" not in said
    assert "12,345 tokens read" in said


# -- exported


def test_the_json_of_one_conversation_is_imported_as_it_is(file: Path, capsys: Capture) -> None:
    assert run(file, "user-7/a", "--json") == 0
    exported = json.loads(capsys.readouterr().out)
    messages = [*MESSAGES, *talk(20, first=30)]
    with SQLiteStore(file) as store:
        before = controller(100_000, store=store).session("user-7/a")
        before.load_sync(messages)
        assert exported == sorted(before.export_records(), key=lambda fields: exported.index(fields))
        after = controller(100_000).session("user-7/a")
        assert after.import_records(exported) == 3
        assert after.transform_context_sync(messages) == before.transform_context_sync(messages) != messages


def test_the_json_of_all_has_a_list_for_each_id(file: Path, capsys: Capture) -> None:
    assert run(file, "--json") == 0
    exported = json.loads(capsys.readouterr().out)
    assert {id: len(records) for id, records in exported.items()} == {
        "user-7/a": 3,
        "user-7/b": 1,
        "user-8/\x1b[2J": 1,
    }


def test_entries_that_cannot_be_exported_are_named(file: Path, capsys: Capture) -> None:
    damage(file)
    assert run(file, "--json") == 2
    said = capsys.readouterr()
    assert len(json.loads(said.out)["user-7/b"]) == 1
    assert "entries of 'user-7/b' cannot be read and are left out" in said.err


# -- deleted


def test_a_conversation_is_deleted_after_yes(file: Path, capsys: Capture) -> None:
    assert run(file, "user-7/a", "--delete", "--yes") == 0
    assert capsys.readouterr().out == "Deleting 3 records of 1 conversation ('user-7/a').\nDeleted.\n"
    assert stored_ids(file) == ["user-7/b", "user-8/\x1b[2J"]
    assert run(file, "user-7/a") == 2
    assert "nothing is stored of conversation 'user-7/a'" in capsys.readouterr().err

    with SQLiteStore(file) as store:  # the id is used again
        controller(100_000, store=store).session("user-7/a").compact_sync(MESSAGES, keep_recent_tokens=300)
    assert run(file, "user-7/a", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert run(file, "user-7/a", "--no-text") == 0
    said = capsys.readouterr().out
    assert "1 conversation, 1 record, " in said
    assert "cannot be read" not in said


def test_the_conversations_of_a_user_are_deleted_by_their_beginning(file: Path, capsys: Capture) -> None:
    assert run(file, "--prefix", "user-7/", "--delete", "--yes") == 0
    assert "Deleting 4 records of 2 conversations ('user-7/a', 'user-7/b')." in capsys.readouterr().out
    assert stored_ids(file) == ["user-8/\x1b[2J"]
    assert run(file, "--prefix", "user-7/", "--delete", "--yes") == 0
    assert capsys.readouterr().out == "Nothing is stored of such a conversation.\n"


@folded("answer", {"no": False, "yes": True})
def test_on_a_terminal_it_asks(file: Path, answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def confirm(text: str) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", confirm)
    before = stored_ids(file)
    assert run(file, "user-7/b", "--delete") == 0
    assert asked == ["Delete 1 record of 1 conversation ('user-7/b')?"]
    assert (stored_ids(file) == before) is not answer


def test_an_entry_that_cannot_be_deleted_is_said(file: Path, capsys: Capture) -> None:
    damage(file)
    assert run(file, "--prefix", "user-7/", "--delete", "--yes") == 2
    assert "1 entries of session 'user-7/b' cannot be read" in capsys.readouterr().err
    assert "user-7/a" not in stored_ids(file)


# -- bad input


def test_bad_input_is_one_line_that_names_the_fix(
    file: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, text = tmp_path / "other.db", tmp_path / "notes.txt"
    sqlite3.connect(other).execute("CREATE TABLE mine (a)").connection.close()
    text.write_text("no database " * 100)
    monkeypatch.delenv("NO_SUCH_STORE", raising=False)
    cases: list[tuple[list[object], str]] = [
        ([tmp_path / "missing.db"], "there is no such file"),
        ([other], "a SQLite file without records"),
        ([text], "not a file of SQLiteStore"),
        ([file, "unknown"], "leave the ID out to see all ids"),
        ([file, "unknown", "--json"], "leave the ID out to see all ids"),
        ([file, "user-7/a", "--prefix", "user-7/"], "not both"),
        ([file, "--delete"], "--delete needs an ID or a --prefix"),
        ([file, "--delete", "--prefix", "", "--yes"], "--delete needs an ID or a --prefix"),
        ([file, "user-7/a", "--delete"], "not deleted: 3 records of 1 conversation ('user-7/a'); there is no terminal"),
        (["redis://:secret@host/0"], "name that, as in env:DATABASE_URL"),
        (["env:NO_SUCH_STORE"], "the environment variable NO_SUCH_STORE is not set"),
        (["env:PATH"], "must begin with postgresql://"),
        ([], "Missing argument 'STORE'"),
    ]
    before = stored_ids(file)
    for arguments, fix in cases:
        assert run(*arguments) == 2, arguments
        said = capsys.readouterr()
        assert said.out == "", arguments
        assert said.err.startswith("error: "), arguments
        assert said.err.count("\n") == 1, arguments
        assert fix in said.err, said.err
        assert "secret" not in said.err
    assert stored_ids(file) == before
    assert not (tmp_path / "missing.db").exists()
    with closing(sqlite3.connect(other)) as connection, connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]


@folded("address, extra", {"redis": ("redis://host/0", "redis"), "postgres": ("postgresql://host/x", "postgres")})
def test_a_missing_client_is_named_with_its_extra(
    address: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    real: Any = builtins.__import__
    client = {"redis": "redis", "postgres": "psycopg"}[extra]

    def without_client(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == client:
            raise ModuleNotFoundError(f"No module named {client!r}", name=client)
        return real(name, *rest)

    monkeypatch.setenv("MY_STORE", address)
    monkeypatch.delitem(sys.modules, f"compaction_adapters.{extra}", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_client)
    assert run("env:MY_STORE") == 2
    assert f"pip install 'compaction-hooks[{extra}]'" in capsys.readouterr().err
