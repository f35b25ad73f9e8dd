"""Gemini contents: parts of text, media, function calls and their responses, thought signatures.

Shapes: https://ai.google.dev/api/caching#Content, in the camelCase of the API and the snake_case of google-genai (3.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Final

from compaction_hooks.formats._block_format import BlockFormat
from compaction_hooks.formats._dict_format import Located
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
from compaction_hooks.formats._owners import GEMINI
from compaction_hooks.formats._reading import content_blocks, media_from_data, media_from_url
from compaction_hooks.formats._signatures import PLACEHOLDER, sealed_chars
from compaction_hooks.messages import (
    Media,
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

_ROLES: Final[Mapping[str, Role]] = {
    "": "user",
    "user": "user",
    "function": "user",
    "model": "assistant",
    "system": "system",
}

_OUTPUTS: Final = ("output", "result", "error", "return_value", "content")
"""Keys under which hosts put a result that is a text, since the API takes objects only: Google's client and ADK, pydantic-ai."""

_HOSTED: Final = ("executable_code", "code_execution_result", "tool_call", "tool_response")
"""Parts of tools that Google runs itself."""


class GeminiFormat(BlockFormat):
    """Gemini contents as dicts, or objects of the `google-genai` package.

    A user content that mixes function responses with text has one piece for each group of adjacent responses ("tool") and one for
    each group of other parts ("user"), in their order. Each part of a content is one part.

    A call's id is optional, and Google's client leaves it out of the response that it makes. Without one the neutral id is the
    name, with a number from the second such call or response of one name in a content on; a reader of the whole list finds
    the call that such a response answers, by name and order (`pairing`).
    """

    name = "gemini"
    _owner = GEMINI
    _content = "parts"
    _answering_role = "model"
    _merged_roles = ("user", "model", "function")

    def request(self, text: str, /) -> Fields:
        """Return a new user content with this text."""
        return {"role": "user", "parts": [{"text": text}]}

    def take(self, message: Fields, pieces: Sequence[int], /) -> Fields:
        """Return a content with the parts of these pieces; the content itself if these are all pieces."""
        read = self.read(message)
        return self._number(super().take(message, pieces), [part for i in pieces for part in read[i].results])

    def drop(self, message: Fields, parts: Collection[PartAddress], /) -> Fields:
        """Return a copy without these parts; the other parts are the same objects."""
        listed = [
            ((i, place), part) for i, piece in enumerate(self.read(message)) for place, part in enumerate(piece.parts)
        ]
        kept = [part for address, part in listed if isinstance(part, ToolResult) and address not in parts]
        return self._number(super().drop(message, parts), kept)

    def untie(self, message: Fields, /) -> Fields:
        """Return a copy with Google's placeholder as signature of tool calls, and no signature in other parts."""
        fields = message_fields(message)
        blocks = content_blocks(fields.get("parts"))
        untied = [_untie(block) for block in blocks]
        return message if all(map(is_, untied, blocks)) else {**fields, "parts": untied}

    def _number(self, content: Fields, results: Sequence[ToolResult]) -> Fields:
        """Return a content whose responses keep their neutral ids, though others before them are gone."""
        fields = message_fields(content)
        items = [located for piece in self._pieces(fields, self._role(fields)) for located in piece]

        moved = [
            (located.at, wanted.call_id)
            for located, wanted in zip([one for one in items if isinstance(one.part, ToolResult)], results, strict=True)
            if located.part != wanted
        ]
        if not moved:
            return content

        blocks = list(content_blocks(fields.get("parts")))
        for at, id_ in moved:
            blocks[at] = self._rename_block(fields_of(blocks[at]) or {}, id_)
        return {**fields, "parts": blocks}

    def _role(self, fields: Fields) -> Role:
        if "parts" not in fields and not fields.keys() <= {"role"}:
            raise self._unreadable(
                fields, 'a Gemini content needs "parts": a list of texts, media, calls and responses'
            )
        return _ROLES.get(text_of(fields.get("role")), "other")

    def _pieces(self, fields: Fields, role: Role) -> list[list[Located]]:
        seen = Counter[str]()
        return [[_identify(located, seen) for located in piece] for piece in super()._pieces(fields, role)]

    def _read_block(self, block: object, role: Role) -> Part:
        if isinstance(block, str):
            return Text(block)
        part = fields_of(block) or {}

        if role == "assistant" and (call := fields_of(_get(part, "function_call"))) is not None:
            signature = sealed_chars(_get(part, "thought_signature"))
            return ToolCall(
                text_of(call.get("id")), text_of(call.get("name")), as_json_text(call.get("args")), signature
            )
        if role == "user" and (response := fields_of(_get(part, "function_response"))) is not None:
            return _read_response(response)

        return _read_media(part) or _read_text(part, role) or _opaque(part)

    def _failure(self, call: ToolCall, text: str) -> Fields:
        # Alone in its content, the answer to a second call of one name would be read as that of the first.
        number = {"id": call.id} if call.id != call.name else {}
        return {"functionResponse": {**number, "name": call.name, "response": {"error": text}}}

    def _rename_block(self, block: Fields, id_: str) -> Fields:
        key = next(key for name in ("function_response", "function_call") if (key := _key(block, name)) in block)
        return {**block, key: {**(fields_of(block[key]) or {}), "id": id_}}

    def _rewrite_block(self, block: Fields, part: Text | Media | ToolCall | ToolResult, text: str) -> object:
        match part:
            case ToolResult():
                key = _key(block, "function_response")
                response = {name: value for name, value in (fields_of(block[key]) or {}).items() if name != "parts"}
                return {**block, key: {**response, "response": {_output_key(response.get("response")): text}}}
            case ToolCall():
                key = _key(block, "function_call")
                return {**block, key: {**(fields_of(block[key]) or {}), "args": json_object(text)}}
            case Text():
                return {**block, "text": text}
            case Media():
                return {"text": text}


def _untie(block: object) -> object:
    part = fields_of(block) or {}
    key = _key(part, "thought_signature")
    if not part.get(key) or part[key] in (PLACEHOLDER, PLACEHOLDER.encode()):
        return block
    if _get(part, "function_call") is None:
        return {name: value for name, value in part.items() if name != key}
    return {**part, key: PLACEHOLDER if isinstance(part[key], str) else PLACEHOLDER.encode()}


def _read_response(response: Fields) -> ToolResult:
    """Read a `functionResponse`: its text under the usual key, else its JSON; and the media next to it."""
    given = response.get("response")
    fields = fields_of(given)
    (key,) = fields if fields is not None and len(fields) == 1 else ("",)
    parts = [_read_media(fields_of(part) or {}) for part in list_of(response.get("parts")) or ()]

    return ToolResult(
        text_of(response.get("id")),
        as_json_text(fields[key] if fields is not None and key in _OUTPUTS else given),
        text_of(response.get("name")),
        fields is not None and "error" in fields,
        tuple(filter(None, parts)),
    )


def _output_key(response: object) -> str:
    """Return the key for another text in place of a response; a failure stays one."""
    fields = fields_of(response) or {}
    return (
        "error"
        if "error" in fields
        else next((key for key in fields if [key] == [*fields] and key in _OUTPUTS), "output")
    )


def _identify(located: Located, seen: Counter[str]) -> Located:
    """Return a call or a response without an id with one made of its name; any other part as it is."""
    part = located.part
    if not isinstance(part, ToolCall | ToolResult) or (part.id if isinstance(part, ToolCall) else part.call_id):
        return located
    seen[part.name] += 1
    id_ = part.name if seen[part.name] == 1 else f"{part.name}#{seen[part.name]}"
    changed = replace(part, id=id_) if isinstance(part, ToolCall) else replace(part, call_id=id_)
    return located._replace(part=changed)


def _read_text(part: Fields, role: Role) -> Text | Thinking | None:
    words = part.get("text")
    signature = sealed_chars(_get(part, "thought_signature"))
    if part.get("thought") is True and role == "assistant":
        return Thinking(text_of(words), signature)
    if isinstance(words, str) and words:
        return Text(words)
    # The signature of an answer may come in a part of its own, without any text.
    return Thinking("", signature) if signature else Text("") if words == "" else None


def _read_media(part: Fields) -> Media | None:
    """Read bytes sent along, or the address of a file."""
    inline, file = fields_of(_get(part, "inline_data")) or {}, fields_of(_get(part, "file_data")) or {}
    media_type = text_of(_get(inline, "mime_type")) or text_of(_get(file, "mime_type")) or "application"
    name = text_of(_get(inline, "display_name")) or text_of(_get(file, "display_name"))
    address = text_of(_get(file, "file_uri"))
    if address:
        return media_from_url(address, media_type, name=name)
    return media_from_data(inline.get("data"), media_type, name=name)


def _opaque(part: Fields) -> Opaque:
    kind = next((name for name in _HOSTED if _get(part, name) is not None), "unknown")
    block = fields_of(_get(part, kind)) or part
    return Opaque(kind, to_json(part), name=text_of(block.get("name")), content=block_content(block))


def _get(fields: Fields, name: str) -> object:
    """Return a field by its name in snake_case, in whichever case it is written."""
    return fields.get(_key(fields, name))


def _key(fields: Fields, name: str) -> str:
    """Return the name of a field as it is written: camelCase if the fields have it, else snake_case."""
    first, *rest = name.split("_")
    camel = first + "".join(map(str.capitalize, rest))
    return camel if camel in fields else name
