"""Recorded conversations of real agents, each read by the format it was written in."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import Message
from compaction_hooks.testing import check_format
from compaction_hooks.validity import problems
from tests.data import DATA, needs_data, sessions

pytestmark = needs_data


def json_lines(folder: str) -> Iterator[dict[str, Any]]:
    for path in sorted((DATA / "native" / folder).glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the recordings have broken lines on purpose
            if isinstance(entry, dict):
                yield entry


def read_json(path: str) -> Any:
    return json.loads((DATA / "native" / path).read_text(encoding="utf-8"))


def read_all(message_format: Any, messages: list[dict[str, Any]]) -> list[Message]:
    return [piece for message in messages for piece in message_format.read(message)]


def test_every_message_of_every_session_is_read() -> None:
    count = 0
    for session in sessions():
        messages = session["messages"]
        pieces = read_all(OpenAIChatFormat(), messages)
        assert [piece.role for piece in pieces] == [message["role"] for message in messages]
        for message, piece in zip(messages, pieces, strict=True):
            calls = [
                (call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls") or []
            ]
            assert [(call.id, call.name, call.arguments) for call in piece.calls] == calls
            results = [(message["tool_call_id"], message["content"])] if message["role"] == "tool" else []
            assert [(result.call_id, result.text) for result in piece.results] == results
            if isinstance(message["content"], str) and message["role"] != "tool":
                assert piece.text == message["content"]
            assert piece.is_summary == bool(message.get("is_compact_summary"))
            assert all(type(part).__name__ != "Opaque" for part in piece.parts)
        count += len(messages)
    assert count > 20_000


def test_recorded_sessions_are_valid_for_openai_chat() -> None:
    """The recordings were checked when they were made: no rule of the chat API may fire on them."""
    for session in sessions():
        assert problems(read_all(OpenAIChatFormat(), session["messages"]), "openai_chat") == [], session["id"]


def test_the_contract_holds_on_a_recorded_session() -> None:
    session = next(session for session in sessions("entire*") if len(session["messages"]) > 200)
    check_format(OpenAIChatFormat(), session["messages"][:200])


def test_claude_code_messages_are_read() -> None:
    format_ = AnthropicFormat()
    messages = [entry["message"] for entry in json_lines("claude_code") if isinstance(entry.get("message"), dict)]
    messages = [message for message in messages if "content" in message]  # a fixture misspells the field on purpose
    assert len(messages) > 400
    for message in messages:
        content = message["content"]
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        pieces = format_.read(message)
        assert [call.id for piece in pieces for call in piece.calls] == ids(blocks, "tool_use", "id")
        assert [result.call_id for piece in pieces for result in piece.results] == ids(
            blocks, "tool_result", "tool_use_id"
        )
        assert format_.take(message, range(len(pieces))) == message
    reported = [piece.usage for piece in read_all(format_, messages) if piece.role == "assistant"]
    assert len([usage for usage in reported if usage is not None]) == len(reported)


def ids(blocks: list[dict[str, Any]], kind: str, field: str) -> list[str]:
    return [block[field] for block in blocks if block["type"] == kind]


@pytest.mark.parametrize(
    "path",
    ["cline/session.messages.json", "cline/basic.compaction.json", "roo/natural-mini-api_conversation_history.json"],
)
def test_other_anthropic_histories_are_read(path: str) -> None:
    found = read_json(path)
    messages = found if isinstance(found, list) else found["messages"]
    pieces = read_all(AnthropicFormat(), messages)
    assert len(pieces) >= len(messages)
    assert {piece.role for piece in pieces} <= {"user", "assistant", "tool"}


def test_codex_items_are_read() -> None:
    items = [entry["payload"] for entry in json_lines("codex") if entry.get("type") == "response_item"]
    assert len(items) > 20
    pieces = read_all(OpenAIResponsesFormat(), items)
    kinds = [item["type"] for item in items]
    assert len([piece for piece in pieces if piece.calls]) == sum(
        kind in ("function_call", "custom_tool_call") for kind in kinds
    )
    assert len([piece for piece in pieces if piece.results]) == sum(
        kind in ("function_call_output", "custom_tool_call_output") for kind in kinds
    )


@pytest.mark.parametrize(
    ("path", "calls"),
    [
        pytest.param("openhands/llm_completion_last_request.json", 18, id="openhands"),
        pytest.param("mini_swe_agent/pvlib__pvlib-python-1072.traj.json", 15, id="mini-swe-agent"),
    ],
)
def test_other_chat_histories_are_read(path: str, calls: int) -> None:
    pieces = read_all(OpenAIChatFormat(), read_json(path)["messages"])
    assert sum(len(piece.calls) for piece in pieces) == calls
    assert sum(len(piece.results) for piece in pieces) == calls
