"""Small generated sessions of every readable kind: the same conversation in each agent's form."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.replay.samples import Json


class Record(NamedTuple):
    """One entry of a session file: a line, or a message of a document.

    Attributes:
        marks: Texts found only in this entry.
        is_answer: Whether it has output of a model.
    """

    value: Json
    marks: tuple[str, ...] = ()
    is_answer: bool = False


class Kind(NamedTuple):
    """The form of one agent's sessions.

    Attributes:
        turn: Returns the entries of one turn: a prompt, a tool call with its result, an answer.
        wrap: Returns the document around the entries; None for JSON Lines.
        header: Lines before the first turn.
    """

    name: str
    turn: Callable[[int], list[Record]]
    wrap: Callable[[Sequence[Json]], object] | None = None
    header: tuple[Json, ...] = ()

    def records(self, turns: int) -> list[Record]:
        return [*map(Record, self.header), *(record for number in range(turns) for record in self.turn(number))]

    def text(self, records: Sequence[Record], *, indent: int | None = None) -> str:
        values = [record.value for record in records]
        if self.wrap is None:
            return "".join(json.dumps(value) + "\n" for value in values)
        return json.dumps(self.wrap(values), indent=indent)


def marks(number: int) -> tuple[str, str, str, str]:
    """Return the texts in the prompt, the tool call, the result and the answer of a turn."""
    return f"<asked-{number}>", f"<called-{number}>", f"<found-{number}>", f"<said-{number}>"


def _as_list(values: Sequence[Json]) -> object:
    return list(values)


# -- chat messages, which several agents wrap in their own way


def _chat(number: int) -> list[Record]:
    asked, called, found, said = marks(number)
    function = {"name": "read", "arguments": json.dumps({"path": called})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        Record({"role": "user", "content": asked}, (asked,)),
        Record({"role": "assistant", "content": None, "tool_calls": [call]}, (called,), True),
        Record({"role": "tool", "tool_call_id": f"c{number}", "content": found}, (found,)),
        Record({"role": "assistant", "content": said}, (said,), True),
    ]


def _codex(number: int) -> list[Record]:
    asked, called, found, said = marks(number)

    def item(**payload: object) -> Json:
        return {"timestamp": "t", "type": "response_item", "payload": payload}

    arguments = json.dumps({"path": called})
    return [
        Record(item(type="message", role="user", content=[{"type": "input_text", "text": asked}]), (asked,)),
        Record(item(type="function_call", name="read", call_id=f"c{number}", arguments=arguments), (called,), True),
        Record(item(type="function_call_output", call_id=f"c{number}", output=found), (found,)),
        Record(item(type="message", role="assistant", content=[{"type": "output_text", "text": said}]), (said,), True),
    ]


def _gemini(number: int) -> list[Record]:
    asked, called, found, said = marks(number)
    response = {"functionResponse": {"id": f"c{number}", "name": "read", "response": {"output": found}}}
    call = {"id": f"c{number}", "name": "read", "args": {"path": called}, "status": "success", "result": [response]}
    tokens = {"input": 100, "output": 5, "cached": 10, "thoughts": 2, "tool": 0, "total": 107}
    return [
        Record({"id": f"u{number}", "type": "user", "content": [{"text": asked}]}, (asked,)),
        Record(
            {"id": f"a{number}", "type": "gemini", "content": "", "tokens": tokens, "toolCalls": [call]},
            (called, found),
            True,
        ),
        Record({"id": f"b{number}", "type": "gemini", "content": said, "tokens": tokens}, (said,), True),
    ]


def _contents(number: int) -> list[Record]:
    asked, called, found, said = marks(number)
    call = {"functionCall": {"name": "read", "args": {"path": called}}}
    response = {"functionResponse": {"name": "read", "response": {"output": found}}}
    return [
        Record({"role": "user", "parts": [{"text": asked}]}, (asked,)),
        Record({"role": "model", "parts": [call]}, (called,), True),
        Record({"role": "user", "parts": [response]}, (found,)),
        Record({"role": "model", "parts": [{"text": said}]}, (said,), True),
    ]


def _qwen(number: int) -> list[Record]:
    spoken = _contents(number)
    uuids = [f"q{number}-{place}" for place in range(len(spoken))]
    parents = [f"q{number - 1}-{len(spoken) - 1}" if number else None, *uuids]
    kinds = ("user", "assistant", "tool_result", "assistant")
    return [
        record._replace(
            value={"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "message": record.value}
        )
        for record, uuid, parent, kind in zip(spoken, uuids, parents[:-1], kinds, strict=True)
    ]


def _opencode(number: int) -> list[Record]:
    asked, called, found, said = marks(number)
    state = {"status": "completed", "input": {"path": called}, "output": found, "time": {}}
    tokens = {"input": 90, "output": 5, "reasoning": 1, "cache": {"read": 8, "write": 2}}
    parts = [
        {"type": "step-start"},
        {"type": "tool", "callID": f"c{number}", "tool": "read", "state": state},
        {"type": "step-finish", "tokens": tokens},
        {"type": "step-start"},
        {"type": "text", "text": said},
        {"type": "step-finish", "tokens": tokens},
    ]
    prompt = {"info": {"id": f"u{number}", "role": "user"}, "parts": [{"type": "text", "text": asked}]}
    answer = {"info": {"id": f"a{number}", "role": "assistant", "modelID": "m1"}, "parts": parts}
    return [Record(prompt, (asked,)), Record(answer, (called, found, said), True)]


def _openhands(number: int) -> list[Record]:
    asked, called, found, said = marks(number)

    def caused_by(message: Json) -> Json:
        usage = {"prompt_tokens": 100, "completion_tokens": 5}
        message = {"role": "assistant", **message}
        response = {"id": f"r{number}", "model": "m1", "choices": [{"message": message}], "usage": usage}
        return {"function_name": "read", "tool_call_id": f"c{number}", "model_response": response}

    first = 10 * number
    call = _chat(number)[1].value
    return [
        Record(
            {"id": first, "source": "user", "action": "message", "args": {"content": asked}},
            (asked,),
        ),
        Record(
            {"id": first + 1, "source": "agent", "action": "read", "args": {}, "tool_call_metadata": caused_by(call)},
            (called,),
            True,
        ),
        Record(
            {
                "id": first + 2,
                "source": "agent",
                "cause": first + 1,
                "observation": "read",
                "content": found,
                "tool_call_metadata": {"tool_call_id": f"c{number}"},
            },
            (found,),
        ),
        Record({"id": first + 3, "source": "agent", "action": "message", "args": {"content": said}}, (said,), True),
    ]


def _openhands_sdk(number: int) -> list[Record]:
    asked, called, found, said = marks(number)

    def message(source: str, role: str, words: str) -> Json:
        content = {"role": role, "content": [{"type": "text", "text": words}]}
        return {"id": f"e-{words}", "kind": "MessageEvent", "source": source, "llm_message": content}

    call = {"id": f"c{number}", "name": "read", "arguments": json.dumps({"path": called})}
    action = {
        "id": f"a{number}",
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [],
        "tool_call": call,
        "tool_call_id": f"c{number}",
        "llm_response_id": f"r{number}",
    }
    observation = {
        "id": f"o{number}",
        "kind": "ObservationEvent",
        "source": "environment",
        "tool_call_id": f"c{number}",
        "observation": {"kind": "ReadObservation", "content": [{"type": "text", "text": found}]},
    }
    return [
        Record(message("user", "user", asked), (asked,)),
        Record(action, (called,), True),
        Record(observation, (found,)),
        Record(message("agent", "assistant", said), (said,), True),
    ]


def _langchain(number: int) -> list[Record]:
    asked, called, found, said = marks(number)
    call = {"name": "read", "args": {"path": called}, "id": f"c{number}", "type": "tool_call"}
    usage = {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105}
    return [
        Record({"type": "human", "data": {"content": asked}}, (asked,)),
        Record({"type": "ai", "data": {"content": "", "tool_calls": [call], "usage_metadata": usage}}, (called,), True),
        Record({"type": "tool", "data": {"content": found, "tool_call_id": f"c{number}"}}, (found,)),
        Record({"type": "ai", "data": {"content": said, "tool_calls": [], "usage_metadata": usage}}, (said,), True),
    ]


def _dump(number: int) -> list[Record]:
    names = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    return [
        record._replace(
            value={
                "lc": 1,
                "type": "constructor",
                "id": ["langchain", "schema", "messages", names[record.value["type"]]],
                "kwargs": record.value["data"],
            }
        )
        for record in _langchain(number)
    ]


def _pydantic_ai(number: int) -> list[Record]:
    asked, called, found, said = marks(number)

    def request(**part: object) -> Json:
        return {"kind": "request", "parts": [part]}

    def response(**part: object) -> Json:
        usage = {"input_tokens": 100, "output_tokens": 5, "cache_read_tokens": 10}
        return {"kind": "response", "parts": [part], "usage": usage, "model_name": "m1"}

    returned = request(part_kind="tool-return", tool_name="read", content=found, tool_call_id=f"c{number}")
    call = response(part_kind="tool-call", tool_name="read", args={"path": called}, tool_call_id=f"c{number}")
    return [
        Record(request(part_kind="user-prompt", content=asked), (asked,)),
        Record(call, (called,), True),
        Record(returned, (found,)),
        Record(response(part_kind="text", content=said), (said,), True),
    ]


def _anthropic(number: int) -> list[Record]:
    asked, called, found, said = marks(number)
    call = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"path": called}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": found}
    return [
        Record({"role": "user", "content": asked}, (asked,)),
        Record({"role": "assistant", "content": [call]}, (called,), True),
        Record({"role": "user", "content": [result]}, (found,)),
        Record({"role": "assistant", "content": [{"type": "text", "text": said}]}, (said,), True),
    ]


def _claude_code(number: int) -> list[Record]:
    spoken = _anthropic(number)
    uuids = [f"k{number}-{place}" for place in range(len(spoken))]
    parents = [f"k{number - 1}-{len(spoken) - 1}" if number else None, *uuids]
    return [
        record._replace(
            value={
                "uuid": uuid,
                "parentUuid": parent,
                "sessionId": "s",
                "type": record.value["role"],
                "message": {**record.value, "id": uuid},
            }
        )
        for record, uuid, parent in zip(spoken, uuids, parents[:-1], strict=True)
    ]


def _pi(number: int) -> list[Record]:
    asked, called, found, said = marks(number)
    messages: list[tuple[Json, str]] = [
        ({"role": "user", "content": [{"type": "text", "text": asked}]}, asked),
        (
            {
                "role": "assistant",
                "content": [{"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {"path": called}}],
            },
            called,
        ),
        ({"role": "toolResult", "toolCallId": f"c{number}", "content": [{"type": "text", "text": found}]}, found),
        ({"role": "assistant", "content": [{"type": "text", "text": said}]}, said),
    ]
    return [
        Record({"type": "message", "message": message}, (mark,), message["role"] == "assistant")
        for message, mark in messages
    ]


def _lines(number: int) -> list[Record]:
    asked, called, found, said = marks(number)
    return [
        Record({"role": "user", "content": asked}, (asked,)),
        Record({"type": "tool_call", "function": {"name": "read"}, "arguments": {"path": called}}, (called,), True),
        Record({"type": "tool_result", "name": "read", "result": found}, (found,)),
        Record({"role": "assistant", "content": said}, (said,), True),
    ]


KINDS = (
    Kind("codex", _codex, header=({"type": "session_meta", "payload": {"id": "s"}},)),
    Kind("gemini-lines", _gemini, header=({"sessionId": "s", "projectHash": "p"},)),
    Kind("gemini", _gemini, lambda values: {"sessionId": "s", "projectHash": "p", "messages": list(values)}),
    Kind("gemini-checkpoint", _contents, lambda values: {"history": list(values)}),
    Kind("qwen", _qwen),
    Kind("opencode", _opencode, lambda values: {"info": {"id": "s"}, "messages": list(values)}),
    Kind("openhands-lines", _openhands),
    Kind("openhands", _openhands, _as_list),
    Kind("openhands-sdk", _openhands_sdk, _as_list),
    Kind("mini-swe-agent", _chat, lambda values: {"info": {"mini_version": "2.2"}, "messages": list(values)}),
    Kind("langchain-lines", _langchain),
    Kind("langchain", _langchain, _as_list),
    Kind("langchain-dumpd", _dump, _as_list),
    Kind("pydantic-ai", _pydantic_ai, _as_list),
    Kind("openai", _chat, _as_list),
    Kind("anthropic", _anthropic, lambda values: {"system": "s", "messages": list(values)}),
    Kind("claude-code", _claude_code),
    Kind("pi", _pi, header=({"type": "session", "id": "p1", "cwd": "/x"},)),
    Kind("message-lines", _lines),
)
