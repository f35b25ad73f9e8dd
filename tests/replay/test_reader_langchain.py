"""LangChain's dumps: three forms of a message, in several containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.readers import read_sessions
from tests.replay.samples import Json, assert_calls_are_answered, blocks, read_one, shape, write

CALL = {"name": "read", "args": {"path": "a"}, "id": "c1", "type": "tool_call"}
CLASSES = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessageChunk", "tool": "ToolMessage"}


def message(kind: str, content: object, **data: object) -> Json:
    return {"type": kind, "data": {"type": kind, "content": content, **data}}


def answer(content: object = "", **data: object) -> Json:
    return message("ai", content, **data)


TALK = (
    message("system", "Be brief."),
    message("human", "go"),
    answer("Reading.", tool_calls=[CALL]),
    message("tool", "A", tool_call_id="c1", status="success"),
    answer("Done."),
)
SHAPE = ["system", "user", "assistant:text,tool_use", "user:tool_result", "assistant:text"]


def as_constructor(said: Json) -> Json:
    names = ["langchain", "schema", "messages", CLASSES[said["type"]]]
    return {"lc": 1, "type": "constructor", "id": names, "kwargs": said["data"]}


def as_dump(said: Json) -> Json:
    return {"additional_kwargs": {}, "response_metadata": {}, **said["data"]}


def save(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(lambda said: said, id="messages_to_dict"),
        pytest.param(as_constructor, id="dumpd"),
        pytest.param(as_dump, id="model_dump"),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(list, id="list"),
        pytest.param(lambda said: {"messages": said}, id="object"),
        pytest.param(lambda said: {"messages": [said]}, id="batch"),
        pytest.param(lambda said: {"values": {"messages": said}, "next": []}, id="state"),
        pytest.param(lambda said: {"id": "run", "inputs": {"messages": [said]}}, id="run"),
        pytest.param(
            lambda said: {"inputs": {"messages": said[:2]}, "outputs": {"messages": said}}, id="run-with-output"
        ),
        pytest.param(lambda said: {"v": 1, "channel_values": {"messages": said}}, id="checkpoint"),
    ],
)
def test_every_form_is_read_wherever_it_stands(tmp_path: Path, form: object, place: object) -> None:
    assert callable(form)
    assert callable(place)
    session = read_one(save(tmp_path / "thread.json", place([form(said) for said in TALK])))
    assert session.format_name == "LangChain messages"
    assert shape(session) == SHAPE
    assert_calls_are_answered(session.messages)
    assert session.skipped == ()


def test_messages_on_lines_are_one_session(tmp_path: Path) -> None:
    path = write(tmp_path / "thread.jsonl", *TALK[:2], "{broken", *TALK[2:], {"note": 1})
    session = read_one(path)
    assert (session.id, shape(session)) == ("thread", SHAPE)
    assert session.skipped == ("line 3: not JSON: '{broken'", "line 7: holds no messages")


def test_lists_on_lines_are_sessions_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "runs.jsonl", {"messages": TALK}, {"id": "r2", "messages": [TALK, TALK]})
    assert [session.id for session in read_sessions(path)] == ["runs#1", "r2#2", "r2#3"]


def test_usage_includes_the_cached_part(tmp_path: Path) -> None:
    """LangChain normalizes the usage of every provider."""
    details = {"cache_read": 60, "cache_creation": 20}
    counted = {"input_tokens": 100, "output_tokens": 9, "total_tokens": 109, "input_token_details": details}
    said = answer("1", usage_metadata=counted, response_metadata={"model_name": "m1"})
    session = read_one(save(tmp_path / "t.json", [TALK[1], said, TALK[1], answer("2", usage_metadata=None)]))
    usage = Usage(input_tokens=100, output_tokens=9, cache_read_tokens=60, cache_write_tokens=20)
    assert [(each.index, each.usage, each.model) for each in session.calls] == [(1, usage, "m1")]
    assert session.model == "m1"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            {
                "additional_kwargs": {
                    "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": '{"path":"a"}'}}]
                }
            },
            {"path": "a"},
            id="before-tool_calls",
        ),
        pytest.param(
            {"additional_kwargs": {"function_call": {"name": "read", "arguments": '{"path":"a"}'}}},
            {"path": "a"},
            id="function_call",
        ),
        pytest.param(
            {"invalid_tool_calls": [{"id": "c1", "name": "read", "args": '{"path', "error": None}]},
            {"arguments": '{"path'},
            id="invalid",
        ),
    ],
)
def test_calls_of_other_versions_are_read(tmp_path: Path, data: Json, expected: Json) -> None:
    legacy = message("function", "A", name="read") if "function_call" in str(data) else TALK[3]
    session = read_one(save(tmp_path / "t.json", [TALK[1], answer(tool_calls=[], **data), legacy]))
    assert_calls_are_answered(session.messages)
    assert blocks(session.messages[1])[0]["input"] == expected
    assert session.skipped == ()


def test_content_blocks_are_told_apart(tmp_path: Path) -> None:
    """A tool call in the content is also in `tool_calls`."""
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}], "encrypted_content": "sealed"},
        "Reading.",
        {"type": "tool_use", "id": "c1", "name": "read", "input": {}},
    ]
    image = {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "AAAA"}
    shown = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
    session = read_one(
        save(tmp_path / "t.json", [message("human", [shown, image]), answer(content, tool_calls=[CALL]), TALK[3]])
    )
    assert shape(session) == ["user:image,image", "assistant:thinking,thinking,text,tool_use", "user:tool_result"]
    assert session.skipped == ()
    assert [block["source"]["type"] for block in blocks(session.messages[0])] == ["url", "base64"]


def test_what_is_no_part_of_the_conversation_is_counted(tmp_path: Path) -> None:
    odd = [message("remove", "", id="m0"), message("human", ""), {"type": "weather"}]
    session = read_one(save(tmp_path / "t.json", [*TALK, *odd, message("tool", "B", tool_call_id="c9")]))
    assert session.skipped == (
        "message 8: a result without its call",
        "no part of the conversation: remove 1, human 1, weather 1",
    )


def test_roles_of_chat_messages_count(tmp_path: Path) -> None:
    developer = message("system", "Rules.", additional_kwargs={"__openai_role__": "developer"})
    chat = [developer, message("chat", "go", role="user"), message("chat", "1", role="assistant")]
    assert shape(read_one(save(tmp_path / "t.json", chat))) == ["system", "user", "assistant:text"]
