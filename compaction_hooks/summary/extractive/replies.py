"""The user's short replies to questions of the assistant: a "yes" says nothing without the question, and that is open no more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from compaction_hooks.messages import Message
from compaction_hooks.summary.extractive.outline import Item, Section
from compaction_hooks.summary.extractive.statements import spoken_sentences
from compaction_hooks.summary.extractive.text import has_wide, is_asking, quote, size
from compaction_hooks.summary.extractive.told import find_terms
from compaction_hooks.summary.harness import is_request, is_summary_message, strip_harness

REPLY_TOKENS = 30
"""The most tokens of a short reply, as `text.size` counts: a longer one can be understood alone."""
QUESTION_CHARS, WIDE_CHARS = 120, 50
"""The most characters of a question, with what follows it in its message; the second for scripts without spaces."""
BEHIND_CHARS = 300
"""The most characters that follow the last question of a message which waits for a reply, such as the choices."""
TOLD_SHARE = 3
"""A line that has one of so many words of a question and its reply speaks of them: another writer tells them in other words."""
REPLY_VALUE = 5.0
"""The value of a reply: that of a request which is neither old nor new."""

ARROW = " -> "
"""Between the question and the reply, in the text of an item."""

_WORD = re.compile(r"\w[\w-]*")


class Reply(NamedTuple):
    """A short reply of the user, and the question that it answers, each on one line."""

    question: str
    answer: str

    @property
    def text(self) -> str:
        """The line of both."""
        return f"{self.question}{ARROW}{self.answer}"

    def is_kept(self, lines: Iterable[str]) -> bool:
        """Return whether one of these lines has the reply, word for word, with the question or a word of it."""
        words = _content(self.question)
        return any(
            self.text in line or (self.answer in line and not words.isdisjoint(_content(line)) and not is_asking(line))
            for line in lines
        )

    def is_told(self, lines: Iterable[str]) -> bool:
        """Return whether one of these lines speaks of the matter and does not ask: it has the names, or some of the words."""
        words = _content(self.question) | _content(self.answer)
        names = {word for word in words if any(map(str.isdigit, word))}
        told = [_content(line) for line in lines if not is_asking(line)]
        if names:
            return any(names <= spoken for spoken in told)
        return any(TOLD_SHARE * len(words & spoken) >= len(words) for spoken in told) and words != set()


def read_reply(asking: Message, answering: Message) -> Reply | None:
    """Return the short reply that a message of the user gives to the question at the end of the message before; None without."""
    if asking.role != "assistant" or answering.role != "user" or asking.calls or is_summary_message(answering):
        return None
    answer = strip_harness(answering.text).strip()
    if size(answer) > REPLY_TOKENS or not is_request(answer):
        return None
    question = _find_question(asking)
    return Reply(question, quote(answer, len(answer))) if question else None


def find_replies(messages: Iterable[Message]) -> list[Reply]:
    """Return the user's short replies to questions, oldest first."""
    return [reply for before, message in pairwise(messages) if (reply := read_reply(before, message)) is not None]


def parse_reply(text: str) -> Reply:
    """Read back the line of a question and its reply."""
    question, _, answer = text.rpartition(ARROW)
    return Reply(question, answer)


def reply_items(replies: Iterable[Reply], earlier: Iterable[Item], max_size: float) -> list[Item]:
    """Return the newest replies with their questions, oldest first: as many as fit `max_size`, one in any case.

    Args:
        earlier: Those of an earlier summary.
    """
    texts = [item.text for item in earlier] + [reply.text for reply in replies]
    chosen: list[Item] = []
    for text in dict.fromkeys(reversed(texts)):
        max_size -= size(text)
        if chosen and max_size < 0:
            break
        chosen.append(Item(section=Section.REPLIES, text=text, value=REPLY_VALUE, must=True))
    return chosen[::-1]


def _find_question(message: Message) -> str:
    """Return the questions in a row at the end of a message, with what follows them; "" if it does not end with any."""
    spoken = spoken_sentences(message.text)
    last = max((at for at, sentence in enumerate(spoken) if is_asking(sentence)), default=-1)
    if last < 0 or sum(map(len, spoken[last + 1 :])) > BEHIND_CHARS:
        return ""
    first = last
    while first and is_asking(spoken[first - 1]):
        first -= 1
    question = " ".join(spoken[first:])
    return quote(question, WIDE_CHARS if has_wide(question) else QUESTION_CHARS)


def _content(text: str) -> set[str]:
    """Return the words that a text is about: long ones and those with a digit; of a script without spaces pairs of characters."""
    words = {word for word in _WORD.findall(text.lower()) if word.isascii() or not has_wide(word)}
    telling = {word for word in words if len(word) > 3 or any(map(str.isdigit, word))}
    return telling | {term for term in find_terms(text) if has_wide(term)}
