"""Media identified by their content, so that the same image has the same identity in every format."""

from __future__ import annotations

import hashlib
from typing import Final

from compaction_hooks.messages import Media

_URL_SAFE: Final = str.maketrans("-_", "+/")


def media_from_base64(data: str, media_type: str, *, name: str = "") -> Media:
    """Return media identified by the hash of its bytes, or of the text itself if that is not base64."""
    import base64  # few conversations hold media

    try:
        raw = base64.b64decode(data)
    except ValueError:
        raw = _bytes(data)
    return Media(media_type, hashlib.sha256(raw).hexdigest(), name=name, data_chars=len(data))


def media_from_data(data: object, media_type: str, *, name: str = "") -> Media | None:
    """Return media from bytes, as Google's and Amazon's clients hold them, or from base64 of either alphabet; None without data."""
    if isinstance(data, bytes) and data:
        return Media(media_type, hashlib.sha256(data).hexdigest(), name=name, data_chars=base64_chars(len(data)))
    return (
        media_from_base64(data.translate(_URL_SAFE), media_type, name=name) if isinstance(data, str) and data else None
    )


def base64_chars(size: int) -> int:
    """Return the characters that bytes of this size take as base64."""
    return (size + 2) // 3 * 4


def media_from_url(url: str, kind: str, *, low_detail: bool = False, name: str = "") -> Media:
    """Return media identified by the hash of the bytes in a data URL, or by reference for any other URL.

    Args:
        kind: MIME type or its first half, used if the URL does not state one.
    """
    if not url.startswith("data:"):
        return Media(kind, url, is_reference=True, low_detail=low_detail, name=name)

    header, _, body = url[len("data:") :].partition(",")
    media_type = header.partition(";")[0] or kind
    if header.endswith(";base64"):
        identity = media_from_base64(body, media_type).identity
    else:
        from urllib.parse import unquote_to_bytes  # rarely needed, and slow to import

        identity = hashlib.sha256(unquote_to_bytes(_bytes(body))).hexdigest()
    return Media(media_type, identity, low_detail=low_detail, name=name, data_chars=len(body))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
