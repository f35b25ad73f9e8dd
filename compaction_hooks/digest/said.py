"""What the assistant said last, word for word: the task in hand, what was found out and why, in sentences.

A question that the user has answered is no longer said: an agent that read it would ask, or act on it, again.
"""

from __future__ import annotations

from collections.abc import Sequence

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.statements import is_prose, is_small_talk, spoken_sentences
from compaction_hooks.digest.text import calls_for_reply, quote, without_pasted
from compaction_hooks.messages import Message

SAID_CHARS = 400
"""The most characters of one message, its beginning and its end; in a small summary half as many as that has tokens."""
MOST_SAID = 60
"""The most messages of which something is said, the newest: a summary of the largest size has room for half."""


def said_items(messages: Sequence[Message], earlier: Sequence[Item], max_tokens: int) -> list[Item]:
    """Return an item for each message in which the assistant said something, the newest first.

    Args:
        earlier: Those of an earlier summary.
        max_tokens: The size of the new one.
    """
    chars = min(SAID_CHARS, max_tokens // 2)
    items: list[Item] = []
    is_answered = False
    for place in reversed(range(len(messages))):
        message = messages[place]
        is_answered = is_answered or message.role == "user"
        if message.role == "assistant" and (line := _tell(message, is_answered=is_answered or bool(items))):
            items.append(Item(Section.STATE, quote(line, chars), place=place + len(earlier)))
            if len(items) == MOST_SAID:
                return items

    for place in reversed(range(len(earlier))):
        line = earlier[place].text
        if is_answered or items:
            line = " ".join(each for each in spoken_sentences(line) if not calls_for_reply(each))
        if line:
            items.append(Item(Section.STATE, line, place=place))
    return items


def _tell(message: Message, *, is_answered: bool) -> str:
    """Return the sentences of a message on one line, without small talk, and without questions if they are answered."""
    sentences = spoken_sentences(without_pasted(message.text))
    told = [
        sentence
        for sentence in sentences
        if is_prose(sentence)
        and not is_small_talk(sentence)
        and not (calls_for_reply(sentence) and (is_answered or message.calls))
    ]
    return " ".join(told)
