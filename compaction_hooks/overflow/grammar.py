"""The meaning of a provider's sentence: the context overflowed, something else is too large, or neither.

Rules are patterns over the tags of `words`. Most need a subject (the input, tokens), a relation (exceeds, is too
long, must be at most) and a bound (a limit, the context window), in any order in which such sentences are built.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

from compaction_hooks.overflow.amounts import NOTHING, Amounts, read_amounts
from compaction_hooks.overflow.words import normalise, tag_words

OverflowKind: TypeAlias = Literal["context_overflow", "too_large", "output_cap"]
"""The limit that was exceeded: the context window; a quota or a number of bytes; the length of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The meaning of one text.

    Attributes:
        kind: None if the text reports no overflow.
        is_quota: Whether a quota was exceeded; the error's codes are then no sign of an overflow.
    """

    kind: OverflowKind | None = None
    amounts: Amounts = NOTHING
    is_quota: bool = False


class _Rule(NamedTuple):
    """A pattern over tags. `is_weak`: it does not hold near words of another kind of error (tag E)."""

    pattern: str
    is_weak: bool = False


# Repetitions are bounded, so that no text makes a search quadratic.
# A clause whose subject may be the input: it does not begin with another thing that can be too long (tag Z).
_CLAUSE: Final = r"(?:^|[.,])(?:[^.,Z]{0,8}[IRT][^.,PE]{0,8}|[^.,PEZ]{0,8})"

_OVERFLOW: Final = (
    # "exceeds the context window", "context_length_exceeded", "longer than the model's context length"
    _Rule(r"C[^.SEZ]{0,5}[XxyG]|[XxG][^.SEZ]{0,5}C"),
    # "context is too long", "the context overflows", "exceeds maximum context"
    _Rule(r"cI?N?[xX]|X[WM]{0,3}c"),
    # "prompt is too long", "too many input tokens", "request has too many tokens"
    _Rule(r"I[^.PEZBS]{0,8}x|y[IRL]{0,4}T|T[^.PEZBS]{0,3}x"),
    # "input length exceeds the maximum", "prompt token count of M exceeds the limit of N"
    _Rule(r"I[^.PEZBSQ]{0,8}X[^.PEZB]{0,4}[MLTN]"),
    # "tokens in request more than max tokens allowed", "Message exceeds token limit"
    _Rule(_CLAUSE + r"(?:T[^.,PEZBSQ]{0,5}X[^.PEZBS]{0,4}M|X[MLRI]{0,3}TM|X[MLRI]{1,3}T)"),
    # "maximum input length exceeded", "max tokens of N exceeded", "reached its conversation limit", "hit the maximum length
    # for this conversation"
    _Rule(r"M[MITLR]{0,4}[IT][ITL]{0,3}N?X|[IT][TL]{0,3}LX|[XG]I[TL]{0,3}M|[XG]MLI"),
    # "token limit exceeded"
    _Rule(r"[IR]?T[IL]{0,3}M{1,3}L?V?X", is_weak=True),
    # "input length must be smaller than the context length", "`inputs` must have less than N tokens"
    _Rule(
        r"(?:T|I(?=[^.]{0,10}[TLC]))[^.PEZBO]{0,4}\+?[^.PEZB]{0,3}Q(?![^.]{0,4}N[bB])[^.PEZB]{0,5}[NUCM]",
        is_weak=True,
    ),
    # "Range of input length should be [1, N]", "text length is M, which is outside the range (0, N]"
    _Rule(r"I[LQ]{0,3}U|[RI]L[^.]{0,4}XU", is_weak=True),
    # "the request is too long for this model", "the message was too long, please reload the conversation"
    _Rule(r"R[^.PEZBS]{0,6}(?:[Xx]W|x,I)"),
    # "please reduce the length of the messages"
    _Rule(r"S[LTRM]{0,3}[IcC]", is_weak=True),
    # Bedrock's schema check of the prompt, in characters. "Malformed input request: expected maxLength: N, actual: M"
    _Rule(r"E[IR]?bN,V?N"),
)
# vLLM: nothing is left for the answer. "max_tokens must be at least 1, got -123"
_NOTHING_LEFT: Final = _Rule(r"O[^.]{0,6}n")
# A limit with its number; an overflow if the statement has a larger number of tokens too.
_STATED: Final = _Rule(r"[MC][^.BZ]{0,4}[NU]|N[^.BZ]{0,2}M", is_weak=True)
# "maximum context length is N", and nothing more
_BOUND: Final = _Rule(r"MC[^.,QXxMO]?N", is_weak=True)
_RULES: Final = (*_OVERFLOW, _NOTHING_LEFT, _STATED, _BOUND)

# "request entity too large", "Request exceeds the maximum number of bytes", "Invalid 'messages[4].content': string too long",
# "too many messages"
_TOO_LARGE: Final = re.compile(r"(?<!Z)[IR][^.SOZV]{0,4}(?:x|X[^.]{0,3}[MB])|I[^QXxZ]{0,4}Zx|yI")
# The same about a quota, if this request alone is too large, not the sum of recent ones. "Request too large ... tokens per
# minute", "please reduce your message size", "Prompt tokens limit exceeded: M > N", "required for long context requests"
_QUOTA_TOO_LARGE: Final = re.compile(r"R[^.SO]{0,3}x|S[LTRM]{0,3}[IR]|NXN|PDN?c")
_QUOTA_REQUEST: Final = re.compile(r"MN(?:,V?N)?,DN")
_REQUEST_SIZE: Final = re.compile(r"(?<!Z)R[^.SOZV]{0,4}(?:x|X[^.]{0,3}[MB])")
_BYTES: Final = re.compile(r"(\d[\d,]*+(?:\.\d+)?) ?(bytes?\b|kb\b|mb\b|gb\b|kib\b|mib\b|gib\b)|\d[\d,]*+")
"""A number of bytes; a number without a unit is matched too, without groups, or its end would be looked for from each digit."""
_UNITS: Final = {"b": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
"""Decimal: a limit read too low costs an image, one read too high a second rejection."""
_OUTPUT_CAP: Final = re.compile(r"O[^.SPEI]{0,6}[QXxyMU]|[QXxyM][^.,SPEI]{0,4}O")
_ANSWER_LENGTH: Final = re.compile(
    r"token|(?:n|num)[ _-]predict|(?:output|completion|generat\w{1,40}|response|reply|answer)[ _-]length"
    r"|令牌|词元|(?:输出|生成)长度"
)
"""The words of a limit for the length of an answer; an output may exceed others: retries, a depth, a number of answers."""
_OTHER_UNIT: Final = re.compile(r"N[BZ]")
_OUTPUT_EXCEEDS: Final = re.compile(r"[^IT]*O[^IT]{0,4}[XxQ]")
_OTHER_SUBJECT: Final = re.compile(r"[^.ITCR]{0,20}Z")
_INPUT_NAMED: Final = re.compile(r"[IRC]|c[xX]")

_VETO_CHARS: Final = 300
"""A quota named within so many characters of a statement is its subject: recorded rate-limit errors have a median of 200
characters and at most 440."""
_SENTENCES_BEFORE: Final = 2
_SENTENCES_AFTER: Final = 3
"""Sentences around a match that are read for numbers: providers state limit, amount and advice in up to four."""
_STATEMENT_WORDS: Final = 80
"""Words on each side of a match that may belong to its statement; the longest recorded overflow has 48 tagged ones."""
_MATCHES: Final = 20
"""The most matches of one rule that are judged, so that the time for a repetitive text stays linear."""


def read_statement(text: str) -> Reading:
    """Return the meaning of one text. Time is linear in the characters read (see `normalise`)."""
    page = _Page(text)
    reading = page.find_overflow()
    if reading.kind is not None:
        return reading
    amounts = read_amounts(page.words[:_STATEMENT_WORDS], page.source)
    return Reading(kind=page.find_other_kind(), amounts=amounts, is_quota=reading.is_quota)


def names_quota(text: str) -> bool:
    """Return whether a code or a class name is about a quota: rate_limit_exceeded, RESOURCE_EXHAUSTED, ThrottlingException."""
    return "P" in _Page(text).letters


def names_quota_or_tokens(text: str) -> bool:
    """Return whether a text is about a quota, or counts tokens or the context."""
    return not set("PTCc").isdisjoint(_Page(text).letters)


def names_request_size(text: str) -> bool:
    """Return whether a text reports that a whole request is too large: "request entity too large", "request_too_large"."""
    return _REQUEST_SIZE.search(_Page(text).letters) is not None


def find_byte_limit(text: str) -> int | None:
    """Return the smallest number of bytes in a text, or None: the smaller of a limit and a size above it is the limit."""
    sizes = [
        float(match[1].replace(",", "")) * _UNITS[match[2][0]] for match in _BYTES.finditer(normalise(text)) if match[1]
    ]
    return min((int(size) for size in sizes if size >= 1), default=None)


class _Page:
    """A normalized text with its tags: `letters[i]` is the tag of `words[i]`."""

    def __init__(self, text: str) -> None:
        self.source = normalise(text)
        self.words = tag_words(self.source)
        self.letters = "".join(word.tag for word in self.words)

    def find_overflow(self) -> Reading:
        """Return the overflow that the text reports, with the fullest amounts; a reading without a kind if it reports none.

        A match near a quota is no overflow, and marks an empty reading (`is_quota`).
        """
        reading: Reading | None = None
        is_quota = False

        for rule in _RULES:
            for match in itertools.islice(re.finditer(rule.pattern, self.letters), _MATCHES):
                if self._is_quoted(match.end() - 1) or (rule.is_weak and self._has_near(match, "E")):
                    continue

                if self._has_near(match, "P"):
                    is_quota = True
                    continue
                reading = max(reading, self._judge(match, rule), key=_rank)  # the earlier one if they are equal

        return reading or Reading(is_quota=is_quota)

    def find_other_kind(self) -> OverflowKind | None:
        """Return "output_cap" or "too_large" if the text reports one of them."""
        if "P" in self.letters:
            return "too_large" if self._finds(_QUOTA_TOO_LARGE) or self._asks_above_limit() else None
        cap = self._find(_OUTPUT_CAP)
        if cap is not None and self._limits_length(cap):
            return "output_cap"
        return "too_large" if self._finds(_TOO_LARGE) else None

    def _finds(self, pattern: re.Pattern[str]) -> bool:
        return self._find(pattern) is not None

    def _find(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.search(self.letters)
        if match is None or self._is_quoted(match.end() - 1) or self._has_near(match, "E"):
            return None
        return match

    def _asks_above_limit(self) -> bool:
        """Return whether one request alone asks for more than the whole quota: "Limit 6000, Requested 6294"."""
        match = _QUOTA_REQUEST.search(self.letters)
        return match is not None and self.words[match.end() - 1].value > self.words[match.start() + 1].value

    def _judge(self, match: re.Match[str], rule: _Rule) -> Reading | None:
        """Return the meaning of the statement around a match; None if it reports no overflow after all."""
        first, last = self._find_statement(match)
        letters = self.letters[first:last]
        amounts = read_amounts(self.words[first:last], self.source)

        if rule is not _NOTHING_LEFT and "O" in letters and self._is_about_output(match, rule, letters):
            return Reading(kind="output_cap") if self._limits_length(match) else None
        if amounts.begins_with_output and amounts.limit and (amounts.output or 0) >= amounts.limit:
            return Reading(kind="output_cap")

        if "K" in letters and "C" not in letters:
            return Reading(kind="too_large")
        if rule is _BOUND and "O" in letters:
            return None
        if rule is _STATED and not (amounts.limit and amounts.total and self._is_about_tokens(match, letters)):
            return None
        if _OTHER_UNIT.search(letters) and not set("TC") & set(letters):
            return Reading(kind="too_large")
        return Reading(kind="context_overflow", amounts=amounts)

    def _is_about_output(self, match: re.Match[str], rule: _Rule, letters: str) -> bool:
        """Return whether the requested output is too long: no input is named, or only the output precedes the relation."""
        if _INPUT_NAMED.search(letters) is None:
            return True
        first = self._sentence_start(match)
        return rule is not _STATED and _OUTPUT_EXCEEDS.match(self.letters, first, match.end()) is not None

    def _is_about_tokens(self, match: re.Match[str], letters: str) -> bool:
        """Return whether a statement counts the request's tokens, not those of a file or another subject of its sentence."""
        is_other = _OTHER_SUBJECT.match(self.letters, self._sentence_start(match)) is not None
        return not is_other and bool(set("TC") & set(letters))

    def _sentence_start(self, match: re.Match[str]) -> int:
        return max(0, match.start() - _STATEMENT_WORDS, self.letters.rfind(".", 0, match.start()) + 1)

    def _find_statement(self, match: re.Match[str]) -> tuple[int, int]:
        """Return the range of words of the sentences around a match."""
        first, last = max(0, match.start() - _STATEMENT_WORDS), min(len(self.letters), match.end() + _STATEMENT_WORDS)
        before = [stop.end() for stop in _STOPS.finditer(self.letters, first, match.start())]
        after = [stop.start() for stop in _STOPS.finditer(self.letters, match.end(), last)]

        if len(before) > _SENTENCES_BEFORE:
            first = before[-_SENTENCES_BEFORE - 1]
        if len(after) > _SENTENCES_AFTER:
            last = after[_SENTENCES_AFTER]
        return first, last

    def _limits_length(self, match: re.Match[str]) -> bool:
        """Return whether the limit of an output near a match is one of its length."""
        start, end = self._surroundings(match)
        return _ANSWER_LENGTH.search(self.source, max(0, start), end) is not None

    def _surroundings(self, match: re.Match[str]) -> tuple[int, int]:
        return self.words[match.start()].start - _VETO_CHARS, self.words[match.end() - 1].end + _VETO_CHARS

    def _has_near(self, match: re.Match[str], tag: str) -> bool:
        """Return whether a word with this tag is within `_VETO_CHARS` of a match."""
        start, end = self._surroundings(match)
        first = bisect_left(self.words, start, key=attrgetter("start"))
        return tag in self.letters[first : bisect_right(self.words, end, key=attrgetter("start"))]

    def _is_quoted(self, place: int) -> bool:
        """Return whether a word is inside a quotation that is no error's own text, such as a user's text in another error."""
        end = self.words[place].start
        start = max(0, end - _QUOTE_CHARS)
        opened: re.Match[str] | None = None
        for quote in _QUOTE.finditer(self.source, start, end + 1):
            opened = quote if quote["open"] else None

        if opened is None:
            return False
        return _WRAPPER.search(self.source, max(0, opened.start() - _WRAPPER_CHARS), opened.start()) is None


def _rank(reading: Reading | None) -> int:
    """Return the rank of a reading: an overflow above any other kind, then by the number of amounts."""
    return -1 if reading is None else 4 * (reading.kind == "context_overflow") + reading.amounts.fullness


_STOPS = re.compile(r"\.+")
_QUOTE_CHARS: Final = 2_000
"""How far back an opening quotation mark is looked for; further back it belongs to a dump, not to the sentence."""
_QUOTE = re.compile(r"(?P<open>(?<![a-z0-9)\]}.!?%])[\"'](?=\S))|[\"'](?![a-z0-9_])")
_WRAPPER_CHARS: Final = 60
_WRAPPER = re.compile(
    r"(?:^[^a-z]*|(?<![a-z])(?:[a-z]*errors?|[a-z]*exception|failed|failure|message|msg|details?|reason|cause|raw|body|response"
    r"|data|stack|code|type|status|param|said|says|returned)(?:_?(?:message|msg|description|code|type|text|stack|body))?[\"']?"
    r"[ :=(\[{]{0,6}b?)$"
)
"""The text before a quotation that is an error's own: empty, or a word for errors, as a key or in prose."""
