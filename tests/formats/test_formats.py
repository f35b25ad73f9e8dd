"""Each format reads, rewrites and refuses the messages of tests/fixtures/formats as they say.

A file has `samples`, messages with everything the format can hold, and cases: `reads` (a message and its pieces), `refuses` (a
message and the error), `rewrites` (a message, texts by place, and the new message), `drops`."""

import base64
import re
import struct
import zlib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import pytest

from compaction_hooks.errors import ConfigurationError, FormatError
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import Text, Thinking, ToolCall
from compaction_hooks.testing import check_format
from tests.cases import folded
from tests.formats.samples import CASES, FORMATS, samples

CHAT_FORMAT, ANTHROPIC_FORMAT, RESPONSES_FORMAT = (
    FORMATS[name] for name in ("openai_chat", "anthropic", "openai_responses")
)
CHAT, ANTHROPIC = samples("openai_chat"), samples("anthropic")
MIXED = ANTHROPIC[3]
"""Tool results, then words of the user."""


def cases(kind: str) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return the format and the case by name; several cases of one name are numbered."""
    found = [(name, case) for name, each in CASES.items() for case in each.get(kind, ())]
    return {f"{n} {name}: {case['name']}": (FORMATS[name], case) for n, (name, case) in enumerate(found)}


def plain(value: object) -> Any:
    """Return a value as JSON; dataclasses with their name, and without fields that have their default."""
    if is_dataclass(value):
        found = {"is": type(value).__name__}
        for field in fields(value):
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if getattr(value, field.name) != default:
                found[field.name] = plain(getattr(value, field.name))
        return found
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def unchanged_parts_are_copied(before: Any, after: Any) -> bool:
    """Return whether an equal object or list of a message is a copy in the changed one."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(before[name], after[name]) for name in before if name in after]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = list(zip(before, after, strict=True))
    else:
        return False
    return any(
        isinstance(one, dict | list) and one is not other if one == other else unchanged_parts_are_copied(one, other)
        for one, other in pairs
    )


@folded("format_", FORMATS)
def test_a_format_keeps_its_contract(format_: Any) -> None:
    check_format(format_, samples(format_.name))


@folded("format_, case", cases("reads"))
def test_a_message_is_read(format_: Any, case: dict[str, Any]) -> None:
    assert plain(format_.read(case["message"])) == case["gives"]


@folded("format_, case", cases("refuses"))
def test_a_foreign_message_is_refused_by_the_name_of_the_field(format_: Any, case: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=re.escape(case["error"])):
        format_.read(case["message"])


@folded("format_, case", cases("rewrites"))
def test_a_rewritten_message_differs_in_the_named_texts_only(format_: Any, case: dict[str, Any]) -> None:
    message = deepcopy(case["message"])
    made = format_.rewrite(message, {(piece, part): text for (piece, part), text in case["texts"]})
    assert made == case["gives"]
    assert message == case["message"], "the host's message was changed"
    assert not unchanged_parts_are_copied(message, made)


@folded("format_, case", cases("drops"))
def test_a_dropped_part_leaves_the_others(format_: Any, case: dict[str, Any]) -> None:
    assert format_.drop(case["message"], [tuple(place) for place in case["parts"]]) == case["gives"]


def test_rewriting_anything_but_text_calls_and_results_is_refused() -> None:
    reasoning = {"type": "reasoning", "id": "r", "summary": []}
    wrong = [(CHAT_FORMAT, CHAT[4], address) for address in ((0, 0), (0, 9), (1, 0), (0, -1))]
    wrong += [(ANTHROPIC_FORMAT, MIXED, address) for address in ((1, 2), (2, 0), (0, 2))]
    for format_, message, address in [*wrong, (RESPONSES_FORMAT, reasoning, (0, 0))]:
        with pytest.raises(ConfigurationError, match="names no text, tool call or result"):
            format_.rewrite(message, {address: "cut"})


@folded("format_", FORMATS)
def test_taking_all_pieces_or_rewriting_nothing_gives_the_same_object(format_: Any) -> None:
    for message in samples(format_.name):
        assert format_.take(message, range(len(format_.read(message)))) is message
        assert format_.rewrite(message, {}) is message


def test_taking_missing_pieces_is_refused() -> None:
    wrong = [(CHAT_FORMAT, CHAT[4], pieces) for pieces in ([], [1], [0, 0], [-1])]
    for format_, message, pieces in [*wrong, (ANTHROPIC_FORMAT, MIXED, [1, 0])]:
        with pytest.raises(ConfigurationError, match="ascending indexes below"):
            format_.take(message, pieces)


def test_taking_one_piece_keeps_its_blocks_as_they_are() -> None:
    """Cache marks stay, because the blocks are the same objects."""
    before = deepcopy(MIXED)
    results, words = ANTHROPIC_FORMAT.take(MIXED, [0]), ANTHROPIC_FORMAT.take(MIXED, [1])
    assert before == MIXED
    assert results == {"role": "user", "x_turn": 2, "content": MIXED["content"][:2]}
    assert words == {"role": "user", "x_turn": 2, "content": MIXED["content"][2:]}
    assert not unchanged_parts_are_copied(MIXED["content"][:2], results["content"])


def test_a_summary_is_a_user_message() -> None:
    plain_message = {"role": "user", "content": "so far"}
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "so far"}]}
    for format_ in (CHAT_FORMAT, ANTHROPIC_FORMAT, RESPONSES_FORMAT):
        assert format_.summary("so far") == (item if format_ is RESPONSES_FORMAT else plain_message)


@folded("text", {"surrogate": "\ud83d half an emoji", "nul": "a\0b", "huge": "x" * 5_000_000})
def test_any_text_is_read_as_it_is(text: str) -> None:
    """A half surrogate is the host's; it must not crash us."""
    for format_ in (CHAT_FORMAT, ANTHROPIC_FORMAT, RESPONSES_FORMAT):
        assert format_.read({"role": "user", "content": text})[0].text == text
    assert CHAT_FORMAT.read({"role": "user", "content": [{"type": "odd", "v": text}]})[0].parts
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {"v": text}}
    assert ANTHROPIC_FORMAT.read({"role": "assistant", "content": [call]})[0].calls
    output = {"type": "function_call_output", "call_id": "a", "output": text}
    assert RESPONSES_FORMAT.read(output)[0].results[0].text == text


def test_arguments_that_json_cannot_hold_are_still_read() -> None:
    deep: list[object] = ["innermost"]
    for _ in range(100_000):
        deep = [deep]
    circular: dict[str, object] = {"name": "loop"}
    circular["self"] = circular
    for arguments, holds in [(deep, "innermost"), (circular, "loop"), ({("a", 1): object}, "a 1")]:
        call = {"function": {"name": "f", "arguments": arguments}}
        (piece,) = CHAT_FORMAT.read({"role": "assistant", "content": None, "tool_calls": [call]})
        assert holds in piece.calls[0].arguments


def test_rewritten_arguments_that_nest_too_deep_become_an_object() -> None:
    made: Any = ANTHROPIC_FORMAT.rewrite(ANTHROPIC[2], {(0, 5): "[" * 100_000})
    assert made["content"][5]["input"] == {"arguments": "[" * 100_000}


def test_a_data_url_that_is_not_base64_is_identified_by_its_text() -> None:
    def read(body: str) -> object:
        url = {"url": f"data:image/png;base64,{body}"}
        return CHAT_FORMAT.read({"role": "user", "content": [{"type": "image_url", "image_url": url}]})

    assert read("abc\ud800") == read("abc\ud800") != read("abd\ud800")


def test_a_cleared_screenshot_is_a_blank_image() -> None:
    """The API takes only a screenshot there; its safety checks stay as they were."""
    screenshot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}
    checks = [{"id": "sc_1"}]
    output = {
        "type": "computer_call_output",
        "call_id": "c",
        "acknowledged_safety_checks": checks,
        "output": screenshot,
    }
    made: Any = RESPONSES_FORMAT.rewrite(output, {(0, 0): "cleared"})
    assert made["acknowledged_safety_checks"] is checks
    assert RESPONSES_FORMAT.read(made)[0].results[0].media != RESPONSES_FORMAT.read(output)[0].results[0].media
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


@dataclass
class Block:
    """Stands for a pydantic model of an SDK, which the core does not need to be installed."""

    fields: dict[str, Any]

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
        return {name: value for name, value in self.fields.items() if not (exclude_none and value is None)}


CALL = Block({"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}, "caller": None})


def test_blocks_of_an_anthropic_response_are_read_and_kept() -> None:
    text = Block({"type": "text", "text": "Reading.", "citations": None})
    message = {"role": "assistant", "content": [text, CALL]}
    (piece,) = AnthropicFormat().read(message)
    assert piece.parts == (Text("Reading."), ToolCall("a", "read", '{"path":"x"}'))
    made: Any = AnthropicFormat().rewrite(message, {(0, 1): "{}"})
    assert made["content"][0] is text
    assert made["content"][1] == {"type": "tool_use", "id": "a", "name": "read", "input": {}}


def test_items_of_a_responses_output_are_read() -> None:
    item: Any = Block({"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}", "status": None})
    (piece,) = OpenAIResponsesFormat().read(item)
    assert piece.calls == (ToolCall("a", "read", "{}"),)
    assert OpenAIResponsesFormat().take(item, [0]) is item


def test_an_object_inside_an_unknown_block_is_counted_by_its_fields() -> None:
    (piece,) = AnthropicFormat().read({"role": "assistant", "content": [{"type": "new", "inner": CALL, "when": 1j}]})
    (part,) = piece.parts
    assert part.text == (  # type: ignore[union-attr]
        '{"type":"new","inner":{"type":"tool_use","id":"a","name":"read","input":{"path":"x"}},"when":"1j"}'
    )


def test_real_messages_of_the_openai_sdk() -> None:
    chat = pytest.importorskip("openai.types.chat")
    message = chat.ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
        }
    )
    (piece,) = OpenAIChatFormat().read(message)
    assert piece.parts == (ToolCall("a", "read", "{}"),)
    assert OpenAIChatFormat().rewrite(message, {(0, 0): '{"cut":1}'}) == {
        "role": "assistant",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"cut":1}'}}],
    }


def test_real_items_of_the_openai_sdk() -> None:
    responses = pytest.importorskip("openai.types.responses")
    item = responses.ResponseReasoningItem(id="rs", type="reasoning", summary=[], encrypted_content="gAAA")
    (piece,) = OpenAIResponsesFormat().read(item)
    assert piece.parts == (Thinking("", 4),)
