"""`check_format` finds each way in which a format can break its contract."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.testing import check_format

CALL: dict[str, Any] = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
SAMPLES: list[dict[str, Any]] = [
    {"role": "user", "content": "Port it.", "x_ticket": 7},
    {"role": "assistant", "content": "Reading.", "tool_calls": [CALL, {**CALL, "id": "b"}]},
    {"role": "tool", "tool_call_id": "a", "content": "ok"},
]


class Broken:
    """The chat format with one method replaced."""

    def __init__(self, name: str = "broken", **methods: Callable[..., Any] | None) -> None:
        self.name = name
        whole = OpenAIChatFormat()
        for method in ("read", "take", "rewrite", "summary", "request", "answer", "drop", "rename"):
            setattr(self, method, methods.get(method, getattr(whole, method)))

    read: Any
    take: Any
    rewrite: Any
    summary: Any
    request: Any
    answer: Any
    drop: Any
    rename: Any


DROP = OpenAIChatFormat().drop
RENAME = OpenAIChatFormat().rename
READ = OpenAIChatFormat().read
REWRITE = OpenAIChatFormat().rewrite


def read_and_change(message: dict[str, Any]) -> Sequence[Message]:
    message["seen"] = True
    return READ(message)


def read_at_random(message: Mapping[str, object]) -> Sequence[Message]:
    return (*READ(message), Message(role="user", parts=(Text(str(random.random())),)))


def read_identities(message: Mapping[str, object]) -> Sequence[Message]:
    return (Message(role="user", parts=(Text(str(id(message))), ToolCall("a", "f", "{}"), ToolResult("a", ""))),)


def read_key_types(message: Mapping[object, object]) -> Sequence[Message]:
    role = READ({"role": message["role"]})[0].role
    return (Message(role=role, parts=(Text(str(sorted({type(key).__name__ for key in message}))),)),)


def read_role_as(old: str, new: Any) -> Callable[[Mapping[str, object]], Sequence[Message]]:
    return lambda message: [
        Message(role=new if piece.role == old else piece.role, parts=piece.parts) for piece in READ(message)
    ]


def rewrite_all(message: dict[str, Any], texts: Mapping[tuple[int, int], str]) -> Mapping[str, object]:
    made = dict(REWRITE(message, texts))
    if message["role"] == "assistant":
        made["content"] = "changed too"
    return made


def rewrite_in_place(message: dict[str, Any], texts: Mapping[tuple[int, int], str]) -> Mapping[str, object]:
    message.update(REWRITE(message, texts))
    return message


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        pytest.param(Broken(name=""), "name must be", id="no-name"),
        pytest.param(Broken(read=lambda _: ()), "samples must hold", id="reads-nothing"),
        pytest.param(Broken(read=read_and_change), "was changed", id="read-mutates"),
        pytest.param(Broken(read=read_at_random), "differs from one call", id="read-is-random"),
        pytest.param(Broken(read=read_identities), "equal copy differs", id="read-depends-on-identity"),
        pytest.param(Broken(read=read_role_as("assistant", "user")), "only the assistant calls", id="call-of-a-user"),
        pytest.param(Broken(read=read_role_as("tool", "user")), "and only they", id="result-of-a-user"),
        pytest.param(Broken(read=read_role_as("assistant", "tool")), "and only they", id="call-of-a-tool"),
        pytest.param(
            Broken(take=lambda message, _: {k: v for k, v in message.items() if k != "content"}),
            "reads differently",
            id="take-loses-content",
        ),
        pytest.param(
            Broken(take=lambda message, _: {"role": message["role"], "content": message["content"]}),
            r"lost or copied the fields|reads differently",
            id="take-loses-unknown-fields",
        ),
        pytest.param(
            Broken(take=lambda message, _: deepcopy({**message, "content": [message["content"]], "x_ticket": [7]})),
            "lost or copied the fields",
            id="take-copies",
        ),
        pytest.param(Broken(rewrite=lambda message, _: message), "instead of", id="rewrite-does-nothing"),
        pytest.param(
            Broken(rewrite=lambda message, texts: message if message["role"] == "user" else REWRITE(message, texts)),
            "sample 0 .*instead of",
            id="rewrite-leaves-texts",
        ),
        pytest.param(
            Broken(rewrite=lambda message, texts: message if (0, 1) in texts else REWRITE(message, texts)),
            "gave the arguments",
            id="rewrite-leaves-arguments",
        ),
        pytest.param(Broken(rewrite=rewrite_all), "instead of", id="rewrite-changes-more"),
        pytest.param(Broken(rewrite=rewrite_in_place), "was changed", id="rewrite-mutates"),
        pytest.param(
            Broken(
                rewrite=lambda message, texts: {k: v for k, v in REWRITE(message, texts).items() if k != "x_ticket"}
            ),
            "lost the fields",
            id="rewrite-loses-unknown-fields",
        ),
        pytest.param(
            Broken(rewrite=lambda message, _: {"role": message["role"], "content": "hi"}),
            "number of pieces or parts|gave the arguments|instead of",
            id="rewrite-loses-the-call",
        ),
        pytest.param(
            Broken(summary=lambda text: {"role": "user", "content": text.strip()}),
            "exactly this text",
            id="summary-strips",
        ),
        pytest.param(
            Broken(summary=lambda text: {"role": "system", "content": text}),
            "one user message",
            id="summary-of-a-system",
        ),
        pytest.param(Broken(request=None), "has only answer, drop, rename", id="half-of-the-optional-methods"),
        pytest.param(
            Broken(request=lambda text: {"role": "user", "content": text, "is_compact_summary": True}),
            "and no summary",
            id="request-passes-for-a-summary",
        ),
        pytest.param(
            Broken(answer=lambda message, call, text: {"role": "tool", "tool_call_id": "z", "content": text}),
            "one result of the call 'a'",
            id="answer-of-another-call",
        ),
        pytest.param(
            Broken(answer=lambda message, call, text: {"role": "user", "content": text}),
            "one result of the call 'a'",
            id="answer-of-a-user",
        ),
        pytest.param(Broken(drop=lambda message, parts: message), "drop.*instead of", id="drop-does-nothing"),
        pytest.param(
            Broken(drop=lambda message, parts: {**DROP(message, parts), "tool_calls": None}),
            "drop.*instead of",
            id="drop-takes-more",
        ),
        pytest.param(
            Broken(drop=lambda message, parts: deepcopy(DROP(message, parts))), "drop.*copied parts", id="drop-copies"
        ),
        pytest.param(Broken(rename=lambda message, ids: message), "rename.*instead of", id="rename-does-nothing"),
        pytest.param(
            Broken(rename=lambda message, ids: {**RENAME(message, ids), "content": "hi"}),
            "rename.*instead of",
            id="rename-changes-more",
        ),
        pytest.param(
            Broken(rename=lambda message, ids: message.update(RENAME(message, ids)) or message),
            "instead of|was changed",
            id="rename-mutates",
        ),
    ],
)
def test_a_broken_format_is_found(broken: Any, says: str) -> None:
    samples = deepcopy(SAMPLES)
    samples[2]["x_ticket"] = 8
    with pytest.raises(AssertionError, match=says):
        check_format(broken, samples)


def read_parts(*parts: Any, role: Any = "user") -> Callable[[object], Sequence[Message]]:
    return lambda _: [Message(role=role, parts=parts)]


def read_one_piece(message: Mapping[str, object]) -> Message:
    return READ(message)[0]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        pytest.param(OpenAIChatFormat, r"not the class OpenAIChatFormat: OpenAIChatFormat\(\)", id="a-class"),
        pytest.param(object(), "object is no MessageFormat: it lacks read, take, rewrite, summary", id="no-format"),
        pytest.param(Broken(name=7), "name must be", id="a-number-for-a-name"),  # type: ignore[arg-type]
        pytest.param(
            Broken(read=read_one_piece),
            r"sample 0 .*read\(\) must give a sequence of Message.*not Message",
            id="one-message",
        ),
        pytest.param(
            Broken(read=lambda _: None), r"sample 0 .*read\(\) must give a sequence.*not NoneType", id="nothing"
        ),
        pytest.param(
            Broken(read=lambda _: ["hi"]), "sample 0 .*pieces of type Message, not str", id="texts-for-pieces"
        ),
        pytest.param(
            Broken(read=read_parts("hi")), "sample 0 .*Message.parts must hold Text, .*not str", id="texts-for-parts"
        ),
        pytest.param(
            Broken(read=lambda _: [Message(role="user", parts="hi")]),  # type: ignore[arg-type]
            "sample 0 .*Message.parts must be a tuple of parts, not str",
            id="a-text-for-the-parts",
        ),
        pytest.param(
            Broken(read=read_parts(ToolCall("a", "f", {}), role="assistant")),  # type: ignore[arg-type]
            "sample 0 .*ToolCall.arguments must be a str, not dict",
            id="arguments-as-a-dict",
        ),
        pytest.param(
            Broken(read=read_parts(ToolResult("a", "ok", media=("x",)), role="tool")),  # type: ignore[arg-type]
            "sample 0 .*ToolResult.media must hold Media, not str",
            id="texts-for-media",
        ),
        pytest.param(
            Broken(read=read_parts(role="bot")), "sample 0 .*the role 'bot': it must be one of system, user,", id="role"
        ),
        pytest.param(
            Broken(read=lambda message: message["no"]), r"sample 0 .*read\(\) raised KeyError: 'no'", id="read"
        ),
        pytest.param(
            Broken(summary=lambda text: text),
            r"summary\(.*must give a message of your framework that read\(\) takes: read\(\) raised FormatError",
            id="a-text-for-a-summary",
        ),
        pytest.param(
            Broken(request=lambda text: text), r"request\(.*must give a message.*FormatError", id="a-text-for-a-request"
        ),
        pytest.param(Broken(take=lambda message: message), r"sample 0 .*take\(\) raised TypeError", id="take-of-one"),
        pytest.param(Broken(rewrite=lambda message, _: None), "sample 0 .*FormatError", id="rewrite-gives-nothing"),
        pytest.param(Broken(answer=lambda *_: "no"), "sample 1 .*FormatError", id="answer-gives-a-text"),
    ],
)
def test_a_wrong_type_from_a_method_is_named(broken: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_format(broken, deepcopy(SAMPLES))


def test_a_reading_that_json_changes_is_found() -> None:
    def read(message: dict[Any, Any]) -> Sequence[Message]:
        return read_key_types(message) if 7 in message or "7" in message else READ(message)

    samples: list[dict[Any, Any]] = [*deepcopy(SAMPLES), {"role": "user", "content": "hi", 7: "seven"}]
    with pytest.raises(AssertionError, match="went through JSON"):
        check_format(Broken(read=read), samples)


@pytest.mark.parametrize("missing", [0, 1, 2], ids=["user-text", "call", "result"])
def test_too_few_samples_are_refused(missing: int) -> None:
    samples = [sample for index, sample in enumerate(SAMPLES) if index != missing]
    with pytest.raises(AssertionError, match="samples must hold a user text, a tool call and a tool result"):
        check_format(OpenAIChatFormat(), samples)


@dataclass
class Note:
    """A message of an invented framework: an object, not a dict."""

    author: str
    words: str
    call: str = ""


class NoteFormat:
    """One note is one piece; `call` is the id of a call or of the call that is answered."""

    name = "notes"

    def read(self, message: Note, /) -> list[Message]:
        if message.author == "tool":
            return [Message(role="tool", parts=(ToolResult(message.call, message.words),))]
        if message.call:
            return [Message(role="assistant", parts=(ToolCall(message.call, "run", message.words),))]
        return [Message(role="user", parts=(Text(message.words),))]

    def summary(self, text: str, /) -> Note:
        return Note("user", text)

    def take(self, message: Note, pieces: Sequence[int], /) -> Note:
        return message

    def rewrite(self, message: Note, texts: Mapping[tuple[int, int], str], /) -> Note:
        return replace(message, words=texts[(0, 0)])


NOTES = [Note("user", "Port it."), Note("assistant", "{}", "a"), Note("tool", "ok", "a")]


def test_messages_may_be_objects() -> None:
    check_format(NoteFormat(), NOTES)


def test_arguments_that_are_no_json_are_found() -> None:
    class Careless(NoteFormat):
        def rewrite(self, message: Note, texts: Mapping[tuple[int, int], str], /) -> Note:
            return replace(message, words="cut" if message.author == "assistant" else texts[(0, 0)])

    with pytest.raises(AssertionError, match="gave the arguments 'cut'"):
        check_format(Careless(), NOTES)


def test_a_value_that_json_cannot_hold_is_no_breach() -> None:
    check_format(OpenAIChatFormat(), [*SAMPLES, {"role": "user", "content": "hi", "x_tags": {"a"}}])


def test_the_message_names_the_sample() -> None:
    with pytest.raises(AssertionError, match=r"sample 1 \(\{'role': 'assistant'"):
        check_format(Broken(rewrite=rewrite_all), SAMPLES)
