"""Which sentences of the user are constraints: what he says himself, with a word that limits or prefers something.

1. Only the user's own words count: no code, log, quotation, mail, licence or page that he pasted.
2. A sentence counts by a cue word, by a form that speaks of all answers or of each time, or if it calls itself a rule.
3. A question and the head of a list are no constraints.

The requests are kept too, so a constraint that is missed is lost only with its request. A sentence that is wrongly taken for one
costs the room of others for good: the words are few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.statements import (
    MAX_SENTENCE_CHARS,
    SHORT_CHARS,
    is_prose,
    spoken_sentences,
)
from compaction_hooks.digest.text import quote, without_code, without_pasted

PAGE_CHARS = 1_500
"""The least characters of a message that may hold a pasted page."""
PAGE_LINKS = 3
"""The least links of a page. People who describe their own work set few."""
PAGE_PARAGRAPHS = 4
"""The least paragraphs of such a page."""

_CUE = re.compile(
    r"\b(?:never|always|must|mustn't|do not|don't|can't|cannot|should|shouldn't|make sure|ensure|avoid|prefer|whenever|instead of|"
    r"from now on|for the rest of|nie|niemals|immer|muss|darf|jamais|toujours|dois|doit|nunca|siempre|debe|debes)\b|"
    r"不要|不能|必须|只能|只用|总是|每次|禁止|しないで|必ず|"
    # "Only Eva may see it.", "bullet points only"; "When you finish, ..."; "your replies"; "Standing instruction: ..."
    r"\Aonly\b|\bonly(?=[.,;!]|\Z)|\A(?:when|before|after|if|once|until) you\b|"
    r"\b(?:your|every|each) (?:repl(?:y|ies)|answers?|responses?|messages?)\b|"
    r"\b(?:constraint|instruction|rule|preference|requirement)s?:"
)
"""What limits or prefers something, in lower case."""
_TALE = re.compile(
    r"\b(?:i|he|she|it|they|there|that|this|which|still|really|actually) (?:don't(?! want)|can't|cannot|should|shouldn't)\b"
)
"""Words that tell something: "it can't be found"."""

_MAIL = re.compile(
    r"^(?:On .{6,120} wrote:|Am .{6,120} schrieb.{0,60}:|Le .{6,120} a écrit ?:|El .{6,120} escribió:|"
    r"-{3,} ?(?:Original Message|Forwarded message|Ursprüngliche Nachricht)|"
    r"(?:From|Von|De|发件人)[:：] ?\S.*\n(?:.*\n){0,4}?(?:Subject|Betreff|Objet|Asunto|主题)[:：])",
    re.MULTILINE,
)
_LICENCE = re.compile(
    r"Permission is hereby granted|THE SOFTWARE IS PROVIDED|THIS SOFTWARE IS PROVIDED|Redistribution and use in source|"
    r"Licensed under the|distributed under the License|TERMS AND CONDITIONS|GNU (?:\w+ )?GENERAL PUBLIC LICENSE"
)
_LINK = re.compile(r"\]\([./#\w][^()\s]{0,300}\)")
_HEADING = re.compile(r"^(?:#{1,6} \S|\S.*\n[=-]{4,}$)", re.MULTILINE)
_LIST_OR_CODE = re.compile(r"^[ \t]{0,20}(?:[-*+] |\d{1,3}[.)] )|`", re.MULTILINE)
_OWN = re.compile(
    r"\b(?:I|(?i:my|me|we|our|us|please|ich|mir|mein\w*|wir|uns\w*|bitte|je|mon|nous|notre|mi|nosotros|nuestr[oa]s?))\b|[我请]"
)
"""Words of a person who speaks of himself, or asks for something."""
_SPOKEN_TO = re.compile(r"\b(?:your?|du|dein\w*|tu|ton|vous|votre|usted)\b|[你您?？]", re.IGNORECASE)
"""Words to another person, and the sign of a question."""


def constraint_items(texts: Iterable[str], earlier: Iterable[str] = ()) -> list[Item]:
    """Return the user's sentences that limit or prefer something, those of earlier rounds first.

    The requests contain them too, but as items of their own they remain when the requests are dropped.
    """
    new = (quote(limit, MAX_SENTENCE_CHARS) for text in texts for limit in limiting_sentences(text))
    return [Item(Section.CONSTRAINTS, limit, place=at) for at, limit in enumerate(dict.fromkeys(chain(earlier, new)))]


def limiting_sentences(request: str) -> list[str]:
    """Return the sentences of a request that limit or prefer something."""
    own = without_pasted(without_document(without_code(request)))
    return [sentence for sentence in spoken_sentences(own) if _is_constraint(sentence)]


def _is_constraint(sentence: str) -> bool:
    return has_cue(sentence) and is_prose(sentence, SHORT_CHARS) and not sentence.endswith((":", "：", "?", "？"))


def has_cue(sentence: str) -> bool:
    """Return whether a sentence limits or prefers something, by its words.

    >>> has_cue("You must not restart it."), has_cue("Restart it."), has_cue("It can't restart.")
    (True, False, False)
    """
    told = sentence.lower().replace("’", "'")
    return _CUE.search(told) is not None and _CUE.search(_TALE.sub("", told)) is not None


def without_document(text: str) -> str:
    """Return the text without the paragraphs of a mail, a licence or a page that was pasted into it.

    >>> without_document("Answer this.\\n\\nFrom: Eva\\nTo: Max\\nSubject: Lamp\\n\\nYou must come.\\n\\nNever promise a date.")
    'Answer this.\\n\\nNever promise a date.'
    """
    paragraphs = text.split("\n\n")
    pasted = _find_mail(paragraphs) or _find_licence(paragraphs) or _find_page(paragraphs)
    return "\n\n".join([*paragraphs[: pasted.start], *paragraphs[pasted.stop :]]) if pasted else text


def _find_mail(paragraphs: Sequence[str]) -> range:
    """Return the places of mails; the last paragraph may be a note behind them, so it is none of theirs."""
    headers = _find(_MAIL, paragraphs)
    return range(headers[0], max(len(paragraphs) - 1, headers[-1] + 1)) if headers else range(0)


def _find_licence(paragraphs: Sequence[str]) -> range:
    """Return the places from the first to the last formula of a licence."""
    formulas = _find(_LICENCE, paragraphs)
    return range(formulas[0], formulas[-1] + 1) if formulas else range(0)


def _find_page(paragraphs: Sequence[str]) -> range:
    """Return the places of a page in which nobody speaks of himself: one with links, or prose with a person's note next to it.

    A description with lists by the user himself has "must" in it too, so a page is only known by what such a text has not.
    """
    if len(paragraphs) < PAGE_PARAGRAPHS or sum(map(len, paragraphs)) < PAGE_CHARS:
        return range(0)

    links, headings = _find(_LINK, paragraphs), _find(_HEADING, paragraphs)
    marked = sorted({*links, *headings}) or [1]
    first, last = marked[0], marked[-1]
    end = next((at for at in range(last + 1, len(paragraphs)) if _OWN.search(paragraphs[at])), len(paragraphs) - 1)
    page = "\n\n".join(paragraphs[first : max(end, last + 1)])
    notes = " ".join([*paragraphs[:first], *paragraphs[end:]])

    is_page = len(_LINK.findall(page)) >= PAGE_LINKS or (
        len(page) >= PAGE_CHARS
        and not _LIST_OR_CODE.search(page)
        and not _SPOKEN_TO.search(page)
        and (_OWN.search(notes) or _SPOKEN_TO.search(notes))
    )
    return range(first, max(end, last + 1)) if is_page and not _OWN.search(page) else range(0)


def _find(pattern: re.Pattern[str], paragraphs: Sequence[str]) -> list[int]:
    """Return the places of the paragraphs that a pattern is found in."""
    return [at for at, paragraph in enumerate(paragraphs) if pattern.search(paragraph)]
