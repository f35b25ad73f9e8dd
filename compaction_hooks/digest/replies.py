"""The user's short replies to questions of the assistant: a "yes" says nothing without the question, and that is open no more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.statements import MAX_SENTENCE_CHARS
from compaction_hooks.digest.text import (
    calls_for_reply,
    has_wide,
    one_line,
    quote,
    sentences,
    without_code,
)
from compaction_hooks.harness import is_said, is_summary_message, strip_harness
from compaction_hooks.messages import Message

REPLY_BYTES = 84
"""The most bytes of a short reply: a longer one can be understood alone."""
QUESTION_CHARS, OTHER_CHARS, ROW_CHARS = 120, 60, 300
"""The most characters of a question; of a sentence next to it, such as a choice; and of all questions and choices together."""
WIDE_PART = 0.4
"""The part of these that scripts without spaces have."""
BEHIND_CHARS = 300
"""The most characters that follow the last question of a message which waits for a reply, such as the choices."""
MOST_SENTENCES, MOST_MESSAGES = 30, 4
"""The most sentences at the end of what the assistant said that are read for questions, and of its last messages."""
MOST_CHARS = 5_000
"""The characters at its end that are split into sentences."""
ARROW = " -> "
"""Between the question and the reply, in the text of an item."""

_BULLET = re.compile(r"\A(?:[-*+•#>]+\s+|\[[ xX~/-]\]\s*)+")
_NUMBERED = re.compile(r"\A\W{0,3}(?:\d{1,2}|[A-Za-z])[.):](?:\W|\Z)")
_ENDS_WITH_NUMBER = re.compile(r"(?:\A|[:：]\s*)\W{0,3}(?:\d{1,2}|[A-Za-z])[.)]\Z")
"""The number of a list's next entry, which a sentence's end takes from it."""
_YES = re.compile(
    r"\A\W*(?:(?:yes|yep|yeah|y|ok|okay|sure|agreed|approved|go ahead|go on|proceed|continue|please do|of course|ja|klar|gern\w*|"
    r"weiter|einverstanden|oui|d'accord|vas-y|continuez|sí|si|claro|vale|adelante|continúa)\b|是|好|可以|同意|行|继续|繼續|请继续|はい|続けて|👍)",
    re.IGNORECASE,
)


def read_reply(message_at: Callable[[int], Message], at: int) -> tuple[int, str] | None:
    """Return the place of the questions that a message of the user shortly replies to, and one line with both.

    They end what the assistant said before, in one message without calls or in several in a row; None without.
    """
    answering = message_at(at)
    if answering.role != "user" or is_summary_message(answering):
        return None
    answer = strip_harness(answering.text).strip()
    if len(answer.encode("utf-8", "replace")) > REPLY_BYTES or not is_said(answer):
        return None

    text = ""
    for place in range(at - 1, max(at - 1 - MOST_MESSAGES, -1), -1):
        message = message_at(place)
        if message.role != "assistant" or message.calls:
            return None
        text = f"{message.text}\n{text}"
        if question := _find_question(text, answer):
            return place, f"{question}{ARROW}{quote(answer, len(answer))}"
    return None


def reply_items(replies: Iterable[str], earlier: Iterable[Item]) -> list[Item]:
    """Return the replies with their questions, the newest first.

    Args:
        earlier: Those of an earlier summary.
    """
    texts = dict.fromkeys([*(item.text for item in earlier), *replies])
    return [Item(Section.REPLIES, text, place=at) for at, text in enumerate(texts)][::-1]


def _find_question(text: str, answer: str) -> str:
    """Return the questions at the end of a text, with what follows and the choices before them; "" if it does not end with any."""
    raw = sentences(without_code(text)[-MOST_CHARS:])[-MOST_SENTENCES:]
    spoken = [_BULLET.sub("", sentence[:MAX_SENTENCE_CHARS], count=1) for sentence in raw]
    asks = [*map(calls_for_reply, spoken)]
    last = max((at for at, is_question in enumerate(asks) if is_question), default=-1)
    if last < 0 or sum(map(len, spoken[last + 1 :])) > BEHIND_CHARS:
        return ""

    part = WIDE_PART if has_wide(spoken[last]) else 1.0
    row = [
        one_line(spoken[at], int(part * (QUESTION_CHARS if asks[at] else OTHER_CHARS)))
        for at in range(_find_row(raw, asks, last, answer), len(spoken))
    ]
    return quote(" ".join(filter(None, row)), int(part * ROW_CHARS))


def _find_row(raw: Sequence[str], asks: Sequence[bool], last: int, answer: str) -> int:
    """Return the place of the first sentence that belongs to the last question: other questions, choices, and their first line.

    One sentence between two questions, or between a numbered list and what follows it, does not end the row. A "yes" chooses
    nothing from a list without numbers.
    """
    ends = [_ENDS_WITH_NUMBER.search(sentence) is not None for sentence in raw]
    is_numbered = [
        _NUMBERED.match(sentence) is not None or ends[at] or (at > 0 and ends[at - 1])
        for at, sentence in enumerate(raw)
    ]
    bullet = None if _YES.match(answer) else _BULLET
    is_listed = [is_numbered[at] or bool(bullet and bullet.match(sentence)) for at, sentence in enumerate(raw)]

    first = last
    while first:
        if asks[first - 1] or is_listed[first - 1]:
            first -= 1
        elif first > 1 and (asks[first - 2] or is_numbered[first - 2]):
            first -= 2
        else:
            break
    has_lead = first > 0 and is_listed[first] and raw[first - 1].endswith((":", "："))
    return first - has_lead
