"""Translates images, documents and other media, as agents write them, to Anthropic's blocks."""

from __future__ import annotations

from typing import Final

from compaction_hooks.replay.readers.values import text
from compaction_hooks.replay.recorded import Fields

_URL_SAFE: Final = str.maketrans("-_", "+/")


def media_block(media_type: str, *, data: object = None, url: object = None) -> Fields | None:
    """Return the block for bytes in base64 (of either alphabet) or for a URL, including data URLs; None if there is neither.

    Args:
        media_type: MIME type or its first half, the type of the block; anything but image, audio and video is a document.
    """
    encoded, address = text(data), text(url)
    if not encoded and address.startswith("data:"):
        header, _, encoded = address.removeprefix("data:").partition(",")
        media_type = header.partition(";")[0] or media_type

    if encoded:
        source = {"type": "base64", "media_type": media_type, "data": encoded.translate(_URL_SAFE)}
    elif address:
        source = {"type": "url", "url": address}
    else:
        return None
    return {"type": _block_type(media_type), "source": source}


def _block_type(media_type: str) -> str:
    kind = media_type.partition("/")[0] or "image"
    return kind if kind in ("image", "audio", "video") else "document"
