"""All real files, compared with conversions of the same conversations by others."""

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.events import CompactionEvent, CompactionFailed
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history.digests import canonical_arguments
from compaction_hooks.messages import Media, Message, Text, ToolCall, ToolResult
from compaction_hooks.replay import RecordedSession, ReplayError, read_sessions
from compaction_hooks.replay.run import call_indexes
from compaction_hooks.testing import check_view
from tests.cases import folded, sampled
from tests.data import DATA, needs_data
from tests.replay.samples import assert_calls_are_answered, blocks, read_one

NATIVE = DATA / "native"
WINDOW = 16_000
LONG_BYTES = 600_000

KNOWN: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[1] / "fixtures" / "native_sessions.json").read_text(encoding="utf-8")
)
"""The kind of the files by pattern; those without output of a model; and those that others converted too."""
UNANSWERED = set(KNOWN["unanswered"])
FILES = {path: kind for pattern, kind in KNOWN["kinds"].items() for path in sorted(NATIVE.glob(pattern))}


def name(path: Path) -> str:
    return path.relative_to(NATIVE).as_posix()


each_file = folded("path", {name(path): path for path in FILES})


@needs_data
def test_real_files_are_there() -> None:
    assert len(FILES) >= 60
    assert {name(path) for path in FILES} >= UNANSWERED


def _read(path: Path) -> list[RecordedSession]:
    """Return the sessions of a file; none if no model has answered in it."""
    if name(path) not in UNANSWERED:
        return list(read_sessions(path))
    with pytest.raises(ReplayError, match=rf"no model has answered in it \({FILES[path].partition(' ')[0]}"):
        list(read_sessions(path))
    return []


@each_file
def test_every_real_file_is_recognised_and_read_as_a_valid_conversation(path: Path) -> None:
    for session in _read(path):
        assert session.format_name == FILES[path]
        if FILES[path] not in ("OpenAI chat messages", "Anthropic messages"):
            assert_calls_are_answered(session.messages)
        for message in session.messages:
            session.format.read(message)
        for recorded in session.calls:
            assert session.messages[recorded.index]["role"] == "assistant"
            assert 0 <= recorded.context_start <= recorded.index
        assert all(0 <= compaction.index <= len(session.messages) for compaction in session.compactions)


@pytest.mark.parametrize(
    "path",
    [
        *sampled([path for path in FILES if path.stat().st_size <= LONG_BYTES], 12),
        *(pytest.param(path, marks=pytest.mark.full) for path in FILES if path.stat().st_size > LONG_BYTES),
    ],
    ids=name,
)
def test_every_view_of_every_real_file_fits_and_is_no_less_valid_than_the_recording(path: Path) -> None:
    """Otherwise an event says that the newest messages alone are larger than the window."""
    for session in _read(path):
        events: list[CompactionEvent] = []
        controller = CompactionController(context_window=WINDOW, format=session.format, on_event=events.append)
        conversation = controller.session(session.id)
        indexes = call_indexes(session)
        for index in indexes:
            events.clear()
            host = list(session.messages[:index])
            view = conversation.transform_context_sync(host, system=session.system, tools=session.tools)
            tokens = conversation.state().context_tokens or 0
            assert tokens <= WINDOW or any(isinstance(event, CompactionFailed) for event in events)
            # Between two compactions, only new messages are added to the view.
            if view is not host and (events or index == indexes[-1]):
                summaries = [str(record["rendered"]) for record in conversation.export_records()]
                check_view(host, view, format=session.format, summaries=summaries)


# -- the same conversations as converted by others


@cache
def _load_normalised(pattern: str) -> tuple[dict[str, Any], ...]:
    with gzip.open(DATA / "sessions" / f"{pattern}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(map(json.loads, lines))


def _record(pattern: str, part_of_id: str) -> dict[str, Any]:
    (record,) = (each for each in _load_normalised(pattern) if part_of_id in each["id"])
    return record


@needs_data
@folded("file, pattern, part_of_id", {each[0]: each for each in KNOWN["same calls"]})
def test_calls_and_usage_agree_with_the_normalised_recording(file: str, pattern: str, part_of_id: str) -> None:
    """Conversions of the same files by others are the reference."""
    (source,) = (DATA / "sessions").glob(f"{pattern}.jsonl.gz")
    session = read_one(NATIVE / file)
    record = _record(source.name.partition(".")[0], part_of_id)
    found = [block["id"] for message in session.messages for block in blocks(message) if block["type"] == "tool_use"]
    assert found == [call["id"] for message in record["messages"] for call in message.get("tool_calls", ())]
    assert [call.usage.input_tokens for call in session.calls] == [call["prompt_tokens"] for call in record["usage"]]


def _atoms(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield the input of digests: joined texts of one side, media, tool calls, results; no system messages and reasoning."""
    side, said = "", ""
    for message in messages:
        speaker = "assistant" if message.role == "assistant" else "host"
        for part in message.parts if message.role != "system" else ():
            if isinstance(part, Text) and speaker == side:
                said += part.text
                continue
            if said:
                yield side, said
            side, said = (speaker, part.text) if isinstance(part, Text) else ("", "")
            if isinstance(part, ToolCall):
                yield "call", f"{part.name} {canonical_arguments(part.arguments)}"
            elif isinstance(part, ToolResult):
                yield "result", part.text
            elif isinstance(part, Media):
                yield "media", f"{part.media_type.partition('/')[0]} {part.identity}"
    if said:
        yield side, said


@needs_data
@folded("file, pattern, part_of_id", {each[0]: each for each in KNOWN["same texts"]})
def test_texts_calls_and_results_agree_with_the_normalised_recording(file: str, pattern: str, part_of_id: str) -> None:
    """All texts, tool calls, results, images and counts are the same, independently of message borders."""
    session, record = read_one(NATIVE / file), _record(pattern, part_of_id)
    read = OpenAIChatFormat().read
    found = list(_atoms([piece for message in session.messages for piece in session.format.read(message)]))
    assert found == list(_atoms([piece for message in record["messages"] for piece in read(message)]))
    dumpd_has_no_usage = [] if "dumpd" in file else [call["prompt_tokens"] for call in record.get("usage", ())]
    assert [call.usage.input_tokens for call in session.calls] == dumpd_has_no_usage


@needs_data
def test_a_logged_completion_goes_one_answer_beyond_the_normalised_recording() -> None:
    """OpenHands logs the request with its answer; the other recording ends with the request."""
    session = read_one(NATIVE / "openhands" / "llm_completion_last_request.json")
    record = _record("openhands_swebench", "django-11133")
    found = list(_atoms([piece for message in session.messages for piece in session.format.read(message)]))
    read = OpenAIChatFormat().read
    expected = list(_atoms([piece for message in record["messages"] for piece in read(message)]))
    assert found[: len(expected)] == expected
    assert [kind for kind, _ in found[len(expected) :]] == ["assistant", "call", "result"]
