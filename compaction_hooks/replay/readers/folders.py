"""Sessions in a folder: the events of an OpenHands session, the storage of OpenCode, the log of a Copilot CLI session."""

from __future__ import annotations

import json
import re
from pathlib import Path

from compaction_hooks.replay.readers import copilot, opencode_storage, openhands
from compaction_hooks.replay.readers.lines import Line, SessionFile, load
from compaction_hooks.replay.readers.values import fields, is_object
from compaction_hooks.replay.recorded import Unread


def load_folder(folder: Path) -> list[SessionFile]:
    """Return one file for each session in a folder; none if the kind of folder is unknown.

    The events of a session become the lines of one file, with the numbers of their files. A stored session that cannot be read
    becomes an empty object.

    Raises:
        ReplayError: the file named as the log of a Copilot CLI session cannot be read.
    """
    log = folder / "events.jsonl"
    if log.is_file() and copilot.recognises((file := load(log)).lines):
        return [file]

    stored = opencode_storage.session_files(folder)
    if stored:
        return [SessionFile(path=path, lines=(Line(1, fields(_read(path))),)) for path in stored]

    return _load_events(folder)


def _load_events(folder: Path) -> list[SessionFile]:
    """Return one file of the events of an OpenHands session; none if the folder has none."""
    events = folder / "events" if (folder / "events").is_dir() else folder
    paths = sorted(filter(_is_event, events.glob("*.json")), key=_event_number)

    lines: list[Line] = []
    skipped: list[str] = []
    for path in paths:
        value = _read(path)
        if is_object(value):
            lines.append(Line(_event_number(path)[0], value))
        else:
            skipped.append(Unread(f"{path.name}: cannot be read"))

    if not any(openhands.holds(line.value) for line in lines):
        return []
    return [SessionFile(path=folder, lines=tuple(lines), skipped=tuple(skipped))]


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _is_event(path: Path) -> bool:
    """Return whether a file is named as one event is; a folder may hold whole sessions instead."""
    return re.match(r"(?:event-)?\d+\D", path.name) is not None


def _event_number(path: Path) -> tuple[int, str]:
    """Return the key that sorts events by number: `7.json` before `12.json`, or `event-00007-....json`."""
    found = re.search(r"\d+", path.name)
    return int(found[0]) if found else -1, path.name
