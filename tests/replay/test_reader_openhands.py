"""OpenHands' events: of the application and of the SDK, in a list, on lines, in a folder, in an evaluation's output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import RecordedCompaction
from tests.replay.samples import Json, assert_calls_are_answered, blocks, read_one, shape, write

TOOL = {"type": "function", "function": {"name": "run"}}


def save(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def prompt(number: int, words: str) -> Json:
    return {"id": number, "source": "user", "action": "message", "args": {"content": words, "image_urls": None}}


def caused_by(call_id: str, response: Json) -> Json:
    return {"function_name": "run", "tool_call_id": call_id, "model_response": response, "total_calls_in_response": 1}


def response(response_id: str, words: str, *call_ids: str) -> Json:
    calls = [{"id": each, "function": {"name": "run", "arguments": f'{{"command":"{each}"}}'}} for each in call_ids]
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 60},
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
    }
    message = {"role": "assistant", "content": words, "tool_calls": calls}
    return {"id": response_id, "model": "m1", "choices": [{"message": message}], "usage": usage}


def action(number: int, call_id: str, answer: Json) -> Json:
    return {
        "id": number,
        "source": "agent",
        "action": "run",
        "args": {"command": "x", "thought": "y"},
        "tool_call_metadata": caused_by(call_id, answer),
    }


def observation(number: int, call_id: str, cause: int, content: str = "ok", kind: str = "run") -> Json:
    metadata = {"tool_call_metadata": caused_by(call_id, {})} if call_id else {}
    return {"id": number, "source": "agent", "observation": kind, "content": content, "cause": cause, **metadata}


def test_one_response_is_one_answer_however_many_actions_it_led_to(tmp_path: Path) -> None:
    """LiteLLM's prompt tokens include those read from and written to the cache."""
    first, last = response("r1", "Looking.", "c1", "c2"), response("r2", "Bye.", "c3")
    events = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "Be brief.", "tools": [TOOL]}},
        prompt(1, "go"),
        {"id": 2, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
        action(3, "c1", first),
        action(4, "c2", first),
        observation(5, "c2", 4, "B"),
        observation(6, "c1", 3, "A", "error"),
        {"id": 7, "source": "agent", "action": "message", "args": {"content": "And now?"}},
        prompt(8, "finish"),
        {**action(9, "c3", last), "action": "finish"},
    ]
    session = read_one(save(tmp_path / "trajectory.json", events))
    assert (session.id, session.format_name, session.model) == ("trajectory", "OpenHands events", "m1")
    assert session.tools == (TOOL,)
    assert shape(session) == [
        "system",
        "user:text",
        "assistant:text,tool_use,tool_use",
        "user:tool_result,tool_result",
        "assistant:text",
        "user:text",
        "assistant:text,tool_use",
        "user:tool_result",
    ]
    assert_calls_are_answered(session.messages)
    assert [(each["content"], each.get("is_error", False)) for each in blocks(session.messages[3])] == [
        ("A", True),
        ("B", False),
    ]
    usage = Usage(input_tokens=100, output_tokens=9, cache_read_tokens=60, cache_write_tokens=30)
    assert [(each.index, each.usage) for each in session.calls] == [(2, usage), (6, usage)]
    assert session.skipped == (
        "no part of the conversation: agent_state_changed 1",
        "1 call without a recorded result: a stand-in says so",
    )


@pytest.mark.parametrize("has_numbers", [pytest.param(True, id="by-cause"), pytest.param(False, id="by-order")])
def test_actions_without_the_models_response_are_calls_by_their_own_name(tmp_path: Path, has_numbers: bool) -> None:
    """In the form of the first versions, with the fields next to the action's name."""
    events: list[Json] = [
        {"id": 1, "action": "message", "content": "go", "wait_for_response": False, "action_risk": None},
        {"id": 2, "action": "run", "command": "ls", "thought": "Let me look.", "action_risk": None},
        {"id": 3, "cause": 2, "observation": "run", "content": "A", "extras": {}},
        {"id": 4, "action": "message", "content": "All done?", "wait_for_response": True, "action_risk": None},
        {"id": 5, "action": "message", "content": "yes", "wait_for_response": False, "action_risk": None},
        {"id": 6, "action": "finish", "outputs": {}, "thought": "", "action_risk": None},
    ]
    if not has_numbers:
        events = [{name: value for name, value in event.items() if name not in ("id", "cause")} for event in events]
    pairs = [events[:1], events[1:3], events[3:5], events[5:]]
    record: Json = {"instance_id": "i1", "history": events if has_numbers else pairs, "metrics": {}}
    session = read_one(write(tmp_path / "output.jsonl", record))
    assert session.id == "i1"
    assert shape(session) == [
        "user:text",
        "assistant:text,tool_use",
        "user:tool_result",
        "assistant:text",
        "user:text",
        "assistant:tool_use",
        "user:tool_result",
    ]
    assert_calls_are_answered(session.messages)
    assert blocks(session.messages[1])[1]["input"] == {"command": "ls"}
    assert blocks(session.messages[2])[0]["content"] == "A"


def test_each_line_of_an_evaluations_output_is_a_session(tmp_path: Path) -> None:
    history = [prompt(0, "go"), action(1, "c1", response("r1", "", "c1")), observation(2, "c1", 1)]
    path = write(tmp_path / "output.jsonl", {"history": history}, "{broken", {"history": history})
    sessions = read_sessions(path)
    assert [next(sessions).id, next(sessions).id] == ["output:1", "output:3"]
    with pytest.raises(ReplayError, match=r"output\.jsonl, line 2: not JSON: '\{broken'; mend the line or remove it"):
        next(sessions)


def test_a_condensation_says_what_was_kept(tmp_path: Path) -> None:
    condensed = {"action": "condensation", "args": {"forgotten_event_ids": [1, 2], "summary": "It was asked."}}
    events = [
        prompt(0, "go"),
        action(1, "c1", response("r1", "", "c1")),
        observation(2, "c1", 1),
        prompt(3, "on"),
        {"id": 4, "source": "agent", **condensed},
        action(5, "c2", response("r2", "", "c2")),
        observation(6, "c2", 5),
    ]
    session = read_one(save(tmp_path / "t.json", events))
    assert session.compactions == (RecordedCompaction(index=4, summary="It was asked."),)
    assert [(each.index, each.context_start) for each in session.calls] == [(1, 0), (4, 3)]


def test_the_events_of_a_delegate_are_left_out(tmp_path: Path) -> None:
    delegate = {"id": 1, "source": "agent", "action": "delegate", "args": {"agent": "Browser", "inputs": {}}}
    events = [
        prompt(0, "go"),
        delegate,
        prompt(2, "task of the delegate"),
        action(3, "c1", response("r1", "", "c1")),
        {"id": 4, "source": "agent", "observation": "delegate", "content": "found", "cause": 1, "extras": {}},
        {"id": 5, "source": "agent", "action": "message", "args": {"content": "Done."}},
        {"id": 6},
    ]
    session = read_one(save(tmp_path / "t.json", events))
    assert shape(session) == ["user:text", "assistant:tool_use", "user:tool_result", "assistant:text"]
    assert session.skipped == (
        "event 6: neither an action nor an observation",
        "no part of the conversation: event of a delegate 2",
    )


def test_a_logged_completion_is_a_request_with_its_answer(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
    ]
    path = save(
        tmp_path / "c.json", {"messages": messages, "response": response("r1", "Hi."), "kwargs": {"tools": [TOOL]}}
    )
    session = read_one(path)
    assert (session.format_name, session.tools) == ("OpenHands completion", (TOOL,))
    assert shape(session) == ["system:text", "user:text", "assistant:text"]
    assert [(each.index, each.usage.input_tokens) for each in session.calls] == [(2, 100)]


# -- the SDK's events


def sdk(kind: str, source: str, event_id: str, **more: object) -> Json:
    return {"id": event_id, "timestamp": "t", "kind": kind, "source": source, **more}


def sdk_message(source: str, role: str, words: str, **more: object) -> Json:
    message = {"role": role, "content": [{"type": "text", "text": words}], **more}
    return sdk("MessageEvent", source, f"m-{words}", llm_message=message)


def sdk_call(call_id: str, response_id: str, **more: object) -> Json:
    call = {"id": call_id, "name": "terminal", "arguments": '{"command":"ls"}', "origin": "completion"}
    return sdk("ActionEvent", "agent", f"a-{call_id}", thought=[], tool_call=call, llm_response_id=response_id, **more)


def sdk_result(call_id: str, content: object) -> Json:
    return sdk("ObservationEvent", "environment", f"o-{call_id}", tool_call_id=call_id, observation=content)


SDK_EVENTS = [
    sdk("SystemPromptEvent", "agent", "s", system_prompt={"type": "text", "text": "Be brief."}, tools=[]),
    sdk_message("user", "user", "go"),
    sdk_call("c1", "r1", thinking_blocks=[{"type": "thinking", "thinking": "hm", "signature": "sig"}]),
    sdk_call("c2", "r1"),
    sdk_call("c3", "r1"),
    sdk_result("c2", {"kind": "TerminalObservation", "content": [{"type": "text", "text": "B"}]}),
    sdk("AgentErrorEvent", "agent", "o-c1", tool_call_id="c1", error="no such tool"),
    sdk("UserRejectObservation", "environment", "o-c3", tool_call_id="c3", rejection_reason="no"),
    sdk("ConversationStateUpdateEvent", "environment", "u", key="stats", value={}),
    sdk("Condensation", "environment", "x", forgotten_event_ids=["a-c1", "a-c2"], summary="It was asked."),
    sdk_message("agent", "assistant", "Done.", reasoning_content="hm"),
]


def test_events_of_the_sdk_are_read(tmp_path: Path) -> None:
    session = read_one(save(tmp_path / "t.json", SDK_EVENTS))
    assert shape(session) == [
        "system:text",
        "user:text",
        "assistant:thinking,tool_use,tool_use,tool_use",
        "user:tool_result,tool_result,tool_result",
        "assistant:thinking,text",
    ]
    assert_calls_are_answered(session.messages)
    results = [(block["content"], block.get("is_error", False)) for block in blocks(session.messages[3])]
    assert results == [("no such tool", True), ([{"type": "text", "text": "B"}], False), ("no", True)]
    assert session.compactions == (RecordedCompaction(index=4, summary="It was asked."),)
    assert session.skipped == ("no part of the conversation: ConversationStateUpdateEvent 1",)


@pytest.mark.parametrize(
    "name",
    [pytest.param("event-{number:05}-abc.json", id="sdk"), pytest.param("{number}.json", id="application")],
)
@pytest.mark.parametrize("is_inner", [pytest.param(True, id="inner"), pytest.param(False, id="session")])
def test_a_sessions_folder_holds_an_event_in_each_file(tmp_path: Path, name: str, is_inner: bool) -> None:
    events = tmp_path / "conversation" / "events"
    events.mkdir(parents=True)
    for number, event in enumerate(SDK_EVENTS):
        save(events / name.format(number=number + 8), event)  # as text, two of them sort before "9"
    (events / name.format(number=3)).write_text("{broken")
    session = read_one(events if is_inner else events.parent)
    assert session.id == ("events" if is_inner else "conversation")
    assert shape(session) == shape(read_one(save(tmp_path / "list.json", SDK_EVENTS)))
    assert session.skipped[0] == f"{name.format(number=3)}: cannot be read"
