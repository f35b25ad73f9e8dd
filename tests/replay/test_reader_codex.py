"""Codex's rollouts: items in envelopes, in the order of events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compaction_hooks.messages import Usage
from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import RecordedCompaction
from tests.replay.samples import Json, Read, assert_calls_are_answered, blocks, read_one, shape, write

HEADER = {"type": "session_meta", "payload": {"id": "s1", "base_instructions": {"text": "You are Codex."}}}
TURN = {"type": "turn_context", "payload": {"model": "gpt-x"}}


def item(kind: str, **payload: object) -> Json:
    return {"timestamp": "t", "type": "response_item", "payload": {"type": kind, **payload}}


def event(kind: str, **payload: object) -> Json:
    return {"timestamp": "t", "type": "event_msg", "payload": {"type": kind, **payload}}


def user(words: str) -> Json:
    return item("message", role="user", content=[{"type": "input_text", "text": words}])


def answer(words: str) -> Json:
    return item("message", role="assistant", content=[{"type": "output_text", "text": words}])


def call(call_id: str, **more: object) -> Json:
    return item("function_call", name="shell", call_id=call_id, arguments='{"command":["ls"]}', **more)


def output(call_id: str, content: object = "ok") -> Json:
    return item("function_call_output", call_id=call_id, output=content)


def token_count(tokens: int, total: int = 0, *, cached: int = 0) -> Json:
    last = {"input_tokens": tokens, "cached_input_tokens": cached, "output_tokens": 5}
    info = {"last_token_usage": last, "total_token_usage": {"input_tokens": total or tokens}}
    return event("token_count", info=info)


def test_what_is_logged_item_by_item_becomes_whole_messages(read: Read) -> None:
    session = read(
        HEADER,
        TURN,
        event("user_message", message="look"),
        user("look"),
        item("message", role="developer", content=[{"type": "input_text", "text": "Be brief."}]),
        item("reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="sealed"),
        item("reasoning", summary=[], content=None, encrypted_content="sealed"),
        answer("Looking."),
        call("c1"),
        item("custom_tool_call", name="apply_patch", call_id="c2", input="*** Begin Patch"),
        item("local_shell_call", call_id="c3", action={"type": "exec", "command": ["ls"]}),
        output("c2"),
        output("c1"),
        output("c3"),
        item("web_search_call", id="w1", action={"type": "search", "query": "q"}),
        answer("Done."),
        item("ghost_snapshot", ghost_commit={}),
    )
    assert (session.id, session.format_name, session.model) == ("s1", "Codex rollout", "gpt-x")
    assert session.system == "You are Codex."
    assert shape(session) == [
        "user:text",
        "system:text",
        "assistant:thinking,redacted_thinking,text,tool_use,tool_use,tool_use",
        "user:tool_result,tool_result,tool_result",
        "assistant:web_search_call,text",
    ]
    assert_calls_are_answered(session.messages)
    asked = [block["input"] for block in blocks(session.messages[2]) if block["type"] == "tool_use"]
    assert asked == [
        {"command": ["ls"]},
        {"arguments": "*** Begin Patch"},
        {"type": "exec", "command": ["ls"]},
    ]
    assert blocks(session.messages[2])[0] == {"type": "thinking", "thinking": "hm", "signature": "sealed"}
    assert session.skipped == ("no part of the conversation: user_message 1, ghost_snapshot (empty or unknown) 1",)


@pytest.mark.parametrize(
    ("said", "content"),
    [
        pytest.param("plain", "plain", id="text"),
        pytest.param(
            '{"output":"x","metadata":{"exit_code":0}}', '{"output":"x","metadata":{"exit_code":0}}', id="json"
        ),
        pytest.param([{"type": "input_text", "text": "a"}], [{"type": "text", "text": "a"}], id="blocks"),
        pytest.param({"type": "input_text", "text": "a"}, [{"type": "text", "text": "a"}], id="one-block"),
        pytest.param({"content": "a", "success": False}, "a", id="with-success"),
        pytest.param({"stdout": "a"}, '{"stdout":"a"}', id="object"),
        pytest.param(None, "", id="nothing"),
        pytest.param(
            [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}],
            id="image",
        ),
    ],
)
def test_results_come_in_several_shapes(tmp_path: Path, said: object, content: object) -> None:
    session = read_one(write(tmp_path / "r.jsonl", HEADER, user("go"), call("c1"), output("c1", said)))
    (block,) = blocks(session.messages[2])
    assert block["content"] == content
    assert block.get("is_error", False) is (isinstance(said, dict) and said.get("success") is False)


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(("first", "counted 1", "result", "second", "counted 2"), id="after-the-answer"),
        pytest.param(("counted 1", "first", "result", "counted 2", "second"), id="before-the-answer"),
        pytest.param(("first", "result", "counted 1", "counted 1", "second", "counted 2"), id="repeated"),
    ],
)
def test_usage_goes_to_the_answer_it_was_counted_for(tmp_path: Path, order: tuple[str, ...]) -> None:
    """OpenAI's input includes the cached part. Versions log the count at different places."""
    lines = {
        "first": call("c1"),
        "result": output("c1"),
        "second": answer("Done."),
        "counted 1": token_count(100, cached=40),
        "counted 2": token_count(130, 230),
    }
    session = read_one(write(tmp_path / "r.jsonl", HEADER, user("go"), *(lines[name] for name in order)))
    assert [(each.index, each.usage) for each in session.calls] == [
        (1, Usage(input_tokens=100, output_tokens=5, cache_read_tokens=40)),
        (3, Usage(input_tokens=130, output_tokens=5)),
    ]


def test_a_count_whose_answer_was_lost_goes_to_no_other_turn(tmp_path: Path) -> None:
    lines = (user("one"), answer("1"), token_count(100), token_count(130, 230), user("two"), answer("2"))
    session = read_one(write(tmp_path / "r.jsonl", HEADER, *lines))
    assert [(each.index, each.usage.input_tokens) for each in session.calls] == [(1, 100)]


def test_where_only_sums_are_logged_one_call_is_the_difference(tmp_path: Path) -> None:
    def total(tokens: int) -> Json:
        return event("token_count", info={"total_token_usage": {"input_tokens": tokens, "output_tokens": tokens // 10}})

    lines = (HEADER, user("go"), call("c1"), total(100), output("c1"), answer("Done."), total(230))
    session = read_one(write(tmp_path / "r.jsonl", *lines, event("token_count", info=None)))
    assert [(each.usage.input_tokens, each.usage.output_tokens) for each in session.calls] == [(100, 10), (130, 13)]


def test_a_sum_over_several_calls_is_no_calls_usage(tmp_path: Path) -> None:
    """The first sum in a log that begins in the middle includes earlier calls."""
    total = event("token_count", info={"total_token_usage": {"input_tokens": 9_000}})
    session = read_one(write(tmp_path / "r.jsonl", user("go"), call("c1"), output("c1"), answer("Done."), total))
    assert session.calls == ()


def test_a_compaction_starts_the_context_anew(read: Read) -> None:
    session = read(
        HEADER,
        user("one"),
        answer("1"),
        {"type": "compacted", "payload": {"message": "Said 1.", "replacement_history": [user("one")["payload"]]}},
        user("two"),
        answer("2"),
        token_count(70),
    )
    assert session.compactions == (RecordedCompaction(index=2, summary="Said 1."),)
    assert [(each.index, each.context_start) for each in session.calls] == [(3, 2)]


def test_a_compaction_in_the_middle_of_a_turn_ends_the_answer_before_it(read: Read) -> None:
    """The count of the compaction's own call does not belong to an answer."""
    session = read(
        HEADER,
        user("one"),
        answer("1"),
        token_count(100),
        token_count(110, 210),
        {"type": "compacted", "payload": {"message": "Said 1."}},
        answer("2"),
        token_count(70, 280),
    )
    assert shape(session) == ["user:text", "assistant:text", "assistant:text"]
    assert [(each.index, each.usage.input_tokens, each.context_start) for each in session.calls] == [
        (1, 100, 0),
        (2, 70, 2),
    ]


def test_turns_that_were_taken_back_are_left_out(read: Read) -> None:
    session = read(
        HEADER,
        user("one"),
        answer("1"),
        user("two"),
        answer("2"),
        user("<environment_context>now</environment_context>"),
        event("thread_rolled_back", num_turns=1),
        user("three"),
        answer("3"),
    )
    assert [blocks(message)[0]["text"] for message in session.messages] == ["one", "1", "three", "3"]
    assert session.skipped == ("line 7: took back 3 lines before it",)


def test_a_fork_is_one_session_and_says_what_it_was_forked_from(tmp_path: Path) -> None:
    parent = {"type": "session_meta", "payload": {"id": "s0"}}
    session = read_one(write(tmp_path / "r.jsonl", HEADER, parent, user("one"), answer("1")))
    assert session.id == "s1"
    assert session.skipped == ("line 2: the header of a session this one was forked or resumed from",)


def test_the_session_of_a_sub_agent_says_so(tmp_path: Path) -> None:
    header = {"type": "session_meta", "payload": {"id": "s2", "source": {"subagent": "review"}}}
    session = read_one(write(tmp_path / "r.jsonl", header, user("review"), answer("fine")))
    assert session.skipped == ("line 1: this is the session of a sub-agent",)


def test_items_without_envelopes_are_read(tmp_path: Path) -> None:
    """As logged until September 2025."""
    items = [line["payload"] for line in (user("go"), call("c1"), output("c1"), answer("Done."))]
    header = {"id": "s3", "timestamp": "t", "instructions": None}
    session = read_one(write(tmp_path / "r.jsonl", header, {"record_type": "state"}, *items))
    assert (session.id, session.format_name) == ("s3", "Codex rollout")
    assert shape(session) == ["user:text", "assistant:tool_use", "user:tool_result", "assistant:text"]


def test_the_first_versions_single_object_is_read(tmp_path: Path) -> None:
    items = [line["payload"] for line in (user("go"), call("c1"), output("c1"), answer("Done."), output("c9"))]
    path = tmp_path / "rollout.json"
    path.write_text(json.dumps({"session": {"id": "s4"}, "items": items}, indent=2))
    session = read_one(path)
    assert session.id == "s4"
    assert shape(session) == ["user:text", "assistant:tool_use", "user:tool_result", "assistant:text"]
    assert session.skipped == ("item 4: a result without its call",)


def test_calls_without_ids_are_answered_in_their_order(tmp_path: Path) -> None:
    session = read_one(
        write(
            tmp_path / "r.jsonl",
            HEADER,
            user("go"),
            item("tool_call", function={"name": "run"}, arguments={"command": "a"}),
            item("tool_result", name="run", result={"stdout": "x"}),
            answer("Done."),
        )
    )
    assert_calls_are_answered(session.messages)
    assert blocks(session.messages[2])[0]["content"] == '{"stdout":"x"}'


def test_what_is_wrong_with_calls_and_results_is_named_with_its_lines(tmp_path: Path) -> None:
    lines = (HEADER, user("go"), call("c1"), call("c1"), output("c1"), output("c1"), output("c7"), output("c8"))
    session = read_one(write(tmp_path / "r.jsonl", *lines, "{broken", call("c2")))
    assert_calls_are_answered(session.messages)
    assert session.skipped == (
        "line 9: not JSON: '{broken'",
        "a call that stands there twice",
        "line 6: a second result of one call",
        "lines 7, 8: a result without its call",
        "1 call without a recorded result: a stand-in says so",
    )


def test_a_rollout_without_an_answer_is_named_as_one(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"no model has answered in it \(Codex\)"):
        list(read_sessions(write(tmp_path / "r.jsonl", HEADER, event("turn_aborted"))))


def test_a_compressed_rollout_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd....")
    with pytest.raises(ReplayError, match=r"is compressed with zstd; decompress it first: zstd -d .*\.zst"):
        list(read_sessions(path))
