"""OpenAI chat completions messages, the format most hosts use whatever the provider."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final, cast

from compaction_hooks.formats._dict_format import CHAT_ROLES, DictFormat
from compaction_hooks.formats._fields import Fields, fields_of, list_of, message_fields, text_of
from compaction_hooks.formats._json import as_json_text, block_content, to_json
from compaction_hooks.formats._media import media_from_base64
from compaction_hooks.formats._openai_parts import PARTS
from compaction_hooks.formats._reading import ROLES, build_message, opaque, read_content, read_result, thinking_block
from compaction_hooks.formats._rewriting import call_at, part_at, result_content, spoken_content, without_items
from compaction_hooks.messages import (
    Media,
    Message,
    Opaque,
    Part,
    PartAddress,
    Provider,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_ROLES: Final[Mapping[str, Role]] = {**ROLES, **dict.fromkeys(CHAT_ROLES, "tool")}


_REASONING_FIELDS: Final = ("thinking_blocks", "reasoning_details", "reasoning_content", "reasoning")
_RARE_FIELDS: Final = frozenset({*_REASONING_FIELDS, "audio", "refusal", "function_call", "provider_specific_fields"})
"""What an answer may hold beside its content and its calls."""
_PLAIN_FIELDS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})
_OWN_FIELDS: Final = frozenset(
    {"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content", "reasoning_details"}
)
_PLAIN_CALL_FIELDS: Final = frozenset({"id", "type", "function"})
_SIGNED_FIELDS: Final = frozenset({"extra_content", "provider_specific_fields"})


class OpenAIChatFormat(DictFormat):
    """Chat completions messages as dicts, TypedDicts or SDK objects; one message is one piece.

    Read beyond the documented fields: `reasoning_content`, `reasoning`, `reasoning_details` and `thinking_blocks` (what DeepSeek,
    OpenRouter and LiteLLM add), LiteLLM's results of hosted tools in `provider_specific_fields`, `is_error` on tool messages,
    `is_compact_summary` or `compaction_summary` on any. A null content, an empty list, and an empty text beside calls give no
    part. An unknown role gives role "other" with its text.
    """

    name = "openai_chat"
    provider: Provider | None = "openai_chat"
    own_blocks = frozenset({"image_url", "input_audio"})

    def read(self, message: Fields, /) -> tuple[Message, ...]:
        """Read one message; exactly one piece.

        Raises:
            FormatError: "role" is missing, "content" is neither text, list nor null, or a part is of another format.
        """
        fields = message_fields(message)
        role, content = fields.get("role"), fields.get("content")
        if not isinstance(role, str):
            wanted = 'a chat message needs "role": one of system, developer, user, assistant, tool'
            raise self._unreadable(fields, wanted)
        neutral = _ROLES.get(role, "other")
        if neutral == "assistant":
            parts = _assistant_parts(fields, content)
        elif neutral == "tool":
            parts = (_result(fields, content),)
        else:
            parts = read_content(content, PARTS)
        if content == "" and all(isinstance(part, Thinking) for part in parts):
            parts += (Text(""),)  # what OpenAI takes; null or an empty list it refuses where nothing else is said
        return (build_message(neutral, parts, fields),)

    def is_read_as(self, message: Fields, pieces: Sequence[Message], /) -> bool:
        """Whether `read` surely still gives these pieces: the very texts they were read from stand in a message of plain fields.

        False says nothing. A text cannot be changed in place, so this takes a tenth of the time of reading and comparing.
        """
        if len(pieces) != 1 or not isinstance(message, dict) or not message.keys() <= _PLAIN_FIELDS:
            return False
        (piece,) = pieces
        if piece.is_summary or piece.usage is not None or piece.model is not None or piece.stop_reason is not None:
            return False
        content, parts = message.get("content"), piece.parts
        if _ROLES.get(text_of(message.get("role")), "other") != piece.role:
            return False
        if piece.role == "tool":
            result = cast("ToolResult", parts[0])
            named = result.call_id == message.get("tool_call_id") and result.name == message.get("name", "")
            return named and result.text is content and not result.is_error and not result.media
        calls = list_of(message.get("tool_calls")) or ()
        count = len(parts) - len(calls)
        if count == 1:
            said = parts[0]
            if not isinstance(said, Text) or said.text is not content:
                return False
        elif count or content or (content == "" and not calls):
            return False
        return all(map(_is_call_of, calls, parts[count:]))

    def wrote(self, fields: Fields, /) -> bool:
        """Return whether a message is surely in this format; plain text all formats write alike."""
        return fields.get("role") in CHAT_ROLES or not _OWN_FIELDS.isdisjoint(fields) or super().wrote(fields)

    def answer(self, message: Fields, call: PartAddress, text: str, /) -> Fields:
        """Return a tool message that answers a call; a function message where the call is of the legacy kind.

        Raises:
            ConfigurationError: the address names no call.
        """
        asked = call_at(self.read(message), call)
        if _legacy_call(message_fields(message)) and not asked.id:
            return {"role": "function", "name": asked.name, "content": text}
        return {"role": "tool", "tool_call_id": asked.id, "content": text}

    def _changes(self, fields: Fields, pieces: Sequence[Message], address: PartAddress, text: str) -> Fields:
        match part_at(pieces, address):
            case ToolResult():
                return {"content": result_content(fields.get("content"), text, "text")}
            case ToolCall():
                return _other_call(fields, address[1] - len(pieces[0].parts), text)
            case Text() | Media():
                return _other_text(fields, address[1], text)

    def drop(self, message: Fields, parts: Collection[PartAddress], /) -> Fields:
        """Return a copy without these parts of reasoning, content, audio or refusal; the rest are the same objects."""
        fields = message_fields(message)
        gone = {index for _, index in parts}
        content = fields.get("content")
        start = len(_thinking(fields)) if fields.get("role") == "assistant" else 0
        end = start + len(read_content(content, PARTS))
        changes: dict[str, object] = {}
        if gone & set(range(start)):
            changes = _less_thinking(fields, gone)
        if gone & set(range(start, max(end, start + (content == "")))):
            changes["content"] = without_items(content, {index - start for index in gone})
        said = [name for name, _ in _beside_content(fields)] if fields.get("role") == "assistant" else []
        changes.update({name: None for index, name in enumerate(said, end) if index in gone})
        made = {**fields, **changes}
        return {key: value for key, value in made.items() if key == "content" or key not in changes or value}

    def tidy(self, message: Fields, /) -> Fields:
        """Return a copy without an empty list of calls; the message itself where it has none.

        OpenAI refuses the list: "Invalid 'messages[1].tool_calls': empty array" (https://github.com/openai/openai-node/issues/1341).
        No part shows it: `repair=True` asks for this beside what it finds in the parts.
        """
        fields = message_fields(message)
        calls = list_of(fields.get("tool_calls"))
        if calls is None or calls or fields.get("role") != "assistant":
            return message
        return {key: value for key, value in fields.items() if key != "tool_calls"}

    def rename(self, message: Fields, ids: Mapping[PartAddress, str], /) -> Fields:
        """Return a copy whose named calls or result have these ids. Calls of the legacy kind have none, and stay."""
        fields = message_fields(message)
        if fields.get("role") != "assistant":
            return {**fields, "tool_call_id": ids[0, 0]}
        calls = list(list_of(fields.get("tool_calls")) or ())
        first = len(self.read(message)[0].parts) - len(calls) - bool(_legacy_call(fields))
        for (_, index), id_ in ids.items():
            if index - first < len(calls):
                calls[index - first] = {**(fields_of(calls[index - first]) or {}), "id": id_}
        return {**fields, "tool_calls": calls} if calls else message


def _assistant_parts(fields: Fields, content: object) -> tuple[Part, ...]:
    """Thinking first, then content, audio and refusal, then one part for each entry of `tool_calls`, then `function_call`."""
    parts = read_content(content, PARTS)
    is_plain = _RARE_FIELDS.isdisjoint(fields)
    if not is_plain and (thinking := _thinking(fields)):
        parts = thinking + parts
    if not is_plain and (said := _beside_content(fields)):
        parts += tuple([part for _, part in said])
    if calls := list_of(fields.get("tool_calls")):
        parts += tuple([_call(call) for call in calls])
    if not is_plain and (legacy := _legacy_call(fields)):
        parts += (ToolCall("", text_of(legacy.get("name")), as_json_text(legacy.get("arguments"))),)
    return parts


def _beside_content(fields: Fields) -> list[tuple[str, Part]]:
    """Return the parts that an assistant's message holds outside its content, each with the name of its field.

    Audio goes back by its id alone, with a null content or none (https://platform.openai.com/docs/guides/audio); the answer it
    came in holds the sound too.
    """
    said: list[tuple[str, Part]] = []
    if audio := fields_of(fields.get("audio")):
        id_, data = text_of(audio.get("id")), text_of(audio.get("data"))
        part = media_from_base64(data, "audio") if data and not id_ else Media("audio", id_, is_reference=True)
        said.append(("audio", part))
    if refusal := text_of(fields.get("refusal")):
        said.append(("refusal", Text(refusal)))
    added = fields_of(fields.get("provider_specific_fields")) or {}
    blocks = [block for name in _HOSTED_RESULTS for block in list_of(added.get(name)) or ()]
    return said + [("provider_specific_fields", _hosted_result(block)) for block in blocks]


_HOSTED_RESULTS: Final = ("web_search_results", "tool_results")
"""Where LiteLLM (1.109) puts the results of Anthropic's hosted tools, in `provider_specific_fields`; their calls are tool calls."""


def _hosted_result(block: object) -> Opaque:
    """A result under a kind of its own: the rules for Anthropic's blocks do not hold for the field of a chat message."""
    name = text_of((fields_of(block) or {}).get("type"))
    return Opaque("hosted_tool_result", to_json(block), name=name, content=block_content(block))


def _thinking(fields: Fields) -> tuple[Part, ...]:
    # LiteLLM gives the same reasoning twice, OpenRouter too: the blocks with their signatures are what is sent back.
    for key in ("thinking_blocks", "reasoning_details"):
        found = [block for block in map(fields_of, list_of(fields.get(key)) or ()) if block is not None]
        if found:
            return tuple([thinking_block(block) or opaque(block) for block in found])
    text = text_of(fields.get("reasoning_content")) or text_of(fields.get("reasoning"))
    return (Thinking(text),) if text else ()


def _less_thinking(fields: Fields, gone: Container[int]) -> dict[str, object]:
    """The fields in which reasoning is written, without these parts of it; all of them emptied when none is left."""
    for key in ("thinking_blocks", "reasoning_details"):
        found = [block for block in list_of(fields.get(key)) or () if fields_of(block) is not None]
        if found and (left := without_items(found, gone)):
            return {key: left}
        if found:
            break
    return {key: None for key in _REASONING_FIELDS if key in fields}


def _legacy_call(fields: Fields) -> Fields | None:
    return fields_of(fields.get("function_call"))


def _call(entry: object) -> Part:
    fields = fields_of(entry) or {}
    function = fields_of(fields.get("function"))
    if function is not None:
        name, arguments = text_of(function.get("name")), as_json_text(function.get("arguments"))
        return ToolCall(text_of(fields.get("id")), name, arguments, _signature_chars(fields, function))
    custom = fields_of(fields.get("custom"))
    if custom is not None:
        return ToolCall(text_of(fields.get("id")), text_of(custom.get("name")), as_json_text(custom.get("input")))
    return Opaque(text_of(fields.get("type")) or "tool_call", to_json(entry), content=block_content(entry))


def _is_call_of(entry: object, part: Part) -> bool:
    """Whether a call of plain fields surely reads as this part."""
    fields = fields_of(entry) or {}
    function = fields_of(fields.get("function"))
    if function is None or not isinstance(part, ToolCall) or not fields.keys() <= _PLAIN_CALL_FIELDS:
        return False
    if len(function) != 2 or part.opaque_chars:
        return False
    named = fields.get("id") == part.id and function.get("name") == part.name
    return named and function.get("arguments") is part.arguments


def _signature_chars(call: Fields, function: Fields) -> int:
    """Characters of Gemini's thought signature, where Google's own endpoint for this API and LiteLLM (1.106) put it."""
    id_ = text_of(call.get("id"))
    if _SIGNED_FIELDS.isdisjoint(call) and _SIGNED_FIELDS.isdisjoint(function) and "__thought__" not in id_:
        return 0
    extra = call.get("extra_content")
    google = fields_of(extra) if extra else None
    added = call.get("provider_specific_fields") or function.get("provider_specific_fields")
    fields = fields_of(google.get("google")) if google else fields_of(added) if added else None
    return len(text_of((fields or {}).get("thought_signature")) or id_.partition("__thought__")[2])


def _other_text(fields: Fields, index: int, text: str) -> Fields:
    """The field in which part `index` of a message is written, with another text there."""
    place = index - len(_thinking(fields) if fields.get("role") == "assistant" else ())
    content = fields.get("content")
    if place < len(read_content(content, PARTS)) or not text_of(fields.get("refusal")):
        return {"content": spoken_content(content, place, text)}
    return {"refusal": text}


def _other_call(fields: Fields, from_end: int, text: str) -> Fields:
    """The field in which a call is written, with other arguments there; it is part `from_end` (below 0) of its message."""
    legacy = _legacy_call(fields)
    if legacy and from_end == -1:
        return {"function_call": {**legacy, "arguments": text}}
    calls = list(list_of(fields.get("tool_calls")) or ())
    index = from_end + (1 if legacy else 0)
    calls[index] = _with_arguments(calls[index], text)
    return {"tool_calls": calls}


def _with_arguments(entry: object, text: str) -> Fields:
    fields = fields_of(entry) or {}
    function = fields_of(fields.get("function"))
    if function is not None:
        return {**fields, "function": {**function, "arguments": text}}
    return {**fields, "custom": {**(fields_of(fields.get("custom")) or {}), "input": text}}


def _result(fields: Fields, content: object) -> ToolResult:
    return read_result(
        content,
        PARTS,
        fields.get("tool_call_id"),
        name=fields.get("name"),
        is_error=fields.get("is_error") is True,
    )
