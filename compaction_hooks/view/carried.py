"""Texts that come back after a compaction: each in tags with its name, behind the summary in its message.

1. They are in the text that the record has of that message, and in no field of its own: so undo, forks and other workers have them.
2. They are no one's words: what reads a summary's message reads it without them.
3. A text of a name takes the place of the last one. Of results, the newest of each call stays.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from compaction_hooks.text.escaping import neutralize
from compaction_hooks.text.shortening import shorten_to
from compaction_hooks.view.texts import SUMMARY_MARKER, recall_hint

CARRIED_RATIO: Final = 0.15
"""The most that all carried texts take of the target: with the summary, at most a quarter, more than half is left for messages."""
LEAST_CARRIED_CHARS: Final = 200
"""A text of which less would be left is left out: it has room for a heading and a last line."""
_OPENING: Final = "<carried "
_BLOCK: Final = re.compile(
    r"""(?:\n\n)?<carried (name="[^"\n]*"|call='[^\n]{0,99}?')(?: handle="([^"\n]*)")?>\n"""
    r"""((?:(?!\n</carried>|<carried ).)*+)\n</carried>""",
    re.DOTALL,
)
"""A text in its tags. No text has an opening tag that is not escaped: so each character is looked at once."""

logger = logging.getLogger("compaction_hooks")


class Block(NamedTuple):
    """A text that comes back, as it is in the message of a summary.

    Attributes:
        head: The name in its tag: the host's name of it, or the call whose result it is.
        handle: Names a result for the recall tool; "" without that tool.
        max_tokens: The most tokens that it may take; None: all that is left.
    """

    head: str
    text: str
    handle: str = ""
    max_tokens: int | None = None

    @property
    def is_result(self) -> bool:
        """Whether it is the result of a call."""
        return self.head.startswith("call=")

    def fit(self, room: int, estimate: Callable[[str], int]) -> str:
        """Return the text in its tags, shortened to a room in tokens; "" if too little of it would be left."""
        room = room if self.max_tokens is None else min(room, self.max_tokens)
        if room <= 0 or not self.text.strip():
            return ""

        def show(text: str) -> str:
            handle = f' handle="{self.handle}"' if self.handle else ""
            return f"<carried {self.head}{handle}>\n{neutralize(text)}\n</carried>"

        hint = recall_hint(self.handle)
        text = shorten_to(
            self.text, room, lambda short: estimate(show(short)), hint=hint, least_chars=LEAST_CARRIED_CHARS
        )
        return show(text) if text else ""


def render_carried(
    told: Iterable[Block],
    results: Iterable[Block],
    last: str,
    most_tokens: int,
    estimate: Callable[[str], int],
    *,
    keeps_last: bool,
    takes_largest: bool = False,
) -> str:
    """Return all that comes back, each text in its tags; "" for nothing.

    The host's texts have the room first, in the order of their names; then the results, the newest first. A text that does not
    fit is shortened in its middle, or left out if too little of it would be left.

    Args:
        told: The host's texts.
        results: The results that come back, oldest first; the last of several with one name.
        last: The text of the summary's message before; its results stay.
        most_tokens: The room of all.
        estimate: Size of a text in tokens.
        keeps_last: Whether the host's texts in `last` stay, too, under the names that have no new text.
        takes_largest: Whether of each call the largest result comes back, not the newest: the covered ones are not known yet.
    """
    of_host = {block.head: block for block in told}
    kept: dict[str, Block] = {}
    blocks = [*_parse(last), *results]
    for block in sorted(blocks, key=lambda block: len(block.text)) if takes_largest else blocks:
        if block.is_result:
            kept.pop(block.head, None)  # the newer one takes its place among the newest
            kept[block.head] = block
        elif keeps_last:
            of_host.setdefault(block.head, block)

    shown: dict[str, str] = {}
    for block in (*of_host.values(), *reversed(kept.values())):
        if shown_text := block.fit(most_tokens, estimate):
            shown[block.head] = shown_text
            most_tokens -= estimate(shown_text)
        elif block.text.strip():
            logger.debug("there is no room to carry <%s>", block.head)
    return "\n\n".join(shown[head] for head in (*of_host, *kept) if head in shown)


def result_block(call: str, text: str, handle: str) -> Block:
    """Return the result of a call, in one line, that comes back."""
    return Block(f"call='{call}'", text, handle)


def host_block(name: str, text: str, max_tokens: int | None) -> Block:
    """Return a text of the host that comes back."""
    name = neutralize(" ".join(name.split())).replace('"', "&quot;")
    return Block(f'name="{name}"', text, max_tokens=max_tokens)


def _parse(rendered: str) -> Iterator[Block]:
    """Yield the texts that come back in the message of a summary; they stay escaped."""
    for head, handle, text in _BLOCK.findall(rendered) if _OPENING in rendered else ():
        yield Block(head, text, handle)


def find_carried(rendered: str) -> str:
    """Return the part of a summary's message with the texts that come back; "" without any."""
    return "\n\n".join(match[0].strip("\n") for match in _BLOCK.finditer(rendered))


def has_carried(text: str) -> bool:
    """Return whether a text is a message of ours with texts that come back: not one that only quotes their tags."""
    if _OPENING not in text:
        return False
    return text.startswith(SUMMARY_MARKER) or not without_carried(text).strip()


def has_results(rendered: str) -> bool:
    """Return whether results of calls come back in the message of a summary."""
    return any(block.is_result for block in _parse(rendered))


def without_carried(rendered: str) -> str:
    """Return the message of a summary without the texts that come back."""
    return _BLOCK.sub("", rendered)
