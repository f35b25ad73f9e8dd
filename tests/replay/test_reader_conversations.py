"""Lists of messages, alone or in an object with other fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.recorded import Probe, RecordedCall, RecordedCompaction
from tests.replay.samples import Json, read_one, write

CHAT = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello yourself"}]
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(CHAT, "openai_chat", id="list"),
        pytest.param({"messages": CHAT}, "openai_chat", id="object"),
        pytest.param({"messages": CHAT, "system": "be brief"}, "anthropic", id="system-beside-the-messages"),
        pytest.param(
            [
                CHAT[0],
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "n", "input": {"a": 1}}]},
            ],
            "anthropic",
            id="tool-use",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "aGk="}}]}, CHAT[1]],
            "anthropic",
            id="image-source",
        ),
        pytest.param([{"role": "system", "content": "be brief"}, *CHAT], "openai_chat", id="system-in-the-list"),
        pytest.param(
            [CHAT[0], {"role": "assistant", "content": None, "tool_calls": None}], "openai_chat", id="tool-calls"
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, CHAT[1]], "openai_chat", id="text-blocks"
        ),
    ],
)
def test_whose_messages_they_are(tmp_path: Path, document: object, expected: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(document, indent=2))
    assert read_one(path).format.name == expected


def test_system_tools_and_model_come_along(tmp_path: Path) -> None:
    system = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    path = write(tmp_path / "chat.json", {"messages": CHAT, "system": system, "tools": [TOOL], "model": "m1"})
    session = read_one(path)
    assert (session.id, session.system, session.tools, session.model) == (
        "chat",
        "Be brief.\n\nBe kind.",
        (TOOL,),
        "m1",
    )


def test_messages_are_given_as_they_are(tmp_path: Path) -> None:
    """The format handles unknown roles, blocks and fields."""
    messages = [{"role": "critic", "content": "hm", "mood": 1}, *CHAT]
    assert list(read_one(write(tmp_path / "chat.json", messages)).messages) == messages


def _record(**more: object) -> Json:
    return {"id": "r1", "harness": "test", "model": "m1", "messages": CHAT, **more}


def test_usage_compactions_and_probes_are_read(tmp_path: Path) -> None:
    usage = {"index": 1, "prompt_tokens": 90, "completion_tokens": 7, "cache_read_tokens": 50, "context_start": 1}
    path = write(
        tmp_path / "r.jsonl",
        _record(
            usage=[usage, {"index": 1, "prompt_tokens": 0}, {"index": 99, "prompt_tokens": 5}],
            compactions=[{"index": 1, "pre_tokens": 9000, "trigger": "auto", "kind": "compact"}],
            probes=[
                {"kind": "entity", "question": "Which?", "answer": "AB-1", "evidence": [0]},
                {"kind": "files_modified", "question": "Which files?", "answer": ["a.py", "b.py"], "evidence": [0, 1]},
                {"kind": "entity", "question": "Unanswered?", "answer": None},
            ],
        ),
    )
    session = read_one(path)
    counted = Usage(input_tokens=90, output_tokens=7, cache_read_tokens=50)
    assert session.calls == (RecordedCall(index=1, usage=counted, model="m1", context_start=1),)
    assert session.compactions == (RecordedCompaction(index=1, tokens_before=9000, trigger="auto"),)
    assert session.probes == (
        Probe(kind="entity", question="Which?", answers=("AB-1",), evidence=(0,)),
        Probe(kind="files_modified", question="Which files?", answers=("a.py", "b.py"), evidence=(0, 1)),
    )


def test_output_counts_from_the_start_of_a_stream_are_left_out(tmp_path: Path) -> None:
    usage = [{"index": 1, "prompt_tokens": 90, "completion_tokens": 1}]
    session = read_one(write(tmp_path / "r.jsonl", _record(harness="claude-code", usage=usage)))
    assert session.calls[0].usage.output_tokens == 0


def test_a_message_the_format_refuses_is_skipped_and_named(tmp_path: Path) -> None:
    """Fields that name messages by index would be wrong, so they are left out."""
    messages = [CHAT[0], {"content": "who speaks?"}, CHAT[1]]
    session = read_one(
        write(tmp_path / "r.jsonl", _record(messages=messages, usage=[{"index": 1, "prompt_tokens": 9}]))
    )
    assert list(session.messages) == CHAT
    assert session.calls == ()
    (note,) = session.skipped
    assert note.startswith("line 1, message 1: ")
    assert '"role"' in note
