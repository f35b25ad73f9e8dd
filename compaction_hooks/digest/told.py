"""Facts that a summary goes on telling: sentences of a conversation without tools, in any script, and notes of other writers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.statements import SENTENCE_CHARS, is_small_talk, spoken_sentences
from compaction_hooks.digest.text import calls_for_reply, one_line, quote
from compaction_hooks.harness import is_foreign_summary, is_request
from compaction_hooks.messages import Message

NOTE_CHARS = 400
"""The most characters of one line of a summary by another writer."""
LEAST_LETTERS = 0.45
"""The part of a sentence that must be letters: code and tables have less, a sentence with a telephone number has more."""
MOST_NAMES = 4
"""The most names of a sentence that count."""

_PREFERENCE = re.compile(
    r"\b(?:my name is|i am|i'm|i like|i love|i enjoy|i prefer|i hate|i want|i need|i live|i work|my \w+ (?:is|are|was)|"
    r"favou?rite|birthday|call me|ich bin|ich mag|je suis|j'aime|me llamo|me gusta)\b"
    r"|我叫|我是|我喜欢|我喜歡|我爱|我愛|我最|我想|我要|我住|我的|喜欢|生日|私は|好き",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“《「『](?=\S)[^\"”》」』\n]{2,60}[\"”》」』]")
_PROPER = re.compile(r"(?<=[a-z,;:'’(\"“] )[A-Z][\w'’.-]+(?: (?:[A-Z][\w'’.-]+|of|the|and|&))*")


def fact_items(messages: Sequence[Message], earlier: Sequence[Item], *, has_reply: bool = False) -> list[Item]:
    """Return the sentences that tell something, the most telling first; those of one message share a line.

    A question of the assistant is only told with its reply, unless it is the last that was said.

    Args:
        messages: The conversation, or nothing when it has tools and its facts are carried otherwise.
        earlier: Facts of an earlier summary, and requests that are no longer items of their own.
        has_reply: Whether the user said something after these, in messages that are not given.
    """
    texts = [(item.section is Section.ASSISTANT_FACTS, item.text) for item in earlier]
    texts += [
        (message.role == "assistant", message.text)
        for message in messages
        if message.role in ("user", "assistant") and is_request(message.text) and not is_foreign_summary(message.text)
    ]
    spoken = [
        (Section.ASSISTANT_FACTS if is_assistants else Section.USER_FACTS, f"line {number}", sentence)
        for number, (is_assistants, text) in enumerate(texts)
        for sentence in spoken_sentences(text)
        if not (is_assistants and (has_reply or number < len(texts) - 1) and calls_for_reply(sentence))
    ]
    rated = [
        (
            -_rate(sentence, section) * (0.7 + 0.3 * at / len(spoken)),
            Item(section, quote(sentence, SENTENCE_CHARS), group, place=at),
        )
        for at, (section, group, sentence) in enumerate(spoken)
    ]
    return [item for value, item in sorted(rated) if value]


def _rate(sentence: str, section: Section) -> float:
    """Return the value of a sentence: its names and titles, and whether the user says it, of himself; 0 if it tells nothing."""
    names = len(_QUOTED.findall(sentence)) + len(_PROPER.findall(sentence))
    letters = sum(map(str.isalpha, sentence))
    if letters < LEAST_LETTERS * len(sentence) or (is_small_talk(sentence) and not names):
        return 0.0
    of_user = 0 if section is not Section.USER_FACTS else 2 if _PREFERENCE.search(sentence) else 1
    return 1.0 + 1.5 * (min(names, MOST_NAMES) + of_user)


def note_items(notes: Iterable[Item]) -> list[Item]:
    """Return notes on one line each. The first is worth most: other writers begin with the most important points."""
    return [item._replace(text=one_line(item.text, NOTE_CHARS), place=at) for at, item in enumerate(notes)]
