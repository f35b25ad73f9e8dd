"""Is this error a context overflow, and what does it say about the limit?

Three things are told apart, because the cure differs: the conversation does not fit the model's window (compact and send
again), the request is too large for a quota or in bytes (shrinking may help, the window is not to blame), the requested
length of the answer is more than the model gives (lower it). Everything else is none of this module's business.

The order of the decision:
    1. a pattern of the caller's own
    2. a veto: statuses and codes of authentication, billing and rate limits
    3. a code that names the context (`context_length_exceeded`)
    4. what the sentences say (`overflow_grammar`)
    5. what status 413 means where no sentence says more: bytes
    6. other codes; and an empty answer of a provider known to send one on overflow
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from compaction_hooks.overflow_evidence import Evidence, read_evidence, status_in
from compaction_hooks.overflow_grammar import OverflowKind, Reading, names_quota, read_statement

_ERRORS: Final = 32
"""Errors of one chain or group that are judged. Deep wrappers have 6; a group holds one error per fallback model."""
_VETO_STATUSES: Final = frozenset({401, 402, 403, 429})
"""Never an overflow in 587 labelled texts of 50 providers (2026); 429 once triggered compactions on rate limits (pi #1038)."""
_BYTES_STATUS: Final = 413
"""The body has too many bytes, unless its text speaks of tokens or the context (pi #11016)."""
_BODYLESS: Final = {"cerebras": frozenset({400, 413})}
"""Providers that answer an overflow with a status and nothing else. Taken for all providers it misfires (pi #9482)."""
_STATUS_LINE = re.compile(r"error|http|status|code|bad request|payload too large|no body|[45]\d\d|\W", re.IGNORECASE)
_STATUS_LINE_CHARS: Final = 80
_HEADROOM_RATIO: Final = 0.05
"""Of the limit, what must be left beside the requested answer for a shorter conversation to fit at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowInfo:
    """What an error says. Numbers are tokens, as stated by the provider; None where it states none.

    Attributes:
        kind: "context_overflow": the conversation, or it and the requested answer, exceeds what the model takes.
            "too_large": too many bytes, or too much for a quota, in one request. "output_cap": the requested answer
            alone is more than the model gives. The numbers are None except for the first.
        limit_tokens: What the model or the endpoint takes; a provider may count the requested answer into it.
        actual_tokens: What was sent, the requested answer included where the provider includes it.
        input_tokens: The part of `actual_tokens` that is the conversation, where the provider tells the parts apart.
        output_tokens: The part that was requested for the answer.
        is_lower_bound: The provider stopped counting: the conversation has at least this many tokens (vLLM).
    """

    kind: OverflowKind
    limit_tokens: int | None = None
    actual_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    is_lower_bound: bool = False

    @property
    def is_curable(self) -> bool:
        """Whether a shorter conversation could fit: False where the requested answer alone (nearly) fills the limit."""
        if self.kind == "output_cap":
            return False
        if self.limit_tokens is None or self.output_tokens is None:
            return True
        return self.output_tokens <= self.limit_tokens * (1 - _HEADROOM_RATIO)


def is_context_overflow(
    error: object,
    *,
    status: int | None = None,
    code: str | int | None = None,
    provider: str | None = None,
    patterns: Iterable[str | re.Pattern[str]] = (),
) -> bool:
    """Whether an error says that the conversation does not fit the model's context window; see `parse_overflow`.

    >>> is_context_overflow("prompt is too long: 208656 tokens > 200000 maximum")
    True
    >>> is_context_overflow("Too many tokens, please wait before trying again.")
    False
    """
    found = parse_overflow(error, status=status, code=code, provider=provider, patterns=patterns)
    return found is not None and found.kind == "context_overflow"


def parse_overflow(
    error: object,
    *,
    status: int | None = None,
    code: str | int | None = None,
    provider: str | None = None,
    patterns: Iterable[str | re.Pattern[str]] = (),
) -> OverflowInfo | None:
    """Return what an error says about size, or None when it speaks of something else. Never raises.

    Args:
        error: An exception of any client, also wrapped or in a group; a response object, an event of a stream, a dict,
            or text, also with JSON inside. Time is linear in its size; of a long text both ends are read.
        status: The HTTP status, when the caller knows it and the error does not.
        code: The provider's error code or type, likewise.
        provider: The provider's name, likewise; it decides only whether an answer without a body means overflow.
        patterns: The caller's own signs of overflow, which win over everything else: text that occurs in the error, case
            ignored, or compiled regular expressions.

    >>> parse_overflow("This model's maximum prompt length is 131072 but the request contains 136973 tokens.").limit_tokens
    131072
    """
    own = (patterns,) if isinstance(patterns, str | re.Pattern) else tuple(patterns)
    given = Evidence()
    given.statuses.update(() if status is None else (status,))
    given.codes.extend(() if code is None else (str(code),))
    given.providers.extend(() if provider is None else (provider,))
    return _best(_judge_all(error, given, own))


def _judge_all(error: object, given: Evidence, own: tuple[str | re.Pattern[str], ...]) -> Iterator[OverflowInfo]:
    """Yield what the error and those it wraps say, outermost first; behind a vetoed error only the members of its group."""
    queue = deque([error])
    seen: set[int] = set()
    while queue and len(seen) < _ERRORS:
        current = queue.popleft()
        if id(current) in seen:
            continue
        evidence = read_evidence(current)
        if not seen:
            _add(evidence, given)
        seen.add(id(current))
        verdict = _Verdict(evidence, own)
        info = verdict.info()
        if info is not None:
            yield info
        queue.extend(evidence.members)
        if not verdict.is_vetoed:
            queue.extend(evidence.wrapped)


def _add(evidence: Evidence, given: Evidence) -> None:
    evidence.statuses |= given.statuses
    evidence.codes += given.codes
    evidence.providers += given.providers


def _best(infos: Iterator[OverflowInfo]) -> OverflowInfo | None:
    """Return the first overflow with the most numbers, else the first of another kind."""
    found = list(infos)
    overflows = [info for info in found if info.kind == "context_overflow"]
    return max(overflows, key=_fullness, default=found[0] if found else None)


def _fullness(info: OverflowInfo) -> int:
    return 2 * (info.limit_tokens is not None) + (info.actual_tokens is not None)


class _Verdict:
    """The decision about one error, in the order the module's docstring gives."""

    def __init__(self, evidence: Evidence, own: tuple[str | re.Pattern[str], ...]) -> None:
        self._evidence = evidence
        self._own = own
        self._texts = [read_statement(text) for text in evidence.texts]
        self._codes = {code: read_statement(code) for code in evidence.codes}
        in_texts = (status_in(text) for text in evidence.texts)
        self._statuses = evidence.statuses | {status for status in in_texts if status is not None}
        self.is_vetoed = bool(self._statuses & _VETO_STATUSES) or any(map(names_quota, self._codes))

    def info(self) -> OverflowInfo | None:
        kind = self._kind()
        if kind != "context_overflow":
            return None if kind is None else OverflowInfo(kind=kind)
        amounts = max((reading.amounts for reading in self._texts), key=lambda amounts: amounts.fullness, default=None)
        if amounts is None:
            return OverflowInfo(kind=kind)
        return OverflowInfo(
            kind=kind,
            limit_tokens=amounts.limit,
            actual_tokens=amounts.total,
            input_tokens=amounts.input,
            output_tokens=amounts.output,
            is_lower_bound=amounts.is_lower_bound,
        )

    def _kind(self) -> OverflowKind | None:
        said = {reading.kind for reading in self._texts}
        coded = {reading.kind for reading in self._codes.values()}
        if self._matches_own():
            return "context_overflow"
        if self.is_vetoed:
            return "too_large" if said & {"context_overflow", "too_large"} else None
        if "context_overflow" in said or any(map(self._names_context, self._codes)):
            return "context_overflow"
        if self._is_bodyless_overflow():
            return "context_overflow"
        for kind in ("output_cap", "too_large"):
            if kind in said:
                return kind
        if _BYTES_STATUS in self._statuses or "too_large" in coded:
            return "too_large"
        return None if any(reading.is_quota for reading in self._texts) else next(iter(coded - {None}), None)

    def _matches_own(self) -> bool:
        spoken = (*self._evidence.texts, *self._evidence.codes)
        return any(_occurs(pattern, text) for pattern in self._own for text in spoken)

    def _names_context(self, code: str) -> bool:
        return self._codes[code].kind == "context_overflow" and "context" in code.lower()

    def _is_bodyless_overflow(self) -> bool:
        names = " ".join(self._evidence.providers).lower()
        statuses = {status for provider, taken in _BODYLESS.items() if provider in names for status in taken}
        return bool(self._statuses & statuses) and all(map(_is_status_line, self._evidence.texts))


def _occurs(pattern: str | re.Pattern[str], text: str) -> bool:
    if isinstance(pattern, str):
        return bool(pattern) and pattern.casefold() in text.casefold()
    return pattern.search(text) is not None


def _is_status_line(text: str) -> bool:
    """Whether a text is nothing but a status: "Error code: 400", "413 status code (no body)"."""
    return len(text) <= _STATUS_LINE_CHARS and not _STATUS_LINE.sub("", text)
