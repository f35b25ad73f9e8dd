"""pydantic-ai's dumps: requests and responses, each of parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.readers import read_sessions
from tests.replay.samples import Json, assert_calls_are_answered, blocks, read_one, shape, write


def request(*parts: Json, **more: object) -> Json:
    return {"kind": "request", "parts": list(parts), **more}


def response(*parts: Json, **more: object) -> Json:
    return {"kind": "response", "parts": list(parts), "model_name": "m1", **more}


def part(kind: str, content: object = "", **more: object) -> Json:
    return {"part_kind": kind, "content": content, **more}


def call(call_id: str, args: object) -> Json:
    return {"part_kind": "tool-call", "tool_name": "read", "args": args, "tool_call_id": call_id}


def tool_return(call_id: str, content: object, **more: object) -> Json:
    return part("tool-return", content, tool_name="read", tool_call_id=call_id, **more)


def save(path: Path, *messages: Json) -> Path:
    path.write_text(json.dumps(messages, indent=1), encoding="utf-8")
    return path


GO = request(part("user-prompt", "go"))


def test_requests_and_responses_become_messages(tmp_path: Path) -> None:
    path = save(
        tmp_path / "run.json",
        request(part("system-prompt", "Be brief."), part("user-prompt", "go"), instructions="In French."),
        response(
            part("thinking", "hm", signature="sig"),
            part("text", "Reading."),
            call("c1", '{"path": "a"}'),
            call("c2", None),
        ),
        request(tool_return("c2", "B"), tool_return("c1", "A"), part("user-prompt", "and?")),
        response(part("text", "Done.")),
    )
    session = read_one(path)
    assert (session.id, session.format_name, session.model) == ("run", "pydantic-ai messages", "m1")
    assert session.system == "In French."
    assert shape(session) == [
        "system",
        "user",
        "assistant:thinking,text,tool_use,tool_use",
        "user:tool_result,tool_result",
        "user",
        "assistant:text",
    ]
    assert_calls_are_answered(session.messages)
    assert [block["content"] for block in blocks(session.messages[3])] == ["A", "B"]
    assert session.skipped == ()


@pytest.mark.parametrize(
    "args",
    [
        pytest.param('{"path": "a"}', id="text"),
        pytest.param({"path": "a"}, id="object"),
        pytest.param({"args_json": '{"path": "a"}'}, id="args_json"),
        pytest.param({"args_dict": {"path": "a"}}, id="args_dict"),
    ],
)
def test_arguments_of_every_version_are_read(tmp_path: Path, args: object) -> None:
    session = read_one(save(tmp_path / "r.json", GO, response(call("c1", args)), request(tool_return("c1", "A"))))
    assert blocks(session.messages[1])[0]["input"] == {"path": "a"}


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        pytest.param(
            {"input_tokens": 100, "output_tokens": 9, "cache_read_tokens": 60, "cache_write_tokens": 20},
            Usage(input_tokens=100, output_tokens=9, cache_read_tokens=60, cache_write_tokens=20),
            id="now",
        ),
        pytest.param(
            {"requests": 1, "request_tokens": 100, "response_tokens": 9, "details": None},
            Usage(input_tokens=100, output_tokens=9),
            id="before-1.0",
        ),
        pytest.param({"input_tokens": 0, "output_tokens": 0}, None, id="not-counted"),
    ],
)
def test_usage_includes_the_cached_part(tmp_path: Path, counted: Json, expected: Usage | None) -> None:
    """pydantic-ai normalizes the usage of every provider."""
    session = read_one(save(tmp_path / "r.json", GO, response(part("text", "1"), usage=counted)))
    assert [each.usage for each in session.calls] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("A", "A", id="text"),
        pytest.param({"rows": [1, "é"]}, '{"rows":[1,"é"]}', id="object"),
        pytest.param([1, 2], "[1,2]", id="list"),
        pytest.param(None, "", id="nothing"),
        pytest.param(
            ["see", {"kind": "binary", "media_type": "image/png", "data": "-_-_"}],
            [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "+/+/"}},
            ],
            id="image-in-url-safe-base64",
        ),
    ],
)
def test_results_come_in_several_shapes(tmp_path: Path, content: object, expected: object) -> None:
    session = read_one(save(tmp_path / "r.json", GO, response(call("c1", {})), request(tool_return("c1", content))))
    assert blocks(session.messages[2])[0]["content"] == expected


def test_a_retry_answers_its_call_or_is_the_users_word(tmp_path: Path) -> None:
    wrong = [{"type": "missing", "loc": ["path"]}]
    retry = part("retry-prompt", wrong, tool_name="read", tool_call_id="c1")
    path = save(
        tmp_path / "r.json",
        GO,
        response(call("c1", {})),
        request(retry),
        response(part("text", "?")),
        request(part("retry-prompt", "Use the tool.", tool_name=None)),
        response(part("text", "Done.")),
    )
    session = read_one(path)
    (block,) = blocks(session.messages[2])
    assert (block["content"], block["is_error"]) == ('[{"type":"missing","loc":["path"]}]', True)
    assert session.messages[4] == {"role": "user", "content": "Use the tool."}


def test_media_in_a_prompt_are_shown(tmp_path: Path) -> None:
    content = [
        "look",
        {"kind": "image-url", "url": "https://x.example/a.png"},
        {"kind": "document-url", "url": "https://x.example/a.pdf"},
        {"kind": "binary", "media_type": "application/pdf", "data": "AAAA"},
        {"kind": "cache-point"},
    ]
    session = read_one(save(tmp_path / "r.json", request(part("user-prompt", content)), response(part("text", "1"))))
    assert shape(session)[0] == "user:text,image,document,document"


def test_messages_on_lines_are_one_session_and_lists_on_lines_are_several(tmp_path: Path) -> None:
    said = response(part("text", "1"))
    alone = read_one(write(tmp_path / "one.jsonl", GO, "{broken", said))
    assert shape(alone) == ["user", "assistant:text"]
    assert alone.skipped == ("line 2: not JSON: '{broken'",)
    lists = write(tmp_path / "many.jsonl", {"messages": [GO, said]}, {"id": "r2", "message_history": [GO, said]})
    assert [session.id for session in read_sessions(lists)] == ["many#1", "r2#2"]


def test_what_is_no_part_of_the_conversation_is_named_with_its_place(tmp_path: Path) -> None:
    path = save(
        tmp_path / "r.json",
        GO,
        {"kind": "note"},
        response(),
        response(part("text", "1"), {"part_kind": "builtin-tool-call", "tool_name": "web_search", "args": {}}),
        request(part("user-prompt", []), tool_return("c9", "A")),
    )
    session = read_one(path)
    assert shape(session) == ["user", "assistant:text,builtin-tool-call"]
    assert session.skipped == (
        "message 1: neither a request nor a response",
        "message 2: a response without content",
        "message 4: a result without its call",
        "no part of the conversation: user-prompt 1",
    )
