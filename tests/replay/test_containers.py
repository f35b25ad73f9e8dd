"""The same session in every container: a list, an object, a dump, files of a folder."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from compaction_hooks.replay import ReplayError, read_sessions
from tests.cases import folded
from tests.replay.samples import KINDS, Json, read_one, shape, write

SHAPES = {
    "copilot": ["user", "assistant:tool_use", "user:tool_result", "assistant:text"],
    "langchain": ["user", "assistant:tool_use", "user:tool_result", "assistant:text"],
    "openhands": ["user:text", "assistant:tool_use", "user:tool_result", "assistant:text"],
    "opencode": ["user:text", "assistant:tool_use", "user:tool_result", "assistant:text"],
}


def values(kind: str) -> list[Json]:
    (found,) = (each for each in KINDS if each.name == kind)
    return [record.value for record in found.records(1) if record.value is not None]


def save(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


# -- LangChain

FORMS: dict[str, Callable[[], list[Json]]] = {
    "messages_to_dict": lambda: values("langchain"),
    "dumpd": lambda: values("langchain-dumpd"),
    "model_dump": lambda: [
        {"additional_kwargs": {}, "response_metadata": {}, "type": each["type"], **each["data"]}
        for each in values("langchain")
    ],
}
PLACES: dict[str, Callable[[list[Json]], object]] = {
    "list": list,
    "object": lambda said: {"messages": said},
    "batch": lambda said: {"messages": [said]},
    "state": lambda said: {"values": {"messages": said}, "next": []},
    "run": lambda said: {"id": "run", "inputs": {"messages": [said]}},
    "run with output": lambda said: {"inputs": {"messages": said[:2]}, "outputs": {"messages": said}},
    "checkpoint": lambda said: {"v": 1, "channel_values": {"messages": said}},
}


@folded("form, place", {f"{form} in {place}": (FORMS[form], PLACES[place]) for form in FORMS for place in PLACES})
def test_messages_of_langchain_are_read_in_every_form_and_place(
    tmp_path: Path, form: Callable[[], list[Json]], place: Callable[[list[Json]], object]
) -> None:
    session = read_one(save(tmp_path / "thread.json", place(form())))
    assert (session.format_name, session.skipped) == ("LangChain messages", ())
    assert shape(session) == SHAPES["langchain"]


# -- the folder of OpenHands' events


@folded("name", {"sdk": "event-{number:05}-abc.json", "application": "{number}.json"})
def test_events_of_openhands_are_read_from_a_folder(tmp_path: Path, name: str) -> None:
    """As text, two of the names sort before "9"."""
    for folder in (tmp_path / name / "conversation", tmp_path / name / "conversation" / "events"):
        for number, event in enumerate(values("openhands"), 8):
            save(tmp_path / name / "conversation" / "events" / name.format(number=number), event)
        (tmp_path / name / "conversation" / "events" / name.format(number=3)).write_text("{broken")
        session = read_one(folder)
        assert (session.id, shape(session)) == (folder.name, SHAPES["openhands"])
        assert session.skipped[0] == f"{name.format(number=3)}: cannot be read"


# -- the folder of a session of Copilot CLI


def test_a_session_of_copilot_is_read_from_its_folder(tmp_path: Path) -> None:
    save(tmp_path / "checkpoints" / "index.json", {})
    write(tmp_path / "events.jsonl", *values("copilot"))
    session = read_one(tmp_path)
    assert (session.id, session.skipped) == ("s", ())
    assert shape(session) == SHAPES["copilot"]


# -- the storage of OpenCode

INFO = {"id": "ses_1", "projectID": "p", "directory": "/x", "time": {"created": 1}}


def store(root: Path, layout: str = "now") -> Path:
    """Write a storage folder in one of its three layouts; return the session's file."""
    inner = "session/" if layout == "first" else ""
    asked, answered = values("opencode")
    # The second file is older, so it comes first.
    for message_id, created, message in (("msg_1", 20, answered), ("msg_2", 10, asked)):
        info = {**message["info"], "id": message_id, "sessionID": "ses_1", "time": {"created": created}}
        save(root / f"{inner}message/ses_1/{message_id}.json", info)
        for place, part in enumerate(message["parts"]):
            folder = {"now": f"part/{message_id}", "first": f"session/part/ses_1/{message_id}", "flat": "part"}[layout]
            save(root / f"{folder}/prt_{message_id}_{place}.json", {**part, "messageID": message_id})
    return save(root / f"session/{'info' if layout == 'first' else 'project'}/ses_1.json", INFO)


@folded("layout", ["now", "first", "flat"])
def test_a_stored_session_of_opencode_is_put_together(tmp_path: Path, layout: str) -> None:
    root = tmp_path / layout
    for path in (store(root / "storage", layout), root / "storage", root):
        session = read_one(path)
        assert (session.id, session.skipped) == ("ses_1", ())
        assert shape(session) == SHAPES["opencode"]


def test_unreadable_files_of_a_stored_session_are_named(tmp_path: Path) -> None:
    path = store(tmp_path)
    (tmp_path / "message" / "ses_1" / "msg_0.json").write_text("{broken")
    (tmp_path / "part" / "msg_2" / "prt_x.json").write_text("[]")
    assert read_one(path).skipped == ("ses_1/msg_0.json: cannot be read", "msg_2/prt_x.json: cannot be read")


def test_stored_sessions_without_answers_are_left_out_and_counted(tmp_path: Path) -> None:
    save(tmp_path / "session/project/ses_0.json", {**INFO, "id": "ses_0"})
    save(tmp_path / "session/project/ses_2.json", ["odd"])
    with pytest.raises(ReplayError, match="no model has answered in any of its sessions"):
        list(read_sessions(tmp_path))
    store(tmp_path)
    session = read_one(tmp_path)
    assert session.id == "ses_1"
    assert session.skipped == ("2 sessions that cannot be read or in which no model answers",)
