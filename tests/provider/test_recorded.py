"""Recorded conversations as scripts, and the script's tools."""

from itertools import dropwhile
from typing import Any

import pytest

from compaction_hooks.testing import Answer, Call, Script, Turn, long_script, tools_of
from tests.data import needs_data, sessions
from tests.provider.counting import count, pieces_of
from tests.provider.recorded import script_of


def call(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(text: str | None, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {})}


USER = {"role": "user", "content": "Port it."}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "text of the file"}


@pytest.mark.full
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


# -- made-up sessions and their tools


def test_a_made_up_session_is_the_same_every_time_and_as_long_as_said() -> None:
    script = long_script(3, steps=4, text_chars=2_000)
    assert script == long_script(3, steps=4, text_chars=2_000)
    assert script.turns[0].answers[-1].text == "All parts of task 0 of ledger are done."
    assert len(script.turns) == 3
    texts = [result for _, result in script.calls] + [str(one.arguments.get("text", "")) for one, _ in script.calls]
    assert sorted(set(map(len, filter(None, texts)))) == [7, 8, 2_000]
    assert 5_000 < count(pieces_of(None, "", [{"role": "user", "content": "\n".join(texts)}])) < 12_000


def test_tools_return_the_result_of_their_arguments_in_any_order() -> None:
    first, second = Call("read", {"path": "a", "line": 1}), Call("read", {"path": "b"})
    turn = Turn("Go.", (Answer(calls=(first, second, first)), Answer("Done.")), ("a, first", "b", "a, again"))
    (tool,) = tools_of(Script(turns=(turn,)))
    assert tool.parameters == {"type": "object", "properties": {"path": {"type": "string"}, "line": {}}}
    assert tool.run({"path": "b"}) == "b"
    assert [tool.run({"line": 1, "path": "a"}) for _ in range(3)] == ["a, first", "a, again", "(not in the script)"]
    assert len(tool.runs) == 4
