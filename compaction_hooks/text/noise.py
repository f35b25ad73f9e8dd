"""Text without the characters that only programs read."""

from __future__ import annotations

import re

_NOISE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_QUIET = bytes(code for code in range(0x100) if code in b"\t\n\r" or (code >= 0x20 and code not in (0x7F, 0xC2, 0xED)))
"""Bytes of UTF-8 that are no noise; 0xC2 begins the controls above ASCII, 0xED the halves of surrogate pairs."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def remove_noise(text: str) -> str:
    """Return the text without terminal colors, control characters and halves of surrogate pairs, which no provider accepts.

    >>> remove_noise("\\x1b[1mnpm\\x1b[0m warn")
    'npm warn'
    """
    encoded = text.encode() if text.isascii() else text.encode("utf-8", "surrogatepass")
    if not encoded.translate(None, _QUIET):
        return text
    text = _NOISE.sub("", text)
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
