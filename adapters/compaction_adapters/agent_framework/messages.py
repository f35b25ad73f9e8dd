"""The format of Agent Framework's messages: `Message` objects with a list of `Content` objects."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from agent_framework import Content
from agent_framework import Message as ChatMessage

from compaction_adapters.kit import PartsFormat, Pieces
from compaction_hooks import Message
from compaction_hooks.errors import FormatError
from compaction_hooks.formats import as_json_text, block_content, json_object, media_from_url, merge_rows
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

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_UNSENT: Final = ("type", "additional_properties", "raw_representation", "annotations", "merge_mode")
"""Fields of contents that are in no request of a tool that the provider runs itself."""


class AgentFrameworkFormat(PartsFormat[ChatMessage, Content]):
    """The format of `Message`. Results of tools, wherever they are, are pieces of their own with the role "tool".

    Summaries and other new messages have no `message_id` and none of the framework's own annotations, which it would take for its
    own compaction.
    """

    name = "agent_framework"

    def read(self, message: ChatMessage, /) -> Sequence[Message]:
        """Return one message as neutral ones.

        Raises:
            FormatError: the message is none of Agent Framework's.
        """
        if not isinstance(message, ChatMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise FormatError(f"messages must be agent_framework.Message, not {type(message).__name__}")
        role: Role = _ROLES.get(message.role, "other")
        is_summary = _is_summary(message)
        return tuple(
            Message(role=_role(role, piece[0]), parts=tuple(map(_part, piece)), is_summary=is_summary)
            for piece in _pieces(message)
            if piece
        ) or (Message(role=role, parts=()),)

    def summary(self, text: str, /) -> ChatMessage:
        """Return a user message with this text."""
        return ChatMessage("user", [text])

    def request(self, text: str, /) -> ChatMessage:
        """Return a user message with this text."""
        return ChatMessage("user", [text])

    def answer(self, message: ChatMessage, call: PartAddress, text: str, /) -> ChatMessage:
        """Return a message with a failed result for this call."""
        part = self.call_at(message, call)
        return ChatMessage("tool", [Content.from_function_result(part.id, result=text, exception=text)])

    def merge(self, view: list[ChatMessage], /) -> list[ChatMessage]:
        """Return the view with consecutive user messages merged; the same list if there are none."""
        return merge_rows(view, _merge_pair)

    def pieces_of(self, message: ChatMessage, /) -> Pieces[Content]:
        """Return the contents by piece: results apart from all others."""
        return [[*piece] for piece in _pieces(message)]

    def with_pieces(self, message: ChatMessage, pieces: Pieces[Content], /) -> ChatMessage:
        """Return a copy that holds these contents."""
        return _with_contents(message, [content for piece in pieces for content in piece if content is not None])

    def with_text(self, part: Content, text: str, /) -> Content:
        """Return a copy with another text, result text or arguments; media become a text."""
        match part.type:
            case "function_call":
                arguments = json_object(text) if isinstance(part.arguments, Mapping) else text
                return _changed(part, arguments=arguments)
            case "function_result":
                # A client reads the text from either field.
                return _changed(part, result=text, items=[Content.from_text(text)])
            case "text" | "text_reasoning":
                return _changed(part, text=text)
            case _:
                return Content.from_text(text)

    def with_id(self, part: Content, call_id: str, /) -> Content:
        """Return a copy of a call or a result with another id."""
        return _changed(part, call_id=call_id)


def _changed(part: Content, **fields: object) -> Content:
    """Return a copy with other fields, without the provider's object, which has the old ones."""
    changed = copy.copy(part)
    for name, value in {**fields, "raw_representation": None}.items():
        setattr(changed, name, value)
    return changed


def _with_contents(message: ChatMessage, contents: list[Content]) -> ChatMessage:
    changed = copy.copy(message)
    changed.contents = contents
    return changed


def _merge_pair(first: ChatMessage, second: ChatMessage) -> ChatMessage | None:
    if first.role != "user" or second.role != "user" or any(map(_is_result, (*first.contents, *second.contents))):
        return None
    contents = [*first.contents, *second.contents]
    number = len(first.contents) - 1
    meet = contents[max(number, 0) : number + 2]
    if len(meet) == 2 and all(content.type == "text" for content in meet):
        # Providers join the texts of one message without a separator.
        contents[number : number + 2] = [_changed(meet[1], text=f"{meet[0].text}\n\n{meet[1].text}")]
    return _with_contents(second, contents)


def with_results(messages: list[ChatMessage], name: str, text: str) -> list[ChatMessage]:
    """Return a list in which all calls of this tool have a result: those that lack one get this text, behind their message."""
    answered = {content.call_id for message in messages for content in message.contents if _is_result(content)}
    listed: list[ChatMessage] = []
    for message in messages:
        listed.append(message)
        calls = [content for content in message.contents if content.type == "function_call" and content.name == name]
        missing = [content.call_id for content in calls if content.call_id not in answered]
        if missing:
            results = [Content.from_function_result(str(call_id), result=text) for call_id in missing]
            listed.append(ChatMessage("tool", results))
    return listed


def _role(role: Role, first: Content) -> Role:
    """Return the role of a piece: next to results the framework puts a person's answers to requests for approval."""
    if _is_result(first):
        return "tool"
    return "other" if role == "tool" else role


def is_copy(message: ChatMessage, other: ChatMessage) -> bool:
    """Return whether the second message is a copy of the first, with all its fields: the framework shares their contents."""
    return message is other or vars(message) == vars(other)


def _is_summary(message: ChatMessage) -> bool:
    """Return whether the framework's own compaction made a message."""
    group: Any = message.additional_properties.get("_group")
    return isinstance(group, Mapping) and "_summary_of_message_ids" in group


# -- contents


def _pieces(message: ChatMessage) -> list[list[Content]]:
    return [list(contents) for _, contents in groupby(message.contents, _is_result)] or [[]]


def _is_result(content: Content) -> bool:
    return content.type == "function_result"


def _part(content: Content) -> Part:
    match content.type:
        case "text":
            return Text(content.text or "")
        case "text_reasoning":
            return Thinking(content.text or "", len(content.protected_data or ""))
        case "function_call" if not content.informational_only and not getattr(content, "hosted", None):
            return ToolCall(content.call_id or "", content.name or "", as_json_text(content.arguments))
        case "function_result":
            return _result(content)
        case _:
            return _media(content) or _opaque(content)


def _result(content: Content) -> ToolResult:
    """Read a result: its items are the truth, and clients send their texts one on a line."""
    items = content.items
    text = "\n".join(item.text or "" for item in items if item.type == "text") if items else str(content.result or "")
    media = tuple(found for found in map(_media, items or ()) if found is not None)
    return ToolResult(content.call_id or "", text, is_error=content.exception is not None, media=media)


def _media(content: Content) -> Media | None:
    """Read media; the framework keeps OpenAI's `detail` under its own name."""
    kind, is_low = content.media_type or "application", content.additional_properties.get("detail") == "low"
    if content.type in ("data", "uri") and content.uri:
        return media_from_url(content.uri, kind, low_detail=is_low)
    if content.type == "hosted_file" and content.file_id:
        return Media(kind, content.file_id, is_reference=True, low_detail=is_low)
    return None


def _opaque(content: Content) -> Opaque:
    """Read a call or result of a tool that the provider ran, an approval, or a kind that is not known here."""
    fields: dict[str, Any] = {name: value for name, value in content.to_dict().items() if name not in _UNSENT}
    return Opaque(
        content.type,
        as_json_text(fields),
        call_id=content.call_id or content.image_id or content.id or "",
        name=content.tool_name or content.name or "",
        content=block_content(fields),
    )
