"""`check_format` finds each way in which a format can break its contract."""

import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.testing import check_format
from tests.cases import folded

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


@folded(
    "broken, says",
    {
        "no name": (Broken(name=""), "name must be"),
        "reads nothing": (Broken(read=lambda _: ()), "samples must hold"),
        "read mutates": (Broken(read=read_and_change), "was changed"),
        "read is random": (Broken(read=read_at_random), "differs from one call"),
        "read depends on identity": (Broken(read=read_identities), "equal copy differs"),
        "call of a user": (Broken(read=read_role_as("assistant", "user")), "only the assistant calls"),
        "result of a user": (Broken(read=read_role_as("tool", "user")), "and only they"),
        "call of a tool": (Broken(read=read_role_as("assistant", "tool")), "and only they"),
        "take loses content": (
            Broken(take=lambda message, _: {k: v for k, v in message.items() if k != "content"}),
            "reads differently",
        ),
        "take loses unknown fields": (
            Broken(take=lambda message, _: {"role": message["role"], "content": message["content"]}),
            r"lost or copied the fields|reads differently",
        ),
        "take copies": (
            Broken(take=lambda message, _: deepcopy({**message, "content": [message["content"]], "x_ticket": [7]})),
            "lost or copied the fields",
        ),
        "rewrite does nothing": (Broken(rewrite=lambda message, _: message), "instead of"),
        "rewrite leaves texts": (
            Broken(rewrite=lambda message, texts: message if message["role"] == "user" else REWRITE(message, texts)),
            "sample 0 .*instead of",
        ),
        "rewrite leaves arguments": (
            Broken(rewrite=lambda message, texts: message if (0, 1) in texts else REWRITE(message, texts)),
            "gave the arguments",
        ),
        "rewrite changes more": (Broken(rewrite=rewrite_all), "instead of"),
        "rewrite mutates": (Broken(rewrite=rewrite_in_place), "was changed"),
        "rewrite loses unknown fields": (
            Broken(
                rewrite=lambda message, texts: {k: v for k, v in REWRITE(message, texts).items() if k != "x_ticket"}
            ),
            "lost the fields",
        ),
        "rewrite loses the call": (
            Broken(rewrite=lambda message, _: {"role": message["role"], "content": "hi"}),
            "number of pieces or parts|gave the arguments|instead of",
        ),
        "summary strips": (Broken(summary=lambda text: {"role": "user", "content": text.strip()}), "exactly this text"),
        "summary of a system": (Broken(summary=lambda text: {"role": "system", "content": text}), "one user message"),
        "half of the optional methods": (Broken(request=None), "has only answer, drop, rename"),
        "request passes for a summary": (
            Broken(request=lambda text: {"role": "user", "content": text, "is_compact_summary": True}),
            "and no summary",
        ),
        "answer of another call": (
            Broken(answer=lambda message, call, text: {"role": "tool", "tool_call_id": "z", "content": text}),
            "one result of the call 'a'",
        ),
        "answer of a user": (
            Broken(answer=lambda message, call, text: {"role": "user", "content": text}),
            "one result of the call 'a'",
        ),
        "drop does nothing": (Broken(drop=lambda message, parts: message), "drop.*instead of"),
        "drop takes more": (
            Broken(drop=lambda message, parts: {**DROP(message, parts), "tool_calls": None}),
            "drop.*instead of",
        ),
        "drop copies": (Broken(drop=lambda message, parts: deepcopy(DROP(message, parts))), "drop.*copied parts"),
        "rename does nothing": (Broken(rename=lambda message, ids: message), "rename.*instead of"),
        "rename changes more": (
            Broken(rename=lambda message, ids: {**RENAME(message, ids), "content": "hi"}),
            "rename.*instead of",
        ),
        "rename mutates": (
            Broken(rename=lambda message, ids: message.update(RENAME(message, ids)) or message),
            "instead of|was changed",
        ),
    },
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


@folded(
    "broken, says",
    {
        "a class": (OpenAIChatFormat, r"not the class OpenAIChatFormat: OpenAIChatFormat\(\)"),
        "no format": (object(), "object is no MessageFormat: it lacks read, take, rewrite, summary"),
        "a number for a name": (Broken(name=7), "name must be"),  # type: ignore[arg-type]
        "one message": (
            Broken(read=read_one_piece),
            r"sample 0 .*read\(\) must give a sequence of Message.*not Message",
        ),
        "nothing": (Broken(read=lambda _: None), r"sample 0 .*read\(\) must give a sequence.*not NoneType"),
        "texts for pieces": (Broken(read=lambda _: ["hi"]), "sample 0 .*pieces of type Message, not str"),
        "texts for parts": (Broken(read=read_parts("hi")), "sample 0 .*Message.parts must hold Text, .*not str"),
        "a text for the parts": (
            Broken(read=lambda _: [Message(role="user", parts="hi")]),  # type: ignore[arg-type]
            "sample 0 .*Message.parts must be a tuple of parts, not str",
        ),
        "arguments as a dict": (
            Broken(read=read_parts(ToolCall("a", "f", {}), role="assistant")),  # type: ignore[arg-type]
            "sample 0 .*ToolCall.arguments must be a str, not dict",
        ),
        "texts for media": (
            Broken(read=read_parts(ToolResult("a", "ok", media=("x",)), role="tool")),  # type: ignore[arg-type]
            "sample 0 .*ToolResult.media must hold Media, not str",
        ),
        "role": (Broken(read=read_parts(role="bot")), "sample 0 .*the role 'bot': it must be one of system, user,"),
        "read": (Broken(read=lambda message: message["no"]), r"sample 0 .*read\(\) raised KeyError: 'no'"),
        "a text for a summary": (
            Broken(summary=lambda text: text),
            r"summary\(.*must give a message of your framework that read\(\) takes: read\(\) raised FormatError",
        ),
        "a text for a request": (Broken(request=lambda text: text), r"request\(.*must give a message.*FormatError"),
        "take of one": (Broken(take=lambda message: message), r"sample 0 .*take\(\) raised TypeError"),
        "rewrite gives nothing": (Broken(rewrite=lambda message, _: None), "sample 0 .*FormatError"),
        "answer gives a text": (Broken(answer=lambda *_: "no"), "sample 1 .*FormatError"),
    },
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
