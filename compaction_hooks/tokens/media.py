"""Images, documents and sounds: their learned sizes, and the line that takes their place in a view."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from compaction_hooks.messages import Media, Message, Part, ToolResult
from compaction_hooks.tokens.estimator import TokenEstimator

PLACEHOLDER_NAME_CHARS: Final = 80
"""The most that a placeholder shows of a file's name, id or URL."""


def find_media(part: Part) -> tuple[Media, ...]:
    """Return the media that a part is or holds."""
    match part:
        case Media():
            return (part,)
        case ToolResult(media=media):
            return media
        case _:
            return ()


def describe_left_out(part: Part) -> str:
    """Return the text in place of a user's media, or of a result that holds media: it names the media left out.

    >>> describe_left_out(Media("application/pdf", "file-123", is_reference=True, name="report.pdf"))
    '[Left out, the request was too large with it: application/pdf "report.pdf"]'
    """
    match part:
        case Media():
            return _placeholder(part)
        case ToolResult():
            return "\n".join(filter(None, (part.text, *map(_placeholder, part.media))))
        case _:
            return ""


def _placeholder(media: Media) -> str:
    name = f"sha256 {media.identity[:12]}" if not media.name and not media.is_reference else ""
    return f"[Left out, the request was too large with it: {name_media(media)}{name and ' ' + name}]"


def name_media(media: Media) -> str:
    """Return the type of media, with the name of their file, or its id or address, on one line and cut."""
    if media.name:
        name = json.dumps(" ".join(media.name.split())[:PLACEHOLDER_NAME_CHARS], ensure_ascii=False)
    else:
        name = media.identity[:PLACEHOLDER_NAME_CHARS] if media.is_reference else ""
    return f"{media.media_type} {name}".strip()


class LearnedMedia:
    """An estimator that has learned the size of some media, which no message tells.

    Args:
        estimator: Sizes everything else.
    """

    def __init__(self, estimator: TokenEstimator) -> None:
        self._estimator = estimator
        self._unseen: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The estimator's name."""
        return self._estimator.name

    def learn(self, media: Media, tokens: int) -> None:
        """Add `tokens` to the size that the estimator gives these media."""
        self._unseen[media.identity] = self._unseen.get(media.identity, 0) + tokens

    def estimate_tokens(self, text: str, /) -> int:
        """Return the tokens of a bare text."""
        return self._estimator.estimate_tokens(text)

    @property
    def upper_bound(self) -> Callable[[str], int] | None:
        """The estimator's upper bound of a text in tokens; None if it has none."""
        return getattr(self._estimator, "upper_bound", None)

    def estimate_message_tokens(self, message: Message, /) -> int:
        """Return the tokens of a message."""
        tokens = self._estimator.estimate_message_tokens(message)
        if not self._unseen:
            return tokens
        return tokens + sum(self._unseen.get(media.identity, 0) for part in message.parts for media in find_media(part))
