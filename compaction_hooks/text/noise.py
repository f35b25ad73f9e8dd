"""Text without the characters that only programs read."""

from __future__ import annotations

import re

_NOISE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_QUIET = bytes(code for code in range(0x100) if code in b"\t\n\r" or (code >= 0x20 and code not in (0x7F, 0xC2, 0xED)))
"""Bytes of UTF-8 that are no noise; 0xC2 begins the controls above ASCII, 0xED the halves of surrogate pairs."""
_SURROGATE = re.compile("[\ud800-\udfff]")

BASE64_CHARS = 60
"""The least characters of a base64 run: encoders break lines after 64 or 76. Hashes, ids and most names are shorter."""
_BASE64_LINE = rf"[A-Za-z0-9+/]{{{BASE64_CHARS},}}={{0,2}}"
_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/])(?=(?:[A-Za-z0-9+/]{0,60}?[A-Za-z]\d){4})(?=(?:[a-z0-9+/]{0,20}[A-Z]){4})"
    rf"{_BASE64_LINE}(?:(?:\s|\\[nr])*{_BASE64_LINE})*(?:(?:\s|\\[nr])*[A-Za-z0-9+/]+=)?=?"
)
"""Capital letters, and digits right behind letters, at short distances tell it from paths and hexadecimal digits."""


def hide_base64(text: str) -> str:
    """Return the text without long runs of base64, with a marker in the place of each.

    >>> hide_base64("a photo: " + "iVBORw0KGgoAAAANSUhEUgAA" * 4)
    'a photo: [base64]'
    """
    if max(map(len, text.split()), default=0) < BASE64_CHARS:  # takes a tenth of the pattern's time
        return text
    return _BASE64.sub("[base64]", text)


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
