"""Texts of a conversation, made safe to show."""

from __future__ import annotations

import re
from typing import Final

_HIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that turn the direction of text around, and halves of characters, which no file can hold."""
_PICTURES: Final = 0x2400
"""Where Unicode has a picture of each control character below 32."""


def visible(text: str) -> str:
    r"""Return a text in which characters that act on the text around them are shown instead.

    >>> visible("\x1b[1mbold\r\nsafe\u202etxt.exe\u200e")
    '␛[1mbold\nsafe[U+202E]txt.exe[U+200E]'
    """
    return _HIDDEN.sub(_name, text.replace("\r\n", "\n").replace("\r", "\n"))


def _name(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(_PICTURES + code) if code < 32 else f"[U+{code:04X}]"
