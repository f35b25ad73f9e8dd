"""Content parts of both OpenAI APIs: chat completions and Responses.

Shapes: https://platform.openai.com/docs/api-reference/chat/create and https://platform.openai.com/docs/api-reference/responses/create
(as typed in the `openai` package 2.54).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compaction_hooks.formats._json import Fields, fields_of, text_of
from compaction_hooks.formats._media import media_from_base64, media_from_url
from compaction_hooks.formats._reading import BlockReader, text_block, thinking_block
from compaction_hooks.messages import Media, Text


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
