"""The user's requests, word for word, and the sentences of a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from compaction_hooks.digest.outline import HEADING_TOKENS, LINE_TOKENS, Item, Section, Size, parse
from compaction_hooks.digest.text import (
    cut_middle,
    has_wide,
    opening,
    sentences,
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
ENDS_SHARE = 0.7
"""The part of the room of all requests that the first and the newest may take, if there are others."""
CUT_RATIO, CUTS = 0.9, 3
"""The part of the room that a cut request takes: its marker has the rest; and the tries, since its ends may be denser than all."""
OPENING_CHARS = 90
"""The characters that are left of such a request when there is no room for its two ends."""
PROSE_CHARS, SHORT_CHARS = 15, 8
"""The least characters of a sentence, and of one that limits something: "Use tabs."."""
MAX_SENTENCE_CHARS = 1_000
"""The most characters of a sentence that are read: a longer one was pasted."""
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
        if message.role != "user":
            continue
        if is_summary_message(message):
            known = {_beginning(request) for request in requests}
            # Before the last: the first and the last request are never dropped, and these are told by another writer.
            place = max(len(requests) - 1, 1)
            quoted = [item.text for item in _read_foreign(message) if item.section is Section.GOAL]
            requests[place:place] = [text for text in quoted if is_request(text) and _beginning(text) not in known]
        elif is_request(text := strip_harness(message.text)):
            requests.append(neutralize(text))

    return requests


def foreign_items(messages: Iterable[Message]) -> list[Item]:
    """Return the items of the summaries among the user's messages, without the requests that they quote."""
    summaries = filter(is_summary_message, messages)
    return [item for message in summaries for item in _read_foreign(message) if item.section is not Section.GOAL]


def _read_foreign(summary: Message) -> list[Item]:
    return parse(remove_file_tags(neutralize(without_draft(strip_harness(summary.text)))))


def _beginning(request: str) -> str:
    """Return the part of a request by which a quotation, which may be shortened, is known again."""
    return " ".join(request.split())[:QUOTED_CHARS].casefold()


def request_items(texts: Sequence[str], max_tokens: int, size: Size, *, is_present: bool = False) -> list[Item]:
    """Return an item for each request that fits, the best first: the newest, the first, then the newest others.

    The newest and the first are cut in their middle, to half of a share each or to what the other leaves; others to their start.

    Args:
        max_tokens: The room of all of them, with a heading.
        is_present: Whether the newest is the user's present request, which is named if it has others before it.
    """
    texts = list(reversed(dict.fromkeys(reversed(texts))))
    newest = len(texts) - 1
    ends = dict.fromkeys((newest, 0) if texts else ())
    room = max_tokens - HEADING_TOKENS * len(ends)
    for_ends = room if len(texts) == len(ends) else int(room * ENDS_SHARE)
    sizes = {at: size(texts[at]) + LINE_TOKENS for at in ends}
    limits = {at: max(for_ends // len(ends), for_ends - sum(sizes.values()) + sizes[at]) - LINE_TOKENS for at in ends}

    items: list[Item] = []
    for at in (*ends, *range(newest - 1, 0, -1)):
        text = _cut_to(texts[at], limits[at], size) if at in ends else opening(texts[at], OLD_REQUEST_CHARS)
        room -= size(text) + LINE_TOKENS
        if room < 0 and at not in ends:
            break
        items.append(Item(Section.PRESENT if is_present and at == newest > 0 else Section.GOAL, text, place=at))
    return items


def _cut_to(text: str, room: float, size: Size) -> str:
    """Return a text of at most so many tokens: its head and its tail."""
    for _ in range(CUTS):
        if (tokens := size(text)) <= room:
            return text
        text = cut_middle(text, int(CUT_RATIO * room / tokens * len(text)))
    return opening(text, OPENING_CHARS) if size(text) > room else text


def spoken_sentences(text: str) -> list[str]:
    """Return the sentences of a message without code and marks of lists."""
    return [
        bare
        for sentence in sentences(without_code(text))
        if (bare := _LIST_MARK.sub("", sentence[:MAX_SENTENCE_CHARS], count=1))
    ]


def is_small_talk(sentence: str) -> bool:
    """Return whether a sentence begins as greetings, thanks and assurances do."""
    return _SMALL_TALK.match(sentence) is not None


def is_prose(sentence: str, least_chars: int = PROSE_CHARS) -> bool:
    """Return whether a sentence is written rather than pasted: long enough, mostly letters, no line of a table or of code."""
    start = sentence[:SENTENCE_CHARS]
    letters = sum(map(str.isalpha, start))
    is_long = len(sentence) >= (6 if has_wide(start) else least_chars)
    return is_long and letters >= 0.6 * len(start) and not start.startswith(("|", ">", "+", "$"))
