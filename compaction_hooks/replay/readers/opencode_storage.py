"""OpenCode's storage folder: `session/<project>/<id>.json`, `message/<session>/<id>.json`, `part/<message>/<id>.json`.

The first versions kept `session/info/<id>.json`, `session/message/...` and `session/part/<session>/<message>/...`; some have
all parts in one folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from compaction_hooks.replay.readers.values import count, fields, is_object, text
from compaction_hooks.replay.recorded import Fields, Unread

_LEVELS_UP = 4
"""Most folder levels from a session's file up to the folder with all messages."""


def is_session(value: Fields) -> bool:
    """Whether this is the file of a session, which has no messages itself."""
    has_place = "directory" in value or "projectID" in value
    return "messages" not in value and has_place and "id" in value and is_object(value.get("time"))


def session_files(folder: Path) -> list[Path]:
    """Return the files of all sessions in a storage folder or in its parent; none for other folders."""
    for root in (folder, folder / "storage"):
        if (root / "session").is_dir():
            found = [*root.glob("session/*/ses*.json"), *root.glob("session/info/*.json")]
            return sorted(set(found))
    return []


def gather(path: Path, session: Fields) -> tuple[Fields, list[str]]:
    """Return a session in the form of an export, read from the folders around its file, and notes on unreadable files."""
    notes: list[str] = []
    session_id = text(session.get("id"))
    messages: list[Fields] = []
    for root in list(path.resolve().parents)[:_LEVELS_UP]:
        folder = root / "message" / session_id
        if session_id and folder.is_dir():
            infos = sorted(_objects(folder.glob("*.json"), notes), key=_age)
            messages = [
                {"info": info, "parts": _parts(root, session_id, text(info.get("id")), notes)} for info in infos
            ]
            break

    return {"info": session, "messages": messages}, notes


def _parts(root: Path, session_id: str, message_id: str, notes: list[str]) -> list[Fields]:
    if not message_id:
        return []
    for folder in (root / "part" / message_id, root / "part" / session_id / message_id):
        if folder.is_dir():
            return list(_objects(sorted(folder.glob("*.json")), notes))
    all_parts = _objects(sorted((root / "part").glob("*.json")), notes)
    return [part for part in all_parts if part.get("messageID") == message_id]


def _objects(paths: Iterator[Path] | list[Path], notes: list[str]) -> Iterator[Fields]:
    for path in paths:
        try:
            value: object = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            value = None
        if is_object(value):
            yield value
        else:
            notes.append(Unread(f"{path.parent.name}/{path.name}: cannot be read"))


def _age(info: Fields) -> tuple[int, str]:
    """Return the key that sorts messages by creation; ids increase with time."""
    return count(fields(info.get("time")).get("created")), text(info.get("id"))
