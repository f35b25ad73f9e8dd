"""OpenAI Responses items: messages, calls, outputs and reasoning, each an item of its own.

Shapes: https://platform.openai.com/docs/api-reference/responses/create (as typed in the `openai` package 2.54).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from compaction_hooks.errors import FormatError
from compaction_hooks.formats._dict_format import (
    DictFormat,
    call_at,
    part_at,
    replace_result_text,
    replace_text,
    without_items,
)
from compaction_hooks.formats._json import Fields, as_json_text, fields_of, list_of, message_fields, text_of, to_json
from compaction_hooks.formats._owners import OPENAI_RESPONSES
from compaction_hooks.formats._reading import (
    ROLES,
    build_message,
    media_from_base64,
    opaque,
    read_content,
    read_result,
)
from compaction_hooks.formats.openai_chat import PARTS
from compaction_hooks.messages import (
    Media,
    Message,
    Opaque,
    Part,
    PartAddress,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from compaction_hooks.text.json_text import json_object

_CALLS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "function_call": ("", ("arguments",)),
    "custom_tool_call": ("", ("input",)),
    "local_shell_call": ("local_shell", ("action",)),
    "shell_call": ("shell", ("action",)),
    "apply_patch_call": ("apply_patch", ("operation",)),
    "computer_call": ("computer", ("action", "actions")),
}
"""Tool calls whose output the host sends back: the tool's fixed name ("" if the item names it), the fields of its arguments.
Calls that OpenAI answers itself have no output item and are `Opaque`. So are requests for approval with their answers, and
`tool_search_call` with its output: the tools in it must stay in the context as long as calls to them do."""

_HOSTS_ANSWERS: Final = ("mcp_approval_response", "tool_search_output")
"""Opaque items by which the host answers one of the assistant's: they end its step, as outputs do. OpenAI writes the output of a
tool search itself unless the client executes it."""

_OUTPUTS: Final = frozenset(f"{call}_output" for call in _CALLS)

_FAILURES: Final[Mapping[str, Fields]] = {
    "shell_call_output": {"output": [{"outcome": {"type": "exit", "exit_code": 1}}]},
    "apply_patch_call_output": {"status": "failed"},
}
"""The fields by which outputs of a type report failure; other types have none."""

_BLANK_SCREEN: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg=="
)
"""A white image of one pixel: a computer's output must be a screenshot, so this replaces a cleared one."""


class OpenAIResponsesFormat(DictFormat):
    """Responses items as dicts, TypedDicts or SDK objects; one item is one piece.

    Reasoning, tool calls and the model's messages all have role "assistant", so a reasoning item is never separated from the
    tool call or message that must follow it. Items of unknown type are `Opaque` parts of the assistant, or of their own role; the
    host's answers to such items have the role "other".
    """

    name = "openai_responses"
    _owner = OPENAI_RESPONSES
    _text_type = "input_text"

    def read(self, message: Fields, /) -> tuple[Message, ...]:
        """Read one item; exactly one piece.

        Raises:
            FormatError: the item has neither "type", "role" nor "id", its content is neither text, list nor null, or a part is of
                another format.
        """
        fields = message_fields(message)
        role = text_of(fields.get("role"))
        kind = text_of(fields.get("type")) or ("message" if role else "item_reference")

        if kind == "message":
            if not role:
                raise FormatError('a Responses message needs "role": one of system, developer, user, assistant')
            self._refuse_chat_message(fields)
            return (build_message(ROLES.get(role, "other"), read_content(fields.get("content"), PARTS), fields),)

        if kind == "item_reference" and not text_of(fields.get("id")):
            raise FormatError(
                'a Responses item needs "type" (such as function_call), a message "role", a reference "id"'
            )
        part = _part(kind, fields)
        speaker: Role = "tool" if kind in _OUTPUTS else ROLES.get(role, "assistant")
        if kind in _HOSTS_ANSWERS and isinstance(part, Opaque) and part.call_id:
            speaker = "other"
        return (build_message(speaker, (part,), fields),)

    def request(self, text: str, /) -> Fields:
        """Return a new user message with this text."""
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    def native(self, items: Sequence[Mapping[str, object]], /) -> list[Fields]:
        """Return these input items."""
        return [*items]

    def answer(self, message: Fields, call: PartAddress, text: str, /) -> Fields:
        """Return the output item for this type of tool call; for a computer a blank screenshot, without the text.

        Raises:
            ConfigurationError: the address names no tool call.
        """
        tool_call = call_at(self.read(message), call)
        kind = f"{text_of(message_fields(message).get('type'))}_output"
        made: Fields = {"type": kind, "call_id": tool_call.id, **_FAILURES.get(kind, {})}
        return {**made, **_output(made, text)}

    def _changes(self, fields: Fields, pieces: Sequence[Message], address: PartAddress, text: str) -> Fields:
        match part_at(pieces, address):
            case ToolResult():
                return _output(fields, text)
            case ToolCall():
                return _arguments(fields, text)
            case Text() | Media():
                return {"content": replace_text(fields.get("content"), address[1], text)}

    def drop(self, message: Fields, parts: Collection[PartAddress], /) -> Fields:
        """Return a copy of a message without these content parts; the others are the same objects."""
        fields = message_fields(message)
        return {**fields, "content": without_items(fields.get("content"), {index for _, index in parts})}

    def untie(self, message: Fields, /) -> Fields:
        """Return a copy of an item without its own id: OpenAI knows by the id that reasoning came before the item.

        References to stored items, and calls without another id, stay.
        """
        fields = message_fields(message)
        kind = text_of(fields.get("type")) or "message"
        if "id" not in fields or kind == "item_reference" or (kind in _CALLS and not fields.get("call_id")):
            return message
        return {key: value for key, value in fields.items() if key != "id"}

    def rename(self, message: Fields, ids: Mapping[PartAddress, str], /) -> Fields:
        """Return a copy of a tool call or an output with this `call_id`; the item's own id stays."""
        return {**message_fields(message), "call_id": ids[0, 0]}


def _part(kind: str, fields: Fields) -> Part:
    if kind in _CALLS:
        tool, _ = _CALLS[kind]
        arguments = fields.get(_arguments_field(fields))
        return ToolCall(_call_id(fields), tool or text_of(fields.get("name")), as_json_text(arguments))

    if kind in _OUTPUTS:
        return _result(kind, fields)
    if kind == "reasoning":
        return _reasoning(fields)
    if kind == "image_generation_call" and (image := text_of(fields.get("result"))):
        return media_from_base64(image, "image")
    return _block(kind, fields)


def _block(kind: str, fields: Fields) -> Opaque:
    """Read any other item; one that the host answers, and the answer, have a common `call_id`."""
    block = opaque(fields)
    match kind:
        case "mcp_approval_request":
            return replace(block, call_id=text_of(fields.get("id")))
        case "mcp_approval_response":
            said = [f"approve={to_json(fields.get('approve'))}", text_of(fields.get("reason"))]
            call_id = text_of(fields.get("approval_request_id"))
            return replace(block, call_id=call_id, content="\n".join(filter(None, said)))
        case "tool_search_call" | "tool_search_output" if fields.get("execution") != "server":
            return replace(block, call_id=text_of(fields.get("call_id")))
        case _:
            return block


def _call_id(fields: Fields) -> str:
    # local_shell_call_output is documented with the call's id under "id"; hosts send "call_id" as in other outputs.
    return text_of(fields.get("call_id")) or text_of(fields.get("id"))


def _arguments_field(fields: Fields) -> str:
    _, names = _CALLS[text_of(fields.get("type"))]
    return next((name for name in names if name in fields), names[0])


def _result(kind: str, fields: Fields) -> ToolResult:
    output = fields.get("output")
    if kind == "shell_call_output":
        output = _shell_text(output)
    is_error = fields.get("is_error") is True or fields.get("status") == "failed"
    return read_result(output, PARTS, _call_id(fields), name=fields.get("name"), is_error=is_error)


def _shell_text(output: object) -> str:
    chunks = [fields_of(chunk) for chunk in list_of(output) or ()]
    return "".join([text_of(chunk.get("stdout")) + text_of(chunk.get("stderr")) for chunk in chunks if chunk])


def _reasoning(fields: Fields) -> Thinking:
    blocks = [*(list_of(fields.get("summary")) or ()), *(list_of(fields.get("content")) or ())]
    text = "".join([text_of(block.get("text")) for block in map(fields_of, blocks) if block])
    return Thinking(text, len(text_of(fields.get("encrypted_content"))))


def _output(fields: Fields, text: str) -> Fields:
    old = fields.get("output")
    if fields.get("type") == "computer_call_output":
        return {"output": {"type": "computer_screenshot", "image_url": _BLANK_SCREEN}}

    if fields.get("type") == "shell_call_output":
        first = next(
            (chunk for chunk in map(fields_of, list_of(old) or ()) if chunk),
            {"outcome": {"type": "exit", "exit_code": 0}},
        )
        return {"output": [{**first, "stdout": text, "stderr": ""}]}

    return {"output": replace_result_text(old, text, "input_text")}


def _arguments(fields: Fields, text: str) -> Fields:
    name = _arguments_field(fields)
    return {name: json_object(text) if fields_of(fields.get(name)) is not None else text}
