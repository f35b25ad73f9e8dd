"""What the assistant found out: its sentences that tell a cause or what mended it, word for word, without those it took back."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compaction_hooks.digest.outline import Item, Section
from compaction_hooks.digest.statements import is_prose, spoken_sentences
from compaction_hooks.digest.text import quote, size, without_code, without_pasted
from compaction_hooks.digest.told import find_terms
from compaction_hooks.messages import Message

CAUSE_CHARS, LEAST_CHARS = 240, 20
"""The most characters of a cause, and the least: few recorded ones are longer, and "It is because of that." says nothing."""
LEAST_COST, LEAST_VALUE = 30.0, 0.25
"""Added to the size of a cause, in tokens, which divides its value: of two as new, the shorter leaves room for another. And the
value of the oldest, where the newest has one more."""
SOON = 20
"""The messages within which the assistant takes back its last cause without naming it."""
SAME_WORDS = 0.5
"""The part of the words of two causes that makes the later one a correction of the earlier."""
MOST_CAUSES = 200
"""The most causes that are remembered, the newest: a summary has room for a tenth, and each new one is compared with all."""
GUESS_CHARS = 16
"""The characters behind the words that tell a cause in which a condition makes it a guess: "the issue is that it could"."""

_SUBJECT = r"(?:problem|issue|bug|cause|culprit|reason|mistake)"
_UNTOLD = r"(?:fixed|resolved|confirmed|solved|related|clear|gone|now|still|more|different|elsewhere|not\b(?!.* but ))"
_TOLD = (
    r"root cause (?:is|was)|fixed (?:it |this )?by|"
    rf"(?<!remaining ){_SUBJECT}(?: here)? (?:is|was|lies|occurs|happens)\b(?! {_UNTOLD}\b)"
)
_CAUSES = "|".join(
    (
        rf"{_TOLD}|root cause|because|caused by|due to|turn(?:s|ed) out|(?:stems?|stemmed) from",
        r"weil|(?:liegt|lag) daran|ursache|verursacht|behoben durch|stellte sich heraus|das problem (?:ist|war|liegt)",
        r"parce qu|à cause d|causée? par|d[uû]e?s? à|corrigée? en|s'av[eè]re|le problème (?:est|était|vient)",
        r"porque|causad[oa] por|debido a|la causa|resulta que|resultó que|el (?:problema|error) (?:es|era|está|fue)",
    )
)
_WIDE_CAUSES = r"根因[是在为：:]|原因[是在为：:]|因为|由于|导致|问题[是在出]|原来是|原因は|のためです|のが原因"
_DENIALS = (
    rf"(?:that|it|this)(?: was|'s| is)(?: not|n't) it|(?:is|was|'s)(?:n't| not) the (?:\w+ )?(?:trigger|{_SUBJECT})|"
    rf"{_SUBJECT} (?:is|was)(?: not|n't| more| different| elsewhere| simpler)\b|that (?:doesn't make sense|can't be)|"
    r"that's not right|(?:was|were) (?:wrong|mistaken)|red herring|ruled? out|das war es nicht|nicht die ursache|"
    r"ce n'(?:est|était) pas (?:ça|cela|la cause)|no (?:es|era) (?:eso|la causa)"
)
_WIDE_DENIALS = r"不是.{0,6}原因|搞错了|原因では(?:ない|あり)"
_CAUSE = re.compile(rf"\b(?:{_CAUSES})|{_WIDE_CAUSES}")
_OUTRIGHT = re.compile(rf"\b(?:{_TOLD})|根因[是在为：:]|原因[是在为：:]|问题[是在出]|原因は")
_DENIAL = re.compile(rf"\b(?:{_DENIALS})|{_WIDE_DENIALS}")
# Half of the boundaries are ends of words: without the lookahead it takes twice as long.
_EITHER = re.compile(rf"\b(?=[\w'])(?:{_CAUSES}|{_DENIALS})|{_WIDE_CAUSES}|{_WIDE_DENIALS}")
_GUESS = re.compile(
    r"\b(?:may|might|maybe|perhaps|possibly|probably|likely|seem(?:s|ed)?|appears?|unclear|unsure|vielleicht|könnte|wahrscheinlich|"
    r"vermutlich|peut-être|probablement|quizás?|tal vez|probablemente|podría)\b|可能|也许|是否|大概|かもしれ|たぶん"
)
_CONDITION = re.compile(
    r"\b(?:could|would|should|if|whether|unless|suspects?|think|guess|assum\w+|wonder|not because|let(?:'s| me| us)|"
    r"(?:i|we)(?:'ll| will| need)|to (?:see|check|find|know)|what|ob|wenn|falls|si)\b|如果|不是|会导致|もし"
)
_CORRECTION = re.compile(
    rf"\W*(?:(?:ah|oh|so|but|hmm|now)\W+)*(?:actually|no|wait|in fact|instead)\b.{{0,40}}\b{_SUBJECT}\b|"
    r"\W*(?:tatsächlich|nein|en fait|en realidad|其实|实际上)|"
    rf".{{0,30}}\b(?:real|actual|true) (?:root )?{_SUBJECT}\b"
)
# fmt: off
_COMMON = frozenset({
    "actually", "after", "all", "analyzing", "and", "are", "based", "because", "been", "being", "but", "can", "cause", "caused",
    "causes", "code", "description", "did", "does", "doing", "due", "fact", "failed", "failing", "fails", "fixed", "for", "from",
    "get", "had", "has", "have", "here", "into", "issue", "its", "looking", "not", "now", "only", "our", "problem", "reason",
    "root", "see", "since", "that", "the", "their", "them", "then", "there", "they", "this", "turned", "turns", "use", "was",
    "were", "what", "when", "where", "which", "why", "will", "with", "you",
})
# fmt: on
"""Words that two causes may share and be of different things."""


def cause_items(messages: Iterable[Message], earlier: Iterable[Item] = (), later: Iterable[Message] = ()) -> list[Item]:
    """Return the causes that the assistant tells and does not take back; the last are worth most.

    A later cause replaces earlier ones of the same words, or the last one if it says so ("Actually, the issue is ..."). Guesses,
    questions and conditions are no causes. The `later` messages take back some and tell none.

    The last that names the cause outright ("The problem is ...") before the user's next message is worth more than those before
    it, of which it may be a correction, and than other reasons. These come first: so the next round knows them.

    Args:
        earlier: The causes of an earlier summary.
    """
    causes = _Causes(item.text for item in earlier)
    causes.read(messages)
    told = [*causes.told]
    causes.read(later if told else ())
    told = sorted((text for text in told if text in causes.told), key=causes.lasts.__contains__)

    return [
        Item(section=Section.CAUSES, text=text, value=(LEAST_VALUE + at / len(told)) / (LEAST_COST + size(text)))
        for at, text in enumerate(told)
    ]


class _Causes:
    """The causes told so far and not taken back, in their order: those of an earlier summary, then those of messages.

    Attributes:
        told: The number of its message, 0 for one of an earlier summary, and its words, by its text.
        lasts: Those that are the last ones told outright before a message of the user.
    """

    def __init__(self, earlier: Iterable[str]) -> None:
        self.told = {text: (0, _words(text.lower())) for text in earlier}
        self.lasts = [text for text in self.told if _OUTRIGHT.search(text.lower())]
        self._is_open = bool(self.lasts)

    def read(self, messages: Iterable[Message]) -> None:
        """Add the causes that these messages tell, and remove those that they take back."""
        for number, message in enumerate(messages, 1):
            if message.role == "user":
                self._is_open = False
            elif message.role == "assistant" and _EITHER.search(message.text.lower()):
                for sentence in spoken_sentences(without_pasted(without_code(message.text))):
                    self._read_sentence(sentence, number)

    def _read_sentence(self, sentence: str, number: int) -> None:
        lowered = sentence.lower().replace("’", "'")
        if not _EITHER.search(lowered) or _GUESS.search(lowered):
            return

        is_cause, is_denial = _is_cause(sentence, lowered), _DENIAL.search(lowered) is not None
        words = _words(lowered)
        if is_cause or is_denial:
            self._take_back(words, number, is_last=is_denial or _CORRECTION.match(lowered) is not None)

        if is_cause:
            text = quote(sentence, CAUSE_CHARS)
            self.told[text] = (number, words)
            if _OUTRIGHT.search(lowered):
                self.lasts[len(self.lasts) - self._is_open :] = [text]
                self._is_open = True

        for text in [*self.told][:-MOST_CAUSES]:
            del self.told[text]

    def _take_back(self, words: set[str], number: int, *, is_last: bool) -> None:
        """Remove the causes of which a sentence with these words speaks again.

        Args:
            number: That of the sentence's message.
            is_last: Whether it takes back the last one, if it speaks of none.
        """
        same = [text for text, (_, others) in self.told.items() if _is_same(words, others)]
        if is_last and not same:
            same = [text for text in [*self.told][-1:] if number - self.told[text][0] <= SOON]
        for text in same:
            del self.told[text]


def _is_cause(sentence: str, lowered: str) -> bool:
    """Return whether a sentence tells a cause: one that is no question, heading or condition, and says what it is."""
    match = _CAUSE.search(lowered)
    if match is None or sentence.rstrip("*").endswith(("?", "？", ":", "：")) or not is_prose(sentence, LEAST_CHARS):
        return False
    return len(_words(lowered)) > 1 and not _CONDITION.search(lowered, 0, match.end() + GUESS_CHARS)


def _is_same(words: set[str], others: set[str]) -> bool:
    shared = len(words & others)
    return shared > 1 and 2 * shared >= SAME_WORDS * (len(words) + len(others))


def _words(lowered: str) -> set[str]:
    return {term for term in find_terms(lowered) if len(term) > 2 or not term.isascii()} - _COMMON
