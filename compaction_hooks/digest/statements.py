"""The user's requests, word for word, and the sentences of a message."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from compaction_hooks.digest.outline import Item, Section, parse
from compaction_hooks.digest.steps import age_refusals
from compaction_hooks.digest.text import (
    cut_middle,
    has_wide,
    opening,
    sentences,
    size,
    without_code,
)
from compaction_hooks.files import remove_file_tags
from compaction_hooks.harness import is_request, is_summary_message, strip_harness, without_draft
from compaction_hooks.messages import Message
from compaction_hooks.text.escaping import neutralize

SENTENCE_CHARS = 300
"""The most characters of a sentence in an item."""
OLD_REQUEST_CHARS = 400
"""The most characters of a request that is neither the first nor the newest; 90 % of 3,037 recorded ones are not longer."""
OPENING_CHARS = 90
"""The characters that are left of such a request when they have no room."""
OPENING_REQUESTS = 3
"""Requests at the beginning that count more than their age says: they set the subject."""
BETWEEN_SHARES = (0.3, 0.5)
"""The least and the most of the room of the first and the newest request that is left to those between them: many are one short
line. They have more than the least if the newest does not need it."""
CUT_SHARE = 0.75
"""A request is only cut if at most this part of it fits: less than that saves little more than its marker takes."""
PROSE_CHARS, SHORT_CHARS = 15, 8
"""The least characters of a sentence, and of one that limits something: "Use tabs."."""
MAX_SENTENCES, MAX_SENTENCE_CHARS = 2_000, 1_000
"""The most sentences of a message that are read from each end, and characters of each: a larger text was pasted."""
QUOTED_CHARS = 40
"""The characters at the beginning of a request that a quotation shares with it."""

_SMALL_TALK = re.compile(
    r"(?:\[[\d-]{8,10}\]\s*)?(?:(?:ah|oh|yes|yeah|no)[,!.]? )*(?:you(?:'?re| are) (?:\w+ )?(?:right|correct)\b|"
    r"(?:hi|hello|hey|thanks|thank you|ok|okay|great|sure|of course|certainly|no problem|you'?re welcome|"
    r"good (?:morning|evening|night|idea)|i understand|i see|i'?m (?:glad|sorry)|glad to|sounds (?:good|great|really|like)|"
    r"that'?s (?:great|good|right|true|really|wonderful|a great)|feel free|let me know|if you (?:have|need)|i hope|"
    r"i will try|i'll try|i can (?:help|assist)|i'?d be happy|i'?m here|bye|goodbye|bonjour|merci|hola|gracias|danke|hallo)\b|"
    r"(?:perfect|excellent|awesome|wonderful|amazing|fantastic|absolutely|exactly|understood|acknowledged|noted|got it)[!.:]|"
    r"你好|您好|嗨|谢谢|謝謝|感谢|感謝|多谢|不用谢|不客气|好的|当然|當然|嗯|是啊|是的|没问题|太好了|再见|哈哈|希望你|加油|"
    r"ありがとう|こんにちは)",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"\A(?:[-*+#>]+\s+|\d{1,3}[.)]\s+|\[[ xX~/-]\]\s*)+")


def request_texts(messages: Iterable[Message], earlier: Iterable[str] = ()) -> list[str]:
    """Return the user's requests, word for word and in order: without the harness's blocks, markers and summaries.

    Those that another system's summary quotes are requests too, unless a request before begins as they do. All are escaped here,
    so that a repeated request equals the one in an earlier summary.

    Args:
        earlier: Requests of an earlier summary, which come first.
    """
    requests = [*dict.fromkeys(earlier)]  # the summary of a turn's first part may quote the first one again

    for message in messages:
        if is_summary_message(message):
            known = {_beginning(request) for request in requests}
            # Before the last: the first and the last request are never dropped, and these are told by another writer.
            place = max(len(requests) - 1, 1)
            quoted = [item.text for item in _read_foreign(message) if item.section is Section.GOAL]
            requests[place:place] = [text for text in quoted if is_request(text) and _beginning(text) not in known]
        elif message.role == "user" and is_request(text := strip_harness(message.text)):
            requests.append(neutralize(text))

    return requests


def foreign_items(messages: Iterable[Message]) -> list[Item]:
    """Return the items of the summaries among the user's messages, without the requests that they quote."""
    summaries = filter(is_summary_message, messages)
    return [item for message in summaries for item in _read_foreign(message) if item.section is not Section.GOAL]


def _read_foreign(summary: Message) -> list[Item]:
    return parse(age_refusals(remove_file_tags(neutralize(without_draft(strip_harness(summary.text))))))


def _beginning(request: str) -> str:
    """Return the part of a request by which a quotation, which may be shortened, is known again."""
    return " ".join(request.split())[:QUOTED_CHARS].casefold()


def request_items(texts: Sequence[str], max_size: float, spare: float = 0.0, *, is_present: bool = False) -> list[Item]:
    """Return one item for each request, oldest first; the first, the newest and the beginnings of others are never dropped.

    Args:
        max_size: The most that the first and the newest may have together, less a part for the others: half each, more if the
            other is short.
        spare: Room, in addition, that nothing else needs: it is for the requests that would be cut, the newest first.
        is_present: Whether the newest is the user's present request, which is named if it has others before it.
    """
    texts = list(reversed(dict.fromkeys(reversed(texts))))
    if not texts:
        return []

    values = [3.0 + 2.0 * (at + 1) / len(texts) + 2.0 * (at < OPENING_REQUESTS) for at in range(len(texts))]
    limits, kept = _share_room(texts, values, max_size)
    # By text: only when it is shortened does a request, repeated in full, equal its form in an earlier summary.
    by_text: dict[str, Item] = {}

    for at in reversed(range(len(texts))):
        text, whole = texts[at], size(texts[at])
        more = max(min(whole - limits[at], spare), 0.0)
        spare -= more
        limit = limits[at] + more
        if limit < CUT_SHARE * whole:
            chars = math.ceil(limit / whole * len(text))
            text = opening(text, OPENING_CHARS) if chars < 2 * OPENING_CHARS else cut_middle(text, chars)
        by_text.setdefault(text, Item(section=Section.GOAL, text=text, value=values[at], must=at in kept))

    items = [*by_text.values()][::-1]
    if is_present and len(items) > 1:
        items[-1] = items[-1]._replace(section=Section.PRESENT)
    return items


def _share_room(texts: Sequence[str], values: Sequence[float], max_size: float) -> tuple[list[float], set[int]]:
    """Return the most that each request may take, and the places of those that are never dropped."""
    first, newest = 0, len(texts) - 1
    others = sorted({*range(len(texts))} - {first, newest}, key=lambda at: -values[at])

    # The beginnings of as many as fit, then more of them.
    limits = [min(max_size / 2, size(opening(text, OPENING_CHARS))) for text in texts]
    more = [size(text[:OLD_REQUEST_CHARS]) - limit for text, limit in zip(texts, limits, strict=True)]
    least, most = (max_size * part for part in BETWEEN_SHARES)
    room = min(max(least, max_size - size(texts[newest])), most)
    kept = _first_fitting(others, limits, room)
    longer = _first_fitting([at for at in others if at in kept], more, room - sum(limits[at] for at in kept))
    limits = [limit + more[at] if at in longer else limit for at, limit in enumerate(limits)]

    rest = max_size - sum(limits[at] for at in kept)
    limits[first] = limits[newest] = rest
    if first != newest:
        sizes = size(texts[first]), size(texts[newest])
        limits[newest], limits[first] = (max(rest / 2, rest - other) for other in sizes)
    return limits, {first, newest, *kept}


def _first_fitting(places: Iterable[int], sizes: Sequence[float], room: float) -> set[int]:
    """Return the places whose sizes fit the room together, chosen in this order."""
    chosen: set[int] = set()
    for at in places:
        if sizes[at] <= room:
            chosen.add(at)
            room -= sizes[at]
    return chosen


def spoken_sentences(text: str) -> list[str]:
    """Return the sentences of a message, at most `MAX_SENTENCES` from each end: no code, no marks of lists."""
    spoken = sentences(without_code(text))
    if len(spoken) > 2 * MAX_SENTENCES:
        spoken = spoken[:MAX_SENTENCES] + spoken[-MAX_SENTENCES:]
    return [bare for sentence in spoken if (bare := _LIST_MARK.sub("", sentence[:MAX_SENTENCE_CHARS], count=1))]


def is_small_talk(sentence: str) -> bool:
    """Return whether a sentence begins as greetings, thanks and assurances do."""
    return _SMALL_TALK.match(sentence) is not None


def is_prose(sentence: str, least_chars: int) -> bool:
    """Return whether a sentence is written rather than pasted: long enough, mostly letters, no line of a table or of code."""
    start = sentence[:SENTENCE_CHARS]
    letters = sum(map(str.isalpha, start))
    is_long = len(sentence) >= (6 if has_wide(start) else least_chars)
    return is_long and letters >= 0.6 * len(start) and not start.startswith(("|", ">", "+", "$"))
