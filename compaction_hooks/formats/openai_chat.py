"""OpenAI chat completions messages, the format of most hosts for any provider, and the content parts of both OpenAI APIs.

Shapes: https://platform.openai.com/docs/api-reference/chat/create and https://platform.openai.com/docs/api-reference/responses/create
(as typed in the `openai` package 2.54).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

from compaction_hooks.formats._dict_format import (
    DictFormat,
    Located,
    call_at,
    part_at,
    replace_result_text,
    replace_text,
    without_items,
)
from compaction_hooks.formats._json import (
    Fields,
    as_json_text,
    block_content,
    fields_of,
    list_of,
    message_fields,
    text_of,
    to_json,
)
from compaction_hooks.formats._owners import CHAT_ROLES, OPENAI_CHAT
from compaction_hooks.formats._reading import (
    ROLES,
    BlockReader,
    build_message,
    media_from_base64,
    media_from_url,
    native_summary,
    opaque,
    read_content,
    read_result,
    text_block,
    thinking_block,
)
from compaction_hooks.formats._signatures import count_detail_chars, count_signature_chars, signs_call, untie_chat
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

_ROLES: Final[Mapping[str, Role]] = {**ROLES, **dict.fromkeys(CHAT_ROLES, "tool")}

_REASONING_FIELDS: Final = ("thinking_blocks", "reasoning_details", "reasoning_content", "reasoning")
_RARE_FIELDS: Final = frozenset({*_REASONING_FIELDS, "audio", "refusal", "function_call", "provider_specific_fields"})
"""Fields of an answer in addition to its content and its tool calls."""


class OpenAIChatFormat(DictFormat):
    """Chat completions messages as dicts, TypedDicts or SDK objects; one message is one piece.

    These fields are read in addition to the documented ones: `reasoning_content`, `reasoning`, `reasoning_details` and
    `thinking_blocks` (of DeepSeek, OpenRouter and LiteLLM), LiteLLM's results of hosted tools in `provider_specific_fields`,
    `is_error` on tool messages, `is_compact_summary` or `compaction_summary` on any message. A null content, an empty list, and
    an empty text next to tool calls give no part. An unknown role gives role "other" with its text.
    """

    name = "openai_chat"
    _owner = OPENAI_CHAT

    def read(self, message: Fields, /) -> tuple[Message, ...]:
        """Read one message; exactly one piece.

        Raises:
            FormatError: "role" is missing, "content" is neither text, list nor null, or a part is of another format.
        """
        fields = message_fields(message)
        role = fields.get("role")
        if not isinstance(role, str):
            wanted = 'a chat message needs "role": one of system, developer, user, assistant, tool'
            raise self._unreadable(fields, wanted)

        self._refuse_parts(fields)

        neutral = _ROLES.get(role, "other")
        parts = (_result(fields),) if neutral == "tool" else tuple([located.part for located in _locate_parts(fields)])
        return (build_message(neutral, parts, fields),)

    def is_read_as(self, message: Fields, pieces: Sequence[Message], /) -> bool:
        """Return whether `read` surely still gives these pieces: a message of plain fields holds the very same text objects.

        False is no proof of a change. Texts cannot be changed in place, so a comparison by identity is enough, and takes a tenth
        of the time of reading again. Each compaction asks this of every message.
        """
        # The number of fields is compared here and below, because comparing sets of their names takes twice as long.
        (piece,) = pieces
        if not isinstance(message, dict) or piece.is_summary:
            return False
        if piece.usage is not None or piece.model is not None or piece.stop_reason is not None:
            return False

        holds = _holds_result if piece.role == "tool" else _holds_words
        try:
            return message["role"] == piece.role and holds(message, piece)
        except LookupError:  # a field or a part fewer than before
            return False

    def answer(self, message: Fields, call: PartAddress, text: str, /) -> Fields:
        """Return a tool message that answers a tool call; a function message if the call is a legacy `function_call`.

        Raises:
            ConfigurationError: the address names no tool call.
        """
        tool_call = call_at(self.read(message), call)
        if message_fields(message).get("function_call") and not tool_call.id:
            return {"role": "function", "name": tool_call.name, "content": text}
        return {"role": "tool", "tool_call_id": tool_call.id, "content": text}

    def _changes(self, fields: Fields, pieces: Sequence[Message], address: PartAddress, text: str) -> Fields:
        part = part_at(pieces, address)
        if isinstance(part, ToolResult):
            return {"content": replace_result_text(fields.get("content"), text, "text")}

        index, _, field = _locate_parts(fields)[address[1]]
        if isinstance(part, ToolCall):
            return {field: _with_arguments(fields.get(field), index, text)}
        return {field: text if field == "refusal" else replace_text(fields.get(field), index, text)}

    def drop(self, message: Fields, parts: Collection[PartAddress], /) -> Fields:
        """Return a copy without these parts of reasoning, content, audio or refusal; the others are the same objects."""
        fields = message_fields(message)
        places = _locate_parts(fields)
        gone: dict[str, set[int]] = {}
        for _, number in parts:
            gone.setdefault(places[number].field, set()).add(places[number].at)

        left = {field: without_items(fields.get(field), indexes) for field, indexes in gone.items()}
        numbers = {number for _, number in parts}
        reasoning = {number for number, located in enumerate(places) if located.field in _REASONING_FIELDS}
        if reasoning & numbers and reasoning <= numbers:
            # The other fields hold the same reasoning in another form.
            left = {**dict.fromkeys(_REASONING_FIELDS), **left}

        added = fields_of(fields.get("provider_specific_fields")) or {}
        if not added.keys().isdisjoint(left):  # LiteLLM's copies, and its native summaries
            left["provider_specific_fields"] = {key: value for key, value in added.items() if key not in left}
        made = {**fields, **{field: value for field, value in left.items() if field in fields}}
        return {key: value for key, value in made.items() if key == "content" or key not in left or value}

    def untie(self, message: Fields, /) -> Fields:
        """Return a copy with Google's placeholder as thought signature of tool calls; the message itself if it has no signature."""
        fields = message_fields(message)
        untied = untie_chat(fields)
        return message if untied is fields else untied

    def tidy(self, message: Fields, /) -> Fields:
        """Return a copy without an empty list of tool calls; the message itself if it has no such list.

        OpenAI refuses the list: "Invalid 'messages[1].tool_calls': empty array" (https://github.com/openai/openai-node/issues/1341).
        No neutral part shows it, so `repair=True` calls this method before it looks for faults in the parts.
        """
        fields = message_fields(message)
        calls = list_of(fields.get("tool_calls"))
        if calls is None or calls or fields.get("role") != "assistant":
            return message
        return {key: value for key, value in fields.items() if key != "tool_calls"}

    def rename(self, message: Fields, ids: Mapping[PartAddress, str], /) -> Fields:
        """Return a copy with these ids in the addressed tool calls or result. A legacy `function_call` has no id, and stays."""
        fields = message_fields(message)
        if fields.get("role") != "assistant":
            return {**fields, "tool_call_id": ids[0, 0]}

        places = _locate_parts(fields)
        named = {places[number].at: id_ for (_, number), id_ in ids.items() if places[number].field == "tool_calls"}
        if not named:
            return message

        calls = enumerate(list_of(fields.get("tool_calls")) or ())
        made = [{**(fields_of(call) or {}), "id": named[at]} if at in named else call for at, call in calls]
        return {**fields, "tool_calls": made}

    def fill_reasoning(self, message: Fields, /) -> Fields:
        """Return a copy with an empty `reasoning_content` next to its tool calls; the message itself if none is missing."""
        fields = message_fields(message)
        if not list_of(fields.get("tool_calls")) or fields.get("reasoning_content") is not None:
            return message
        return {**fields, "reasoning_content": ""}


def _locate_parts(fields: Fields) -> list[Located]:
    """Return the parts of a message: thinking, content, audio and refusal, each entry of `tool_calls`, then `function_call`."""
    content = fields.get("content")
    parts = [Located(index, part) for index, part in enumerate(read_content(content, PARTS))]

    if fields.get("role") == "assistant":
        is_plain = _RARE_FIELDS.isdisjoint(fields)
        if not is_plain:
            parts = [*_read_native(fields), *_read_thinking(fields), *parts, *_read_other_fields(fields)]
        if calls := list_of(fields.get("tool_calls")):
            signature = 0 if is_plain else count_detail_chars(fields)
            parts += [
                Located(index, _call(call, 0 if index else signature), "tool_calls") for index, call in enumerate(calls)
            ]
        if not is_plain and (legacy := fields_of(fields.get("function_call"))):
            parts.append(Located(0, _read_function_call(legacy), "function_call"))

    if content == "" and all(isinstance(located.part, Thinking) for located in parts):
        # OpenAI accepts an empty text; it refuses null or an empty list in a message without other content.
        parts.append(Located(0, Text("")))
    return parts


def _read_native(fields: Fields) -> list[Located]:
    """Return the newest of Anthropic's own summaries that LiteLLM puts in front of the answer; they are one field."""
    added = fields_of(fields.get("provider_specific_fields")) or {}
    blocks = [block for block in map(fields_of, list_of(added.get(_NATIVE)) or ()) if block]
    return [Located(0, part, _NATIVE) for block in blocks if (part := native_summary(block, _NATIVE))][-1:]


def _read_other_fields(fields: Fields) -> list[Located]:
    """Return the parts that an assistant's message holds next to its content."""
    parts: list[Located] = []
    if audio := fields_of(fields.get("audio")):
        # Audio is sent back by its id alone (https://platform.openai.com/docs/guides/audio); the answer holds the sound too.
        id_, data = text_of(audio.get("id")), text_of(audio.get("data"))
        part = media_from_base64(data, "audio") if data and not id_ else Media("audio", id_, is_reference=True)
        parts.append(Located(0, part, "audio"))
    if refusal := text_of(fields.get("refusal")):
        parts.append(Located(0, Text(refusal), "refusal"))

    added = fields_of(fields.get("provider_specific_fields")) or {}
    blocks = [block for name in _HOSTED_RESULTS for block in list_of(added.get(name)) or ()]
    return parts + [Located(0, _read_hosted_result(block), "provider_specific_fields") for block in blocks]


_NATIVE: Final = "compaction_blocks"
"""The key in `provider_specific_fields` of LiteLLM (1.109) for Anthropic's own summaries, which it sends in front of the answer."""

_HOSTED_RESULTS: Final = ("web_search_results", "tool_results")
"""The keys in `provider_specific_fields` of LiteLLM (1.109) for results of Anthropic's hosted tools; their calls are tool calls."""


def _read_hosted_result(block: object) -> Opaque:
    """Read a result of a hosted tool as a kind of its own: Anthropic's rules do not hold for the field of a chat message."""
    name = text_of((fields_of(block) or {}).get("type"))
    return Opaque("hosted_tool_result", to_json(block), name=name, content=block_content(block))


def _read_thinking(fields: Fields) -> list[Located]:
    # LiteLLM and OpenRouter give the same reasoning twice. The blocks are read, since their signatures must be sent back.
    added = fields_of(fields.get("provider_specific_fields")) or {}

    for key in ("thinking_blocks", "reasoning_details"):
        blocks = enumerate(map(fields_of, list_of(fields.get(key)) or list_of(added.get(key)) or ()))
        thinking = [
            Located(index, thinking_block(block) or opaque(block), key)
            for index, block in blocks
            if block is not None and not signs_call(block, fields)
        ]
        if thinking:
            return thinking

    texts = [(key, text) for key in ("reasoning_content", "reasoning") if (text := text_of(fields.get(key)))]
    if not texts and fields.get("reasoning_content") == "" and fields.get("tool_calls"):
        texts = [("reasoning_content", "")]  # DeepSeek asks for the field next to tool calls, and takes an empty one
    return [Located(0, Thinking(text), key) for key, text in texts[:1]]


def _read_function_call(function: Fields, id_: str = "", opaque_chars: int = 0) -> ToolCall:
    return ToolCall(id_, text_of(function.get("name")), as_json_text(function.get("arguments")), opaque_chars)


def _call(entry: object, signature: int) -> Part:
    """Read an entry of `tool_calls`.

    Args:
        signature: The length of its signature, if the message has it in another field; else 0.
    """
    fields = fields_of(entry) or {}
    function = fields_of(fields.get("function"))
    if function is not None:
        signature = signature or count_signature_chars(fields, function)
        return _read_function_call(function, text_of(fields.get("id")), signature)

    custom = fields_of(fields.get("custom"))
    if custom is not None:
        id_, name = text_of(fields.get("id")), text_of(custom.get("name"))
        return ToolCall(id_, name, as_json_text(custom.get("input")), signature)
    return Opaque(text_of(fields.get("type")) or "tool_call", to_json(entry), content=block_content(entry))


def _holds_result(message: Fields, piece: Message) -> bool:
    """Return whether a tool's message has plain fields, with the very result that was read from it."""
    result = cast("ToolResult", piece.parts[0])
    return (
        message["content"] is result.text
        and message["tool_call_id"] == result.call_id
        and (len(message) == 4 and message["name"] == result.name if result.name else len(message) == 3)
        and not result.is_error
        and not result.media
    )


def _holds_words(message: Fields, piece: Message) -> bool:
    """Return whether a message has plain fields, with the very text and tool calls that were read from it."""
    content, parts = message["content"], piece.parts
    spoken = 0 if content is None or (content == "" and len(message) > 2) else 1  # next to calls it is no part
    if spoken and (not isinstance(first := parts[0], Text) or first.text is not content):
        return False
    if len(message) == 2:
        return len(parts) == spoken

    calls = cast("Sequence[Fields] | None", message["tool_calls"])
    if piece.role != "assistant" or not isinstance(calls, list) or len(message) != 3:
        return False
    return len(parts) == spoken + len(calls) and all(map(_is_call_of, calls, parts[spoken:]))


def _is_call_of(entry: Fields, part: Part) -> bool:
    """Return whether an entry of `tool_calls` has plain fields, with the very arguments of this part."""
    if not isinstance(entry, dict) or not isinstance(part, ToolCall) or len(entry) != 3 or "type" not in entry:
        return False

    function = cast("Fields | None", entry["function"])
    return (
        isinstance(function, dict)
        and function["arguments"] is part.arguments
        and function["name"] == part.name
        and len(function) == 2
        and entry["id"] == part.id
        and not part.opaque_chars
    )


def _with_arguments(written: object, index: int, text: str) -> object:
    """Return `tool_calls`, or the fields of `function_call`, with other arguments in the tool call at an index."""
    calls = list_of(written)
    if calls is None:
        return {**(fields_of(written) or {}), "arguments": text}

    entry = fields_of(calls[index]) or {}
    name, key = ("function", "arguments") if fields_of(entry.get("function")) is not None else ("custom", "input")
    made = {**entry, name: {**(fields_of(entry.get(name)) or {}), key: text}}
    return [*calls[:index], made, *calls[index + 1 :]]


def _result(fields: Fields) -> ToolResult:
    return read_result(
        fields.get("content"),
        PARTS,
        fields.get("tool_call_id"),
        name=fields.get("name"),
        is_error=fields.get("is_error") is True,
    )


def _refusal(fields: Fields) -> Text | None:
    refusal = fields.get("refusal")
    return Text(refusal) if isinstance(refusal, str) else None


def _image(fields: Fields) -> Media | None:
    """Read `image_url` (an object with the URL, or the URL) and `input_image` (the URL or a file id)."""
    value = fields.get("image_url")
    nested = fields_of(value) or {"url": value}
    is_low = nested.get("detail") == "low" or fields.get("detail") == "low"
    url = text_of(nested.get("url"))

    if url:
        return media_from_url(url, "image", low_detail=is_low)
    file_id = text_of(fields.get("file_id"))
    return Media("image", file_id, is_reference=True, low_detail=is_low) if file_id else None


def _audio(fields: Fields) -> Media | None:
    audio = fields_of(fields.get("input_audio")) or {}
    data = text_of(audio.get("data"))
    return media_from_base64(data, f"audio/{text_of(audio.get('format')) or 'wav'}") if data else None


def _file(fields: Fields) -> Media | None:
    """Read `file` (an object with the fields) and `input_file` (the fields themselves)."""
    file = fields_of(fields.get("file")) or fields
    data, name = text_of(file.get("file_data")), text_of(file.get("filename"))

    if data.startswith("data:"):
        return media_from_url(data, "application", name=name)
    if data:
        return media_from_base64(data, "application", name=name)
    reference = text_of(file.get("file_id")) or text_of(file.get("file_url"))
    return Media("application", reference, is_reference=True, name=name) if reference else None


PARTS: Final[Mapping[str, BlockReader]] = {
    "text": text_block,
    "input_text": text_block,
    "output_text": text_block,
    "refusal": _refusal,
    "image_url": _image,
    "input_image": _image,
    "computer_screenshot": _image,
    "input_audio": _audio,
    "file": _file,
    "input_file": _file,
    "thinking": thinking_block,
    "redacted_thinking": thinking_block,
}
