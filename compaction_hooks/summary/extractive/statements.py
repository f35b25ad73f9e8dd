"""The user's requests and constraints, word for word, and the words by which people limit or prefer something."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from compaction_hooks.files import remove_file_tags
from compaction_hooks.messages import Message
from compaction_hooks.summary.extractive.outline import Item, Section, parse
from compaction_hooks.summary.extractive.steps import age_refusals
from compaction_hooks.summary.extractive.text import (
    cut_middle,
    quote,
    sentences,
    size,
    whole_parts,
    without_code,
    without_pasted,
)
from compaction_hooks.summary.harness import is_request, is_summary_message, strip_harness, without_draft
from compaction_hooks.text.escaping import neutralize
from compaction_hooks.text.patterns import lazy_pattern

_FORMATS = r"(?:json|ya?ml|csv|tsv|xml|html|toml|markdown|latex|utc|plain text|tabelle|tabla|tableau)"
_LANGUAGES = (
    r"(?:(?:british|american) )?(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|turkish|arabic|hindi|"
    r"chinese|japanese|korean|deutsch|englisch|französisch|spanisch|français|anglais|allemand|espagnol|español|inglés|alemán)"
)
_CUES = (
    # English
    r"must(?:n't)?|never|always|don't|do not|cannot|can't|should(?:n't)?|only|instead of|prefer|avoid|make sure|ensure|"
    r"require[ds]?|needs? to|ha(?:s|ve) to|without|at (?:most|least)|keep|leave|important|please use|use (?:the|our)|"
    r"rather|remember|stick to|not allowed|forbidden|prohibited|no (?:new|other|more|less)|format|"
    r"(?:you|they|it|one) may (?:not|only)|not (?:supposed )?to|(?:is|are) to be|under no|"
    r"from now on|going forward|in future|whenever|every time|unless|until (?:i|we)|ask (?:me|us|first)|"
    r"before (?:you|each|every|any)|nothing (?:may|must|else)|nowhere else|no ?(?:one|body) (?:may|must|is|else)|"
    r"(?:every|each|any) [\w ]{1,30} needs?|i (?:don't )?want (?:no|every|all|each|any)|hands off|refrain|limit yourself|"
    r"as a table|no emojis?|call me|(?:british|american) spelling|be careful",
    # German
    r"nicht|nie(?:mals|mand)?|immer|stets|m[uü]ss(?:en|t|te|ten)?|soll(?:en|st|te|ten|t)?|d[aü]rf(?:en|st|t)?|bitte|"
    r"kein(?:e[nmrs]?)?|nur|ausschließlich|höchstens|mindestens|maximal|verboten|untersagt|vermeide|verwende|benutze|nutze|"
    r"(?:an)?statt|lieber|ab (?:jetzt|sofort)|von nun an|in ruhe|denk daran|achte|halte dich|ohne|unter keinen|bevor du|"
    r"frag mich|hör auf|jede[rsn]? \w+ braucht",
    # French
    r"jamais|toujours|do(?:it|is|ivent)|devez|ne pas|(?:ne |n')[\w' ]{1,30}? (?:pas|aucune?|rien|plus|que)|(?:il )?faut|"
    r"interdit|évite[rz]?|uniquement|seulement|au (?:plus|moins|maximum)|à partir de|désormais|dorénavant|sans (?:mon|ma|que)|"
    r"(?:je )?préfère|utilise[rz]?|surtout|laisse[rz]?|chaque|avant de|plutôt",
    # Spanish
    r"nunca|jamás|siempre|deb(?:e|es|en|emos)|hay que|prohibid[oa]|evit[ae]|s[oó]lo (?:con|en|el|la|los|las|se)|"
    r"us[ae] (?:s[oó]lo|siempre)|solamente|únicamente|como máximo|al menos|a partir de|de ahora en adelante|sin (?:mi|que)|"
    r"prefiero|tienen? que|en paz|antes de|en (?:vez|lugar) de|por favor|no [a-zñáéíóú]{2,20}(?:es|as|éis|áis)",
)
_FIRST = (
    r"no|nope|nah|nein|non|use|usa|(?:wrong|actually|instead)[,:]? (?:use|take|go|make|do|let)|skip|ignore|exclude|stop|quit|limit|"
    r"max(?:imum|\.)?|min(?:imum|\.)?"
)
_WIDE = (
    r"中文|英文|日本語で|不要|不能|不得|不许|不准|必须|必須|一定|务必|只[能要有用使可准]|尽量|应该|应當|應該|记得|記得|记住|避免|优先|别|禁止|"
    r"请勿|千万|始终|一律|绝不|从现在|最多|至少|都[要需]|格式|先问|更喜欢|改用|保密|"
    r"しないで|必ず|してはいけ|ください"
)
_CUE = lazy_pattern(
    rf"\b(?:{'|'.join(_CUES)})\b|\b(?:in|as|output|auf|als|en|como|im) (?:{_FORMATS}|{_LANGUAGES})\b|"
    rf"\A(?:{_FIRST})\b|\A不[，,]|{_WIDE}"
)


def count_cues(sentence: str) -> int:
    """Return the number of words in a sentence that limit or prefer something.

    >>> count_cues("You must not restart it, never."), count_cues("Restart it.")
    (2, 0)
    """
    # A pattern that ignores the case takes three times as long.
    return len(_CUE.findall(sentence.lower().replace("’", "'")))


SENTENCE_CHARS = 300
"""The most characters of a sentence in an item."""
OLD_REQUEST_CHARS = 400
"""The most characters of a request that is neither the first nor the newest; 90 % of 3,037 recorded ones are not longer."""
OPENING_REQUESTS = 3
"""Requests at the beginning that count more than their age says: they set the subject."""
BETWEEN_SHARE = 0.3
"""The most of the room of the first and the newest request that is left to those between them: many are one short line."""
CUT_SHARE = 0.75
"""A request is only cut if at most this part of it fits: less than that saves little more than its marker takes."""
PROSE_CHARS, SHORT_CHARS = 15, 8
"""The least characters of a sentence, and of one that limits something: "Use tabs."."""
MAX_SENTENCES, MAX_SENTENCE_CHARS = 2_000, 1_000
"""The most sentences of a message that are read from each end, and characters of each: a larger text was pasted."""
QUOTED_CHARS = 40
"""The characters at the beginning of a request that a quotation shares with it."""

_SMALL_TALK = lazy_pattern(
    r"(?:\[[\d-]{8,10}\]\s*)?(?:(?:ah|oh|yes|yeah|no)[,!.]? )*(?:you(?:'?re| are) (?:\w+ )?(?:right|correct)\b|"
    r"(?:hi|hello|hey|thanks|thank you|ok|okay|great|sure|of course|certainly|no problem|you'?re welcome|"
    r"good (?:morning|evening|night|idea)|i understand|i see|i'?m (?:glad|sorry)|glad to|sounds (?:good|great|really|like)|"
    r"that'?s (?:great|good|right|true|really|wonderful|a great)|feel free|let me know|if you (?:have|need)|i hope|"
    r"i will try|i'll try|i can (?:help|assist)|i'?d be happy|i'?m here|bye|goodbye|bonjour|merci|hola|gracias|danke|hallo)\b|"
    r"(?:perfect|excellent|awesome|wonderful|amazing|fantastic|absolutely|exactly|understood)[!.]|"
    r"你好|您好|嗨|谢谢|謝謝|感谢|感謝|多谢|不用谢|不客气|好的|当然|當然|嗯|是啊|是的|没问题|太好了|再见|哈哈|希望你|加油|"
    r"ありがとう|こんにちは)",
    re.IGNORECASE,
)
_LIST_MARK = lazy_pattern(r"\A(?:[-*+#>]+\s+|\d{1,3}[.)]\s+|\[[ xX~/-]\]\s*)+")


def request_texts(messages: Iterable[Message], earlier: Iterable[str] = ()) -> list[str]:
    """Return the user's requests, word for word and in order: without the harness's blocks, markers and summaries.

    Those that another system's summary quotes are requests too, unless a request before begins as they do. All are escaped here,
    so that a repeated request equals the one in an earlier summary.

    Args:
        earlier: Requests of an earlier summary, which come first.
    """
    asked = [*dict.fromkeys(earlier)]  # the summary of a turn's first part may quote the first one again
    for message in messages:
        if is_summary_message(message):
            known = {_beginning(request) for request in asked}
            # Before the last: the first and the last request are never dropped, and these are told by another writer.
            place = max(len(asked) - 1, 1)
            quoted = [item.text for item in _read_foreign(message) if item.section is Section.GOAL]
            asked[place:place] = [text for text in quoted if is_request(text) and _beginning(text) not in known]
        elif message.role == "user" and is_request(text := strip_harness(message.text)):
            asked.append(neutralize(text))
    return asked


def foreign_items(messages: Iterable[Message]) -> list[Item]:
    """Return the items of the summaries among the user's messages, without the requests that they quote."""
    summaries = filter(is_summary_message, messages)
    return [item for message in summaries for item in _read_foreign(message) if item.section is not Section.GOAL]


def _read_foreign(summary: Message) -> list[Item]:
    return parse(age_refusals(remove_file_tags(neutralize(without_draft(strip_harness(summary.text))))))


def _beginning(request: str) -> str:
    """Return the part of a request by which a quotation, which may be shortened, is known again."""
    return " ".join(request.split())[:QUOTED_CHARS].casefold()


def request_items(texts: Sequence[str], max_size: float, spare: float = 0.0) -> list[Item]:
    """Return one item for each request, oldest first; the first, the newest and short ones are never dropped.

    Args:
        max_size: The most that the first and the newest may have together, less a part for the others: half each, more if the
            other is short.
        spare: Room, in addition, that nothing else needs: it is for the requests that would be cut, the newest first.
    """
    texts = list(reversed(dict.fromkeys(reversed(texts))))
    if not texts:
        return []

    values = [3.0 + 2.0 * (at + 1) / len(texts) + 2.0 * (at < OPENING_REQUESTS) for at in range(len(texts))]
    sizes = [size(text) for text in texts]
    first, newest = 0, len(texts) - 1

    limits = [min(max_size / 2, size(text[:OLD_REQUEST_CHARS])) for text in texts]
    others = {*range(len(texts))} - {first, newest}
    kept = _first_fitting(sorted(others, key=lambda at: -values[at]), limits, max_size * BETWEEN_SHARE)
    max_size -= sum(limits[at] for at in kept)
    limits[first] = limits[newest] = max_size
    if first != newest:
        limits[newest] = max(max_size / 2, max_size - sizes[first])
        limits[first] = max(max_size / 2, max_size - sizes[newest])
    for at in reversed(range(len(texts))):
        more = max(min(sizes[at] - limits[at], spare), 0.0)
        limits[at] += more
        spare -= more

    is_cut = [limit < CUT_SHARE * whole for limit, whole in zip(limits, sizes, strict=True)]
    items = [
        Item(
            section=Section.GOAL,
            text=cut_middle(text, math.ceil(limits[at] / sizes[at] * len(text))) if is_cut[at] else text,
            value=values[at],
            must=at in {first, newest, *kept},
        )
        for at, text in enumerate(texts)
    ]
    # Only now does a request, repeated in full, equal its shortened form in an earlier summary.
    return list({item.text: item for item in reversed(items)}.values())[::-1]


def _first_fitting(places: Iterable[int], sizes: Sequence[float], room: float) -> set[int]:
    """Return the places whose sizes fit the room together, chosen in this order."""
    chosen: set[int] = set()
    for at in places:
        if sizes[at] <= room:
            chosen.add(at)
            room -= sizes[at]
    return chosen


def constraint_items(texts: Sequence[str], earlier: Sequence[Item]) -> list[Item]:
    """Return the user's sentences that limit or prefer something, those of earlier rounds first.

    The requests contain them too, but as items of their own they remain when the requests are dropped.
    """
    said = (
        sentence
        for text in texts
        for part in whole_parts(text)
        for sentence in spoken_sentences(without_pasted(without_code(part)))
    )
    found = [item.text for item in earlier]
    found += filter(_is_constraint, said)
    ordered = list(dict.fromkeys(quote(text, MAX_SENTENCE_CHARS) for text in found))
    return [
        Item(
            section=Section.CONSTRAINTS,
            text=text,
            value=2.0 + count_cues(text) + index / len(ordered),
        )
        for index, text in enumerate(ordered)
    ]


def _is_constraint(sentence: str) -> bool:
    least_chars = PROSE_CHARS if is_small_talk(sentence) else SHORT_CHARS
    return count_cues(sentence) > 0 and is_prose(sentence, least_chars) and not sentence.endswith((":", "："))


def spoken_sentences(text: str) -> list[str]:
    """Return the sentences of a message, at most `MAX_SENTENCES` from each end: no code, no marks of lists."""
    found = sentences(without_code(text))
    if len(found) > 2 * MAX_SENTENCES:
        found = found[:MAX_SENTENCES] + found[-MAX_SENTENCES:]
    return [bare for sentence in found if (bare := _LIST_MARK.sub("", sentence[:MAX_SENTENCE_CHARS], count=1))]


def has_wide(text: str) -> bool:
    """Return whether a text has a character of a script that sets no spaces and needs few characters for a word."""
    # A pattern of these ranges takes milliseconds to compile.
    return not text.isascii() and any("\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af" for char in text)


def is_small_talk(sentence: str) -> bool:
    """Return whether a sentence begins as greetings, thanks and assurances do."""
    return _SMALL_TALK.match(sentence) is not None


def is_prose(sentence: str, least_chars: int) -> bool:
    """Return whether a sentence is written rather than pasted: long enough, mostly letters, no line of a table or of code."""
    start = sentence[:SENTENCE_CHARS]
    letters = sum(map(str.isalpha, start))
    is_long = len(sentence) >= (6 if has_wide(start) else least_chars)
    return is_long and letters >= 0.6 * len(start) and not start.startswith(("|", ">", "+", "$"))
