"""OpenAI Responses items: every item is one message of one speaker."""

from __future__ import annotations

import base64
import struct
import zlib
from copy import deepcopy
from typing import Any

import pytest

from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import OpenAIResponsesFormat
from compaction_hooks.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.testing import check_format
from tests.formats.samples import COMPUTER, DATA_URL, IMAGE, IMAGE_HASH, RESPONSES

FORMAT = OpenAIResponsesFormat()
OUTPUT_TEXT = {"type": "output_text", "text": "Done.", "annotations": []}


def read(item: dict[str, Any]) -> Message:
    (piece,) = FORMAT.read(item)
    return piece


def test_keeps_the_contract_of_a_format() -> None:
    """Messages, calls, outputs, reasoning and built-in tools with all they hold."""
    check_format(FORMAT, RESPONSES)


@pytest.mark.parametrize(
    ("item", "role", "parts"),
    [
        pytest.param({"role": "user", "content": "hi"}, "user", (Text("hi"),), id="easy-form"),
        pytest.param({"role": "developer", "content": "brief"}, "system", (Text("brief"),), id="developer"),
        pytest.param(
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "hi", "annotations": []}],
            },
            "assistant",
            (Text("hi"),),
            id="answer",
        ),
        pytest.param(
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_image", "image_url": DATA_URL, "detail": "low"}],
            },
            "user",
            (Media("image/png", IMAGE_HASH, low_detail=True),),
            id="image",
        ),
        pytest.param(
            {"type": "message", "role": "user", "content": [{"type": "input_image", "file_id": "f1"}]},
            "user",
            (Media("image", "f1", is_reference=True),),
            id="image-file",
        ),
        pytest.param(
            {"type": "message", "role": "user", "content": [{"type": "input_file", "file_url": "https://e.org/a.pdf"}]},
            "user",
            (Media("application", "https://e.org/a.pdf", is_reference=True),),
            id="file-url",
        ),
        pytest.param({"type": "message", "role": "critic", "content": "no"}, "other", (Text("no"),), id="unknown-role"),
    ],
)
def test_reads_a_message(item: dict[str, Any], role: str, parts: tuple[Part, ...]) -> None:
    """Images by the same hash as in the other formats."""
    assert read(item).role == role
    assert read(item).parts == parts


@pytest.mark.parametrize(
    ("item", "call"),
    [
        pytest.param(
            {"type": "function_call", "id": "fc", "call_id": "a", "name": "read", "arguments": '{"p": 1}'},
            ToolCall("a", "read", '{"p": 1}'),
            id="function",
        ),
        pytest.param(
            {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": "*** Begin"},
            ToolCall("a", "patch", "*** Begin"),
            id="custom",
        ),
        pytest.param(
            {"type": "local_shell_call", "id": "l", "call_id": "a", "action": {"command": ["ls"]}},
            ToolCall("a", "local_shell", '{"command":["ls"]}'),
            id="local-shell",
        ),
        pytest.param(
            {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}},
            ToolCall("a", "shell", '{"commands":["ls"]}'),
            id="shell",
        ),
        pytest.param(
            {"type": "apply_patch_call", "call_id": "a", "operation": {"type": "delete_file"}},
            ToolCall("a", "apply_patch", '{"type":"delete_file"}'),
            id="apply-patch",
        ),
        pytest.param(
            {"type": "computer_call", "call_id": "a", "action": {"type": "wait"}},
            ToolCall("a", "computer", '{"type":"wait"}'),
            id="computer",
        ),
        pytest.param(
            {"type": "computer_call", "call_id": "a", "actions": [{"type": "wait"}]},
            ToolCall("a", "computer", '[{"type":"wait"}]'),
            id="computer-batch",
        ),
    ],
)
def test_reads_a_call_the_host_answers(item: dict[str, Any], call: ToolCall) -> None:
    assert read(item) == Message(role="assistant", parts=(call,))


@pytest.mark.parametrize(
    ("item", "result"),
    [
        pytest.param({"type": "function_call_output", "output": "ok"}, ToolResult("a", "ok"), id="function"),
        pytest.param(
            {"type": "function_call_output", "output": [{"type": "input_text", "text": "ok"}]},
            ToolResult("a", "ok"),
            id="list",
        ),
        pytest.param(
            {"type": "custom_tool_call_output", "output": [{"type": "input_image", "image_url": DATA_URL}]},
            ToolResult("a", "", media=(Media("image/png", IMAGE_HASH),)),
            id="image",
        ),
        pytest.param(
            {"type": "function_call_output", "output": {"type": "input_text", "text": "ok"}},
            ToolResult("a", "ok"),
            id="single-block-as-codex-logs-it",
        ),
        pytest.param({"type": "local_shell_call_output", "output": "ok"}, ToolResult("a", "ok"), id="local-shell"),
        pytest.param(
            {"type": "shell_call_output", "output": [{"stdout": "o", "stderr": "k"}, {"stdout": "!"}]},
            ToolResult("a", "ok!"),
            id="shell",
        ),
        pytest.param(
            {"type": "apply_patch_call_output", "status": "failed", "output": "no match"},
            ToolResult("a", "no match", is_error=True),
            id="apply-patch-failed",
        ),
        pytest.param({"type": "apply_patch_call_output", "status": "completed"}, ToolResult("a", ""), id="no-output"),
        pytest.param(
            {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": DATA_URL}},
            ToolResult("a", "", media=(Media("image/png", IMAGE_HASH),)),
            id="screenshot",
        ),
    ],
)
def test_reads_an_output(item: dict[str, Any], result: ToolResult) -> None:
    assert read({**item, "call_id": "a"}) == Message(role="tool", parts=(result,))


def test_a_local_shell_output_may_name_its_call_by_id() -> None:
    assert read({"type": "local_shell_call_output", "id": "a", "output": "ok"}).results == (ToolResult("a", "ok"),)


@pytest.mark.parametrize(
    ("item", "thinking"),
    [
        pytest.param({"summary": []}, Thinking(""), id="nothing-visible"),
        pytest.param({"summary": [], "encrypted_content": "gAAA"}, Thinking("", 4), id="encrypted"),
        pytest.param(
            {"summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]},
            Thinking("ab"),
            id="summary",
        ),
        pytest.param(
            {"summary": [], "content": [{"type": "reasoning_text", "text": "a"}]}, Thinking("a"), id="open-weights"
        ),
        pytest.param({"summary": None, "content": None, "encrypted_content": None}, Thinking(""), id="nulls"),
    ],
)
def test_reads_reasoning(item: dict[str, Any], thinking: Thinking) -> None:
    assert read({"type": "reasoning", "id": "rs", **item}).parts == (thinking,)


def test_reasoning_its_call_and_the_answer_have_one_speaker() -> None:
    """A cut never falls between two messages of the assistant, so reasoning stays with its call."""
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
        {"type": "item_reference", "id": "msg_0"},
        {"type": "web_search_call", "id": "ws"},
    ]
    assert {read(item).role for item in items} == {"assistant"}


@pytest.mark.parametrize(
    "kind",
    [
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "mcp_call",
        "tool_search_call",
        "tool_search_output",
        "new",
    ],
)
def test_items_without_a_host_side_half_are_opaque(kind: str) -> None:
    item = {"type": kind, "id": "x", "call_id": "a"}
    text = f'{{"type":"{kind}","id":"x","call_id":"a"}}'
    assert read(item) == Message(role="assistant", parts=(Opaque(kind, text),))


def test_a_generated_image_is_media() -> None:
    assert read({"type": "image_generation_call", "id": "ig", "result": IMAGE}).parts == (Media("image", IMAGE_HASH),)


def test_an_unknown_item_keeps_its_own_role() -> None:
    assert read({"type": "additional_tools", "role": "developer", "tools": []}).role == "system"


def test_an_item_reference_may_lack_its_type() -> None:
    assert read({"id": "msg_0"}).parts == (Opaque("unknown", '{"id":"msg_0"}'),)


@pytest.mark.parametrize(
    ("item", "names"),
    [
        pytest.param({"content": "hi"}, '"type"', id="neither-type-nor-role"),
        pytest.param({"type": "message", "content": "hi"}, '"role"', id="message-without-role"),
        pytest.param({"type": "message", "role": "user", "content": 7}, '"content".*int', id="content-is-a-number"),
        pytest.param(3, "must be a dict, not int", id="number"),
    ],
)
def test_a_foreign_item_is_refused_by_the_name_of_the_field(item: Any, names: str) -> None:
    with pytest.raises(FormatError, match=names):
        FORMAT.read(item)


@pytest.mark.parametrize("text", ["\ud83d half an emoji", "a\0b", "x" * 5_000_000], ids=["surrogate", "nul", "huge"])
def test_any_text_is_read_as_it_is(text: str) -> None:
    assert read({"role": "user", "content": text}).text == text
    assert read({"type": "function_call_output", "call_id": "a", "output": text}).results[0].text == text


def test_a_summary_is_a_user_message() -> None:
    assert FORMAT.summary("so far") == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "so far"}],
    }


def test_taking_the_only_piece_gives_the_same_object() -> None:
    assert FORMAT.take(RESPONSES[4], [0]) is RESPONSES[4]
    with pytest.raises(ConfigurationError, match="below 1"):
        FORMAT.take(RESPONSES[4], [1])


@pytest.mark.parametrize(
    ("item", "text", "changed"),
    [
        pytest.param(
            {"type": "function_call", "call_id": "a", "arguments": '{"p":1}', "id": "fc"},
            '{"p":0}',
            {"arguments": '{"p":0}'},
            id="function",
        ),
        pytest.param(
            {"type": "custom_tool_call", "call_id": "a", "input": "long"}, "cut", {"input": "cut"}, id="custom"
        ),
        pytest.param(
            {"type": "shell_call", "call_id": "a", "action": {"commands": ["ls"]}},
            '{"commands":[]}',
            {"action": {"commands": []}},
            id="shell-stays-an-object",
        ),
        pytest.param({"type": "function_call_output", "output": "long"}, "cut", {"output": "cut"}, id="text"),
        pytest.param({"type": "apply_patch_call_output", "status": "completed"}, "cut", {"output": "cut"}, id="absent"),
        pytest.param(
            {"type": "function_call_output", "output": [{"type": "input_image", "image_url": DATA_URL}]},
            "cut",
            {"output": [{"type": "input_text", "text": "cut"}]},
            id="list",
        ),
        pytest.param(
            {
                "type": "shell_call_output",
                "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "timeout"}}, {}],
            },
            "cut",
            {"output": [{"stdout": "cut", "stderr": "", "outcome": {"type": "timeout"}}]},
            id="shell",
        ),
        pytest.param(
            {"type": "shell_call_output", "output": []},
            "cut",
            {"output": [{"outcome": {"type": "exit", "exit_code": 0}, "stdout": "cut", "stderr": ""}]},
            id="shell-without-chunks",
        ),
    ],
)
def test_rewriting_changes_one_field(item: dict[str, Any], text: str, changed: dict[str, Any]) -> None:
    before = deepcopy(item)
    assert FORMAT.rewrite(item, {(0, 0): text}) == {**item, **changed}
    assert item == before


def test_a_cleared_screenshot_is_a_blank_one() -> None:
    """The API takes nothing but a screenshot there; checks of safety stay as they were."""
    call, output = COMPUTER
    made = FORMAT.rewrite(output, {(0, 0): "cleared"})
    (media,) = read(dict(made)).results[0].media
    assert media.identity != IMAGE_HASH
    assert made["acknowledged_safety_checks"] is output["acknowledged_safety_checks"]
    assert read(call).calls[0].id == read(dict(made)).results[0].call_id


def test_the_blank_screenshot_is_a_true_image() -> None:
    made: Any = FORMAT.rewrite(COMPUTER[1], {(0, 0): "cleared"})
    png = base64.b64decode(made["output"]["image_url"].removeprefix("data:image/png;base64,"), validate=True)
    position, chunks = 8, dict[bytes, bytes]()
    while position < len(png):
        (length,) = struct.unpack(">I", png[position : position + 4])
        kind_and_body = png[position + 4 : position + 8 + length]
        assert struct.unpack(">I", png[position + 8 + length : position + 12 + length]) == (zlib.crc32(kind_and_body),)
        chunks[kind_and_body[:4]] = kind_and_body[4:]
        position += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert zlib.decompress(chunks[b"IDAT"]) == b"\x00\xff"


@pytest.mark.parametrize(
    ("item", "number", "changed"),
    [
        pytest.param({"role": "user", "content": "long", "x": 1}, 0, {"content": "cut"}, id="text"),
        pytest.param(
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "long", "x": 1}]},
            0,
            {"content": [{"type": "input_text", "text": "cut", "x": 1}]},
            id="input text",
        ),
        pytest.param(
            {"role": "assistant", "id": "m", "content": [OUTPUT_TEXT, {"type": "refusal", "refusal": "long"}]},
            1,
            {"content": [OUTPUT_TEXT, {"type": "refusal", "refusal": "cut"}]},
            id="refusal",
        ),
    ],
)
def test_rewriting_a_text_changes_one_part(item: dict[str, Any], number: int, changed: dict[str, Any]) -> None:
    """All else is the same object."""
    before = deepcopy(item)
    made: Any = FORMAT.rewrite(item, {(0, number): "cut"})
    assert made == {**item, **changed}
    assert item == before
    assert number == 0 or made["content"][0] is OUTPUT_TEXT


def test_rewriting_nothing_gives_the_same_object() -> None:
    assert FORMAT.rewrite(RESPONSES[4], {}) is RESPONSES[4]


def test_rewriting_anything_else_is_refused() -> None:
    reasoning = {"type": "reasoning", "id": "r", "summary": []}
    with pytest.raises(ConfigurationError, match="names no text, tool call or result"):
        FORMAT.rewrite(reasoning, {(0, 0): "cut"})
