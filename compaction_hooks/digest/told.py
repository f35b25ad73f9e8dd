"""Facts that a summary goes on telling: sentences of a conversation without tools, in any script, and notes of other writers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.statements import SENTENCE_CHARS, is_small_talk, spoken_sentences
from compaction_hooks.digest.text import calls_for_reply, has_wide, is_asking, one_line, quote
from compaction_hooks.harness import is_foreign_summary, is_request
from compaction_hooks.messages import Message

SHORT_CHARS, SHORT_WIDE_CHARS = 60, 20
"""Small talk below this length, without a name in it, tells nothing; the second for scripts without spaces."""
MINIMUM_LETTERS = 0.45
"""The part of a sentence that must be letters: code and tables have less, a sentence with a telephone number has more."""
TALK = 0.4
"""Factor for longer small talk, and for the part of a question's value that its names give."""

_PREFERENCE = re.compile(
    r"\b(?:my name is|i am|i'm|i like|i love|i enjoy|i prefer|i hate|i want|i need|i live|i work|my \w+ (?:is|are|was)|"
    r"favou?rite|birthday|call me|ich bin|ich mag|je suis|j'aime|me llamo|me gusta)\b"
    r"|我叫|我是|我喜欢|我喜歡|我爱|我愛|我最|我想|我要|我住|我的|喜欢|生日|私は|好き",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[A-Z]{3,}(?:[ _-][A-Z]{2,}){0,3}:\s")
"""A label in capitals, such as "NOTE:": its writer wants the sentence to be noticed."""
_TERM = re.compile(r"[^\W\d_]{2,}|\d+")
_QUOTED = re.compile(r"[\"“《「『](?=\S)[^\"”》」』\n]{2,60}[\"”》」』]")
_PROPER = re.compile(r"(?<=[a-z,;:'’(\"“] )[A-Z][\w'’.-]+(?: (?:[A-Z][\w'’.-]+|of|the|and|&))*")
_ENUMERATION = re.compile(r"、|, (?:and |or )?|和")
_NUMBER = re.compile(r"\d+")
_DATE = re.compile(r"\[\d{4}-\d\d?-\d\d?\]\s*")


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
    terms = [find_terms(_DATE.sub("", sentence)) for _, _, sentence in spoken]
    frequency = Counter(term for each in terms for term in each)

    rated: list[tuple[float, Item]] = []
    for index, (section, group, sentence) in enumerate(spoken):
        # Its difference from the other sentences, for its length; 0 for a sentence without words.
        rarity = sum(math.log((len(spoken) + 1) / frequency[term]) for term in terms[index]) / (len(terms[index]) + 4)
        value = _rate(sentence, section, rarity)
        if value > 0:
            age = 0.7 + 0.3 * index / len(spoken)
            rated.append((-value * age, Item(section, quote(sentence, SENTENCE_CHARS), group, place=index)))
    return [item for _, item in sorted(rated)]


def _rate(sentence: str, section: Section, rarity: float) -> float:
    """Return the value of a sentence: its rarity, and its names, titles, numbers, enumerations and preferences."""
    body = _DATE.sub("", sentence)
    names = len(_QUOTED.findall(body)) + len(_PROPER.findall(body))
    is_talk = is_small_talk(body)
    letters = sum(map(str.isalpha, body))
    is_short = len(body) < (SHORT_WIDE_CHARS if has_wide(body) else SHORT_CHARS)
    if rarity == 0 or letters < MINIMUM_LETTERS * len(body) or (is_talk and is_short and not names):
        return 0.0

    bonus = (
        1.5 * min(names, 4)
        + 0.5 * math.sqrt(len(_NUMBER.findall(body)))
        + 0.3 * min(len(_ENUMERATION.findall(body)), 5)
    )
    if section is Section.USER_FACTS:
        bonus += 1.5 + 1.5 * bool(_PREFERENCE.search(body) or _LABEL.match(body)) + 0.5 * bool(_DATE.match(sentence))
    if is_asking(body):
        bonus *= TALK
    return (rarity + bonus) * (TALK if is_talk and not _QUOTED.search(body) else 1.0)


def find_terms(sentence: str) -> set[str]:
    """Return the words of a sentence in lower case; in a script without spaces, its pairs of characters."""
    terms: set[str] = set()
    for word in _TERM.findall(sentence.lower()):
        terms.update((word[i : i + 2] for i in range(len(word) - 1)) if has_wide(word[0]) else (word,))
    return terms


NOTE_CHARS = 400
"""The most characters of one line of a summary by another writer."""


def note_items(notes: Iterable[Item]) -> list[Item]:
    """Return notes on one line each. The first is worth most: other writers begin with the most important points."""
    return [item._replace(text=one_line(item.text, NOTE_CHARS), place=at) for at, item in enumerate(notes)]
