"""The SDKs' own examples append response objects to a list of dicts; they are read like the dicts of the same content."""

from dataclasses import dataclass
from typing import Any

import pytest

from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import Text, Thinking, ToolCall


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
