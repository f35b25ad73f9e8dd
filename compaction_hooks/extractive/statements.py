"""What was said: the user's requests and constraints, the assistant's decisions and next steps, and facts told in a chat."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from compaction_hooks.extractive.outline import Item, Section
from compaction_hooks.extractive.text import (
    bounded,
    is_foreign_summary,
    is_request,
    one_line,
    sentences,
    strip_harness,
    whole_parts,
)
from compaction_hooks.messages import Message

SENTENCE_CHARS = 300
"""Of one sentence carried on its own."""
OLD_REQUEST_CHARS = 400
"""Of a request that is neither the first nor the newest; three quarters of the recorded users' messages are shorter."""
MAX_SENTENCES = 2_000
"""Sentences of one message that are looked at, from each end."""

_CONSTRAINT = re.compile(
    r"\b(?:must(?:n't)?|never|always|don'?t|do not|cannot|can't|should(?:n't)?|only|instead of|prefer|avoid|make sure|ensure|"
    r"require[ds]?|needs? to|has to|have to|without|no more than|at most|at least|keep|leave|important|please use|use the|"
    r"rather than|remember)\b|不要|不能|不得|必须|必須|一定|务必|只能|只要|尽量|应该|應該|记得|記得|避免|优先|别|"
    r"しないで|必ず|してはいけ|ください|nicht|niemals|immer|muss|bitte|jamais|toujours|doit|ne pas|nunca|siempre|debe",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(
    r"\b(?:my name is|i am|i'm|i like|i love|i enjoy|i prefer|i hate|i want|i need|i live|i work|my \w+ (?:is|are|was)|favou?rite|birthday|call me)\b"
    r"|我叫|我是|我喜欢|我喜歡|我爱|我愛|我最|我想|我要|我住|我的|喜欢|生日|ich bin|ich mag|je suis|j'aime|me llamo|me gusta|私は|好き",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:decided|decision|chose|will use|going with|root cause|the (?:issue|problem|bug|cause|reason|fix|solution) (?:is|was)|because|"
    r"turns out|instead of|rather than|fixed|confirmed|found that|conclusion|therefore|so that|means that|it works|works now|"
    r"key insight|the correct|in summary|all tests pass|has been|have been|successfully|cannot|unable to|not eligible|total)\b"
    r"|决定|決定|原因|因为|因為|所以|问题是|問題是|改为|改成|已经|已經|完成|修复|発見|解決",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r"\b(?:next|then i|i'll|i will|let me|let's|now i|remaining|still need|to do|todo|plan to|going to)\b"
    r"|接下来|接下來|下一步|然后|现在|還需|还需|让我|次に",
    re.IGNORECASE,
)
_PLEASANTRY = re.compile(
    r"(?:\[[\d-]{8,10}\]\s*)?(?:hi|hello|hey|thanks|thank you|ok(?:ay)?|great|sure|of course|certainly|no problem|you'?re welcome|good (?:morning|evening|night|idea)|"
    r"i understand|i see|i'?m glad|glad to|sounds (?:good|great|really|like)|that'?s (?:great|good|right|true|really|wonderful|a great)|"
    r"you'?re right|feel free|let me know|if you (?:have|need)|i hope|i will try|i'll try|i can (?:help|assist)|i'?d be happy|i'?m here|bye|goodbye|"
    r"你好|您好|嗨|谢谢|謝謝|感谢|感謝|多谢|不用谢|不客气|好的|当然|當然|嗯|是啊|是的|没问题|太好了|再见|哈哈|希望你|加油|"
    r"bonjour|merci|hola|gracias|danke|hallo|ありがとう|こんにちは)",
    re.IGNORECASE,
)
_TERM = re.compile(r"[^\W\d_]{2,}|\d+", re.UNICODE)
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_QUOTED = re.compile(r"[\"“《「『](?=\S)[^\"”》」』\n]{2,60}[\"”》」』]")
_PROPER = re.compile(r"(?<=[a-z,;:'’(\"“] )(?:[A-Z][\w'’.-]+)(?: (?:[A-Z][\w'’.-]+|of|the|and|&))*")
_LISTED = re.compile(r"、|, (?:and |or )?|和")
_BULLET = re.compile(r"^(?:[-*+#>]+\s+|\d{1,3}[.)]\s+)+")
_DATE = re.compile(r"\[\d{4}-\d\d?-\d\d?\]")


def request_texts(messages: Iterable[Message]) -> list[str]:
    """Return what the user asked, word for word and in order: without the harness's blocks, markers and summaries."""
    texts: list[str] = []
    for message in messages:
        if message.role == "user" and not message.is_summary and not message.results:
            text = strip_harness(message.text)
            if is_request(text) and not is_foreign_summary(text):
                texts.append(text)
    return texts


def foreign_summaries(messages: Iterable[Message]) -> list[str]:
    """Return the summaries that another system left among the user's messages."""
    texts = (strip_harness(message.text) for message in messages if message.role == "user" and not message.is_summary)
    return [text for text in texts if is_foreign_summary(text)]


def request_items(texts: Sequence[str], newest_chars: int) -> list[Item]:
    """Return one item for each request, oldest first; the first and the newest are never dropped.

    Args:
        newest_chars: What the newest and the first may have together; two thirds of it are the newest's.
    """
    texts = list(reversed(dict.fromkeys(reversed(texts))))
    items: list[Item] = []
    for index, text in enumerate(texts):
        is_newest, is_first = index == len(texts) - 1, index == 0
        limit = OLD_REQUEST_CHARS
        if is_newest or is_first:
            limit = max(newest_chars * 2 // 3 if is_newest else newest_chars // 3, 40)
        value = 3.0 + 2.0 * (index + 1) / len(texts) + (2.0 if index < 3 else 0.0)
        items.append(Item(section=Section.GOAL, text=bounded(text, limit), value=value, must=is_newest or is_first))
    return items


def constraint_items(texts: Sequence[str], earlier: Sequence[Item]) -> list[Item]:
    """Return the user's sentences that limit or prefer something, those of earlier rounds first."""
    found = [item.text for item in earlier]
    for text in texts:
        for part in whole_parts(text):
            found += (_BULLET.sub("", s) for s in _ends(sentences(part)) if _CONSTRAINT.search(s) and _is_prose(s))
    ordered = list(dict.fromkeys(one_line(text, SENTENCE_CHARS) for text in found))
    return [
        Item(section=Section.CONSTRAINTS, text=text, value=2.0 + len(_CONSTRAINT.findall(text)) + index / len(ordered))
        for index, text in enumerate(ordered)
    ]


def decision_items(messages: Sequence[Message], earlier: Sequence[Item]) -> list[Item]:
    """Return the assistant's sentences that decide or conclude something, those of earlier rounds first."""
    found = [(item.text, 1.0) for item in earlier]
    for message in messages:
        if message.role == "assistant":
            is_answer = not message.calls
            for index, sentence in enumerate(_ends(sentences(_without_code(message.text)))):
                cues = len(_DECISION.findall(sentence))
                if (cues or (is_answer and index == 0)) and _is_prose(sentence) and not _is_small_talk(sentence):
                    found.append((one_line(sentence, SENTENCE_CHARS), min(cues, 3) + is_answer))
    unique = dict(found)
    return [
        Item(section=Section.DECISIONS, text=text, value=weight * (0.4 + 1.6 * index / len(unique)))
        for index, (text, weight) in enumerate(unique.items())
    ]


def next_items(messages: Sequence[Message], earlier: Sequence[Item]) -> list[Item]:
    """Return what the assistant last said it would do; earlier intentions stand only while nothing newer was said."""
    for message in reversed(messages):
        if message.role == "assistant" and message.text.strip():
            said = [s for s in sentences(_without_code(message.text))[-6:] if _NEXT.search(s) and _is_prose(s)]
            return [Item(section=Section.NEXT, text=one_line(s, SENTENCE_CHARS), value=3.0) for s in said[-3:]]
    return list(earlier)


def fact_items(messages: Sequence[Message], earlier: Sequence[Item]) -> list[Item]:
    """Return the sentences of a chat by how much they tell: names, titles, numbers, preferences; pleasantries are left out.

    Sentences of one message share a line, and a date the message begins with.
    """
    told: list[tuple[Section, str, str]] = []
    for item in earlier:
        told += ((item.section, f"old {item.group}", sentence) for sentence in sentences(item.text))
    for number, message in enumerate(messages):
        if message.role in ("user", "assistant") and not message.is_summary:
            section = Section.USER_FACTS if message.role == "user" else Section.ASSISTANT_FACTS
            spoken = _ends(sentences(_without_code(strip_harness(message.text))))
            told += ((section, f"new {number}", sentence) for sentence in spoken)
    frequency = Counter(term for _, _, sentence in told for term in set(_terms(sentence)))
    items: list[Item] = []
    for index, (section, group, sentence) in enumerate(told):
        value = _telling(sentence, section, frequency, len(told)) * (0.7 + 0.3 * index / len(told))
        if value > 0:
            items.append(Item(section=section, text=one_line(sentence, SENTENCE_CHARS), value=value, group=group))
    return items


def _telling(sentence: str, section: Section, frequency: Counter[str], total: int) -> float:
    """Return how much a sentence tells for its length: rare terms, names, titles, numbers and preferences."""
    date = _DATE.match(sentence)
    body = sentence[date.end() :].strip() if date else sentence
    names = len(_QUOTED.findall(body)) + len(_PROPER.findall(body))
    terms = set(_terms(body))
    if not terms:
        return 0.0
    is_polite = _PLEASANTRY.match(body) is not None
    if is_polite and not names and len(body) < (20 if _WIDE.search(body) else 60):
        return 0.0
    rarity = sum(math.log((total + 1) / frequency[term]) for term in terms) / (len(terms) + 4)
    bonus = 1.5 * min(names, 4) + 0.5 * len(re.findall(r"\d+", body)) ** 0.5 + 0.3 * min(len(_LISTED.findall(body)), 5)
    if section is Section.USER_FACTS:
        bonus += 1.5 + 1.5 * bool(_PREFERENCE.search(body)) + 0.5 * bool(date)
    if body.rstrip("\"'”’ ").endswith(("?", "？")):
        bonus *= 0.4
    return (rarity + bonus) * (0.4 if is_polite and not _QUOTED.search(body) else 1.0)


def _is_small_talk(sentence: str) -> bool:
    return _PLEASANTRY.match(sentence) is not None or sentence.rstrip().endswith(("?", "？"))


def _terms(sentence: str) -> list[str]:
    """Words of a sentence, lower case; where a script has no spaces, pairs of characters."""
    terms: list[str] = []
    for word in _TERM.findall(sentence.lower()):
        if _WIDE.match(word):
            terms += (word[i : i + 2] for i in range(len(word) - 1))
        else:
            terms.append(word)
    return terms


def _ends(found: list[str]) -> list[str]:
    return found if len(found) <= 2 * MAX_SENTENCES else found[:MAX_SENTENCES] + found[-MAX_SENTENCES:]


def _without_code(text: str) -> str:
    """Return the text without its fenced blocks."""
    return "\n".join(text.split("```")[::2]) if "```" in text else text


def _is_prose(sentence: str) -> bool:
    """Whether a sentence is said rather than pasted: long enough, mostly letters, no lines of a table or of code."""
    letters = sum(map(str.isalpha, sentence[:SENTENCE_CHARS]))
    length = min(len(sentence), SENTENCE_CHARS)
    return (
        len(sentence) >= (6 if _WIDE.search(sentence) else 15)
        and letters >= 0.6 * length
        and not sentence.startswith(("|", ">", "+", "$"))
    )
