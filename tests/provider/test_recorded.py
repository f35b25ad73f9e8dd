"""Recorded conversations as scripts, and the script's tools."""

from __future__ import annotations

from itertools import dropwhile
from typing import Any

import pytest

from compaction_hooks.testing import Answer, Call, Script, Turn, long_script, tools_of
from tests.data import needs_data, sessions
from tests.provider.counting import count, pieces_of
from tests.provider.recorded import recorded_scripts, script_of


def call(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(text: str | None, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {})}


def turns_of(*messages: dict[str, Any]) -> tuple[Turn, ...]:
    return script_of({"messages": messages}).turns


USER = {"role": "user", "content": "Mend it."}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "text of the file"}


def test_a_turn_is_what_follows_from_one_thing_the_user_says() -> None:
    turns = turns_of(
        USER, assistant(None, call("read", '{"path": "a"}')), RESULT, assistant("Done."), USER, assistant("No.")
    )
    reading = Answer(calls=(Call("read", {"path": "a"}),))
    assert turns == (
        Turn("Mend it.", (reading, Answer("Done.")), ("text of the file",)),
        Turn("Mend it.", (Answer("No."),)),
    )


def test_system_prompts_become_the_scripts() -> None:
    script = script_of({"messages": [{"role": "system", "content": "Be brief."}, USER, assistant("Done.")]})
    assert (script.system, script.answers) == ("Be brief.", (Answer("Done."),))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [USER, USER, assistant("Done.")], [Turn("Mend it.\n\nMend it.", (Answer("Done."),))], id="users in a row"
        ),
        pytest.param(
            [assistant("Hello!"), USER, assistant("Done.")], [Turn("Mend it.", (Answer("Done."),))], id="greeting"
        ),
        pytest.param([USER, assistant("Done."), USER], [Turn("Mend it.", (Answer("Done."),))], id="no answer"),
        pytest.param(
            [USER, assistant(None, call("read")), RESULT],
            [Turn("Mend it.", (Answer(calls=(Call("read", {}),)), Answer("(interrupted)")), ("text of the file",))],
            id="broken off",
        ),
        pytest.param(
            [USER, assistant("First"), assistant("then", call("read")), RESULT, assistant("Done.")],
            [Turn("Mend it.", (Answer("First\n\nthen", (Call("read", {}),)), Answer("Done.")), ("text of the file",))],
            id="text and call apart",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "See?"}]}, assistant("Yes.")],
            [Turn("See?", (Answer("Yes."),))],
            id="image",
        ),
        pytest.param(
            [USER, assistant(None, call("run", "ls -l")), RESULT, assistant("Done.")],
            [
                Turn(
                    "Mend it.",
                    (Answer(calls=(Call("run", {"text": "ls -l"}),)), Answer("Done.")),
                    ("text of the file",),
                )
            ],
            id="arguments that are no JSON",
        ),
    ],
)
def test_what_a_loop_cannot_replay_is_put_right(messages: list[dict[str, Any]], expected: list[Turn]) -> None:
    assert list(turns_of(*messages)) == expected


@needs_data
def test_every_recorded_conversation_is_a_script() -> None:
    scripts = [(session, script_of(session)) for session in sessions()]
    assert len(scripts) > 300
    for session, script in scripts:
        messages = dropwhile(lambda message: message["role"] != "user", session["messages"])
        calls = sum(len(message.get("tool_calls") or ()) for message in messages)
        assert len(script.calls) == calls, session["id"]
        for turn in script.turns:
            assert all(answer.calls for answer in turn.answers[:-1]), session["id"]
            assert not turn.answers[-1].calls, session["id"]


@needs_data
def test_recorded_scripts_can_be_chosen_by_size() -> None:
    names = [name for name, _ in recorded_scripts("openhands*", minimum_tokens=20_000)]
    assert 0 < len(names) < len(list(recorded_scripts("openhands*")))


# -- made-up sessions and their tools


def test_a_made_up_session_is_the_same_every_time_and_as_long_as_said() -> None:
    script = long_script(3, steps=4, text_chars=2_000)
    assert script == long_script(3, steps=4, text_chars=2_000)
    assert script.turns[0].answers[-1].text == "All parts of task 0 of ledger are done."
    assert len(script.turns) == 3
    texts = [result for _, result in script.calls] + [str(one.arguments.get("text", "")) for one, _ in script.calls]
    assert sorted(set(map(len, filter(None, texts)))) == [7, 8, 2_000]
    assert 5_000 < count(pieces_of(None, "", [{"role": "user", "content": "\n".join(texts)}])) < 12_000


def test_every_text_of_a_made_up_session_names_its_topic() -> None:
    script = long_script(10, topic="harbour")
    assert all("harbour" in turn.user for turn in script.turns)
    assert "ledger" not in repr(script)
    assert "garden" not in repr(script)


def test_tools_return_the_result_of_their_arguments_in_any_order() -> None:
    first, second = Call("read", {"path": "a", "line": 1}), Call("read", {"path": "b"})
    turn = Turn("Go.", (Answer(calls=(first, second, first)), Answer("Done.")), ("a, first", "b", "a, again"))
    (tool,) = tools_of(Script(turns=(turn,)))
    assert tool.parameters == {"type": "object", "properties": {"path": {"type": "string"}, "line": {}}}
    assert tool.run({"path": "b"}) == "b"
    assert [tool.run({"line": 1, "path": "a"}) for _ in range(3)] == ["a, first", "a, again", "(not in the script)"]
    assert len(tool.runs) == 4
