"""Formats of providers' own messages: OpenAI chat (the default), Anthropic, OpenAI Responses, Gemini, Bedrock Converse.

Each has a module. `_dict_format` is the base of all, with the changes of contents that they share; `_block_format` that of
Anthropic, Gemini and Converse. `_reading` has the readers of blocks and media, `_owners` knows which messages are of which
format. Below these are fields, JSON and Gemini's signatures. `answers` reads the usage, the stop reason and the sealed items of
responses.

`media_from_base64` and `media_from_url` identify media for formats of other frameworks, so that the same image has the same
identity in all of them; `block_content` does the same for blocks of tools that a provider runs itself. `as_json_text` and
`json_object` write and read the arguments of a tool call, `last_cache_mark` and `marked_content` read and write
`cache_control`. `merge_rows` and `merged_content` write user messages in a row as one. `read_answer` reads the usage and the
stop reason of a provider's response.
"""

from collections.abc import Iterable
from typing import Final

from compaction_hooks.formats._dict_format import (
    DictFormat,
    last_cache_mark,
    marked_content,
    merge_rows,
    merged_content,
)
from compaction_hooks.formats._json import as_json_text, block_content
from compaction_hooks.formats._owners import find_owner
from compaction_hooks.formats._reading import media_from_base64, media_from_url
from compaction_hooks.formats.answers import read_answer
from compaction_hooks.formats.anthropic import AnthropicFormat
from compaction_hooks.formats.bedrock_converse import BedrockConverseFormat
from compaction_hooks.formats.gemini import GeminiFormat
from compaction_hooks.formats.openai_chat import OpenAIChatFormat
from compaction_hooks.formats.openai_responses import OpenAIResponsesFormat
from compaction_hooks.text.json_text import json_object

__all__ = [
    "AnthropicFormat",
    "BedrockConverseFormat",
    "GeminiFormat",
    "OpenAIChatFormat",
    "OpenAIResponsesFormat",
    "as_json_text",
    "block_content",
    "format_of",
    "json_object",
    "last_cache_mark",
    "marked_content",
    "media_from_base64",
    "media_from_url",
    "merge_rows",
    "merged_content",
    "read_answer",
]


_FORMATS: Final[dict[str, DictFormat]] = {
    type(one).__name__: one
    for one in (
        OpenAIChatFormat(),
        OpenAIResponsesFormat(),
        AnthropicFormat(),
        GeminiFormat(),
        BedrockConverseFormat(),
    )
}


def format_of(messages: Iterable[object]) -> DictFormat | None:
    """Return the format of the first message that only one format can have written; None if there is none (plain text)."""
    owner = next(filter(None, map(find_owner, messages)), None)
    return None if owner is None else _FORMATS[owner.name]
