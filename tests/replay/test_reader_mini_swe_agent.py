"""Trajectories of mini-swe-agent and SWE-agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.readers import read_sessions
from tests.replay.samples import Json, assert_calls_are_answered, blocks, read_one, shape, write

SYSTEM = {"role": "system", "content": "Be brief."}
TASK = {"role": "user", "content": "go"}
USAGE = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60}}


def answer(words: str, *call_ids: str, **more: object) -> Json:
    calls = [{"id": each, "function": {"name": "bash", "arguments": '{"command":"ls"}'}} for each in call_ids]
    response = {"model": "m1", "usage": USAGE, "choices": []}
    return {"role": "assistant", "content": words, "tool_calls": calls, "extra": {"response": response}, **more}


def save(path: Path, **value: object) -> Path:
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param({"trajectory_format": "mini-swe-agent-1.1", "info": {}}, id="format"),
        pytest.param({"info": {"mini_version": "2.2.7", "config": {"model": {"model_name": "m0"}}}}, id="version"),
        pytest.param({"info": {"exit_status": "Submitted", "submission": ""}}, id="first-version"),
    ],
)
def test_messages_are_read_with_the_usage_they_carry(tmp_path: Path, marks: Json) -> None:
    """LiteLLM's prompt tokens include the cached part."""
    result = {"role": "tool", "tool_call_id": "c1", "content": "A", "extra": {"returncode": 0}}
    messages = [
        SYSTEM,
        TASK,
        answer("", "c1", reasoning_content="hm"),
        result,
        {"role": "exit", "content": "", "extra": {}},
    ]
    session = read_one(save(tmp_path / "task-1.traj.json", messages=messages, **marks))
    assert (session.id, session.format_name, session.model) == ("task-1", "mini-swe-agent trajectory", "m1")
    assert shape(session) == ["system", "user", "assistant:thinking,tool_use", "user:tool_result"]
    assert_calls_are_answered(session.messages)
    usage = Usage(input_tokens=100, output_tokens=9, cache_read_tokens=60)
    assert [(each.index, each.usage) for each in session.calls] == [(2, usage)]
    assert session.skipped == ("no part of the conversation: exit 1",)


def test_messages_of_the_responses_api_are_read(tmp_path: Path) -> None:
    response = {
        "object": "response",
        "model": "m1",
        "usage": {"input_tokens": 100, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 60}},
        "output": [
            {"type": "reasoning", "summary": [], "encrypted_content": "sealed"},
            {"type": "function_call", "name": "bash", "call_id": "c1", "arguments": '{"command":"ls"}'},
        ],
    }
    messages = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        response,
        {"type": "function_call_output", "call_id": "c1", "output": "A"},
        {"object": "response", "output": []},
    ]
    session = read_one(save(tmp_path / "t.traj.json", messages=messages, info={"mini_version": "2"}, instance_id="i1"))
    assert session.id == "i1"
    assert shape(session) == ["user:text", "assistant:redacted_thinking,tool_use", "user:tool_result"]
    assert [(each.index, each.usage.input_tokens, each.usage.cache_read_tokens) for each in session.calls] == [
        (1, 100, 60)
    ]
    assert session.skipped == ("no part of the conversation: unknown 1",)


def test_the_history_of_swe_agent_is_read(tmp_path: Path) -> None:
    history = [
        {**SYSTEM, "message_type": "system_prompt", "agent": "main"},
        {**TASK, "message_type": "observation", "agent": "main"},
        {**answer("Looking.", "c1"), "message_type": "action", "thought": "Looking.", "agent": "main"},
        {"role": "tool", "content": "A", "tool_call_ids": ["c1"], "message_type": "observation", "agent": "main"},
    ]
    session = read_one(save(tmp_path / "t.traj", history=history, trajectory=[], info={}))
    assert session.format_name == "SWE-agent trajectory"
    assert shape(session) == ["system", "user", "assistant:text,tool_use", "user:tool_result"]
    assert_calls_are_answered(session.messages)


def test_a_trajectory_without_its_history_is_what_was_said_and_seen(tmp_path: Path) -> None:
    steps = [
        {"action": "ls", "response": "Look.\n```\nls\n```", "observation": "A"},
        {"action": "submit", "observation": ""},
    ]
    session = read_one(save(tmp_path / "t.traj", trajectory=steps, environment="x"))
    assert shape(session) == ["assistant:text", "user", "assistant:text"]
    assert blocks(session.messages[2]) == [{"type": "text", "text": "submit"}]
    assert session.skipped == ("no part of the conversation: user 1",)


def test_each_trajectory_of_a_file_is_a_session(tmp_path: Path) -> None:
    record = {"messages": [TASK, answer("Done.")], "info": {"exit_status": "x"}}
    path = write(
        tmp_path / "all.jsonl", {**record, "instance_id": "i1"}, {"messages": [TASK]}, {**record, "instance_id": "i2"}
    )
    assert [session.id for session in read_sessions(path)] == ["i1", "i2"]
