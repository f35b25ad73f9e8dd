"""Recognition of context overflows in providers' errors, and the numbers that such an error states.

Three kinds are distinguished, because the remedy differs: the conversation does not fit the model's window (compact and send
again); the request is too large for a quota or in bytes (a smaller one may pass, the window is not the reason); the requested
length of the answer is more than the model gives (lower it). Other errors give None.

The order of the decision:
    1. a pattern of the caller's own
    2. a veto: statuses and codes of authentication, billing and rate limits
    3. an overflow in the sentences (`grammar`), or a code that names the context
    4. an empty answer of a provider known to send one on overflow
    5. the other kinds in the sentences
    6. status 413, which means bytes if no sentence speaks of tokens; then other codes
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from compaction_hooks.overflow.evidence import Evidence, read_chain
from compaction_hooks.overflow.grammar import (
    OverflowKind,
    find_byte_limit,
    names_quota,
    names_quota_or_tokens,
    names_request_size,
    read_statement,
)

__all__ = ["OverflowInfo", "OverflowKind", "is_context_overflow", "parse_overflow"]

_OVERFLOW: Final = "context_overflow"
_OTHER_KINDS: Final[tuple[OverflowKind, ...]] = ("output_cap", "too_large")
_VETO_STATUSES: Final = frozenset({401, 402, 403, 429})
"""Authentication, billing, permission, rate limit. In 587 labelled texts (2026) none was an unambiguous overflow; pi once read
429 as an overflow and compacted on rate limits (pi #1038)."""
_BYTES_STATUS: Final = 413
"""The body has too many bytes, unless its text speaks of tokens or the context (pi #11016)."""
_BODYLESS: Final = {"cerebras": frozenset({400, 413})}
"""Providers that answer an overflow with a bare status. For all other providers such an answer means other errors (pi #9482)."""
_STATUS_LINE = re.compile(
    r"error|http|status|code|api|response|returned|request failed with|bad request|payload too large|no body|[45]\d\d|\W",
    re.IGNORECASE,
)
_STATUS_LINE_CHARS: Final = 80
"""Characters, more than a status line has ("413 status code (no body)"); the bound keeps the search linear."""
_HEADROOM_RATIO: Final = 0.05
"""The part of the limit that the requested answer must leave free, so that a shorter conversation can fit at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowInfo:
    """The kind of overflow that an error reports. Numbers are tokens, as stated by the provider; None if it states none.

    Attributes:
        kind: "context_overflow": the conversation, alone or with the requested answer, exceeds the model's window.
            "too_large": too many bytes, or too much for a quota, in one request. "output_cap": the requested answer
            alone is more than the model gives. The token numbers are None except for the first kind.
        limit_tokens: The most that the model or the endpoint accepts; a provider may count the requested answer into it.
        actual_tokens: The size of the request, with the requested answer if the provider includes it.
        input_tokens: The conversation's part of `actual_tokens`, if the provider states it separately.
        output_tokens: The requested answer's part of `actual_tokens`, likewise.
        is_lower_bound: Whether the provider stopped counting, so that the conversation has at least this many tokens (vLLM).
        is_bytes: For "too_large": whether the body of the request has too many bytes.
        limit_bytes: The most bytes that the body may have; None if the provider does not state it.
    """

    kind: OverflowKind
    limit_tokens: int | None = None
    actual_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    is_lower_bound: bool = False
    is_bytes: bool = False
    limit_bytes: int | None = None

    @property
    def is_recoverable(self) -> bool:
        """Whether the controller can recover: a shorter conversation could fit, or one with fewer images and documents."""
        return self.is_curable if self.kind == "context_overflow" else self.is_bytes

    @property
    def is_curable(self) -> bool:
        """Whether a shorter conversation could fit: False if the requested answer alone (nearly) fills the limit."""
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
    """Return whether an error reports that the conversation does not fit the model's context window; see `parse_overflow`.

    >>> is_context_overflow("prompt is too long: 208656 tokens > 200000 maximum")
    True
    >>> is_context_overflow("Too many tokens, please wait before trying again.")
    False
    """
    overflow = parse_overflow(error, status=status, code=code, provider=provider, patterns=patterns)
    return overflow is not None and overflow.kind == "context_overflow"


def parse_overflow(
    error: object,
    *,
    status: int | None = None,
    code: str | int | None = None,
    provider: str | None = None,
    patterns: Iterable[str | re.Pattern[str]] = (),
) -> OverflowInfo | None:
    """Return the kind and the numbers of the overflow that an error reports, or None for any other error. Never raises.

    Args:
        error: An exception of any client, also wrapped or in a group; a response object, an event of a stream, a dict,
            or text, also with JSON inside. Time is linear in its size; of a long text both ends are read.
        status: The HTTP status, if the caller knows it and the error does not hold it.
        code: The provider's error code or type, likewise.
        provider: The provider's name, likewise; also used for wrapped errors. It decides only whether an answer without a body
            means overflow.
        patterns: The caller's own signs of overflow, which win over all others: text that occurs in the error, case ignored, or
            compiled regular expressions.

    >>> parse_overflow("This model's maximum prompt length is 131072 but the request contains 136973 tokens.").limit_tokens
    131072
    """
    own = (patterns,) if isinstance(patterns, str | re.Pattern) else tuple(patterns)
    given = Evidence()
    if status is not None:
        given.statuses.add(status)
    if code is not None:
        given.add_code(str(code))
    if provider is not None:
        given.providers.append(provider)

    return _pick_best(list(_judge_all(error, given, own)))


def _judge_all(error: object, given: Evidence, own: tuple[str | re.Pattern[str], ...]) -> Iterator[OverflowInfo]:
    """Yield the verdicts on the error and on the errors it wraps, outermost first; below a vetoed error only its group."""
    for depth, evidence in enumerate(read_chain(error)):
        # The caller's status and code describe the outermost error only; the provider is the same for all.
        if depth:
            evidence.providers += given.providers
        else:
            evidence.add(given)

        verdict = _Verdict(evidence, own)
        if verdict.kind is not None:
            yield verdict.describe(verdict.kind)
        if verdict.is_vetoed:
            evidence.wrapped.clear()


def _pick_best(infos: list[OverflowInfo]) -> OverflowInfo | None:
    """Return the first overflow with the most numbers, else the first of another kind."""
    overflows = [info for info in infos if info.kind == "context_overflow"]
    return max(
        overflows,
        key=lambda info: 2 * (info.limit_tokens is not None) + (info.actual_tokens is not None),
        default=infos[0] if infos else None,
    )


class _Verdict:
    """The decision about one error, in the order the module's docstring gives."""

    def __init__(self, evidence: Evidence, own: tuple[str | re.Pattern[str], ...]) -> None:
        self.evidence = evidence
        self.texts = [read_statement(text) for text in evidence.texts]
        self.codes = {code: read_statement(code) for code in evidence.codes}
        self.signs = (*evidence.texts, *evidence.codes)
        self.is_own = any(_occurs_in(pattern, text) for pattern in own for text in self.signs)
        self.is_vetoed = bool(evidence.statuses & _VETO_STATUSES) or any(map(names_quota, self.codes))

    @property
    def kind(self) -> OverflowKind | None:
        text_kinds = {reading.kind for reading in self.texts}
        code_kinds = {reading.kind for reading in self.codes.values()}

        if self.is_own:
            return "context_overflow"
        if self.is_vetoed:
            return "too_large" if text_kinds & {"context_overflow", "too_large"} else None
        if "context_overflow" in text_kinds or self._names_context() or self._is_bodyless_overflow():
            return "context_overflow"
        for kind in _OTHER_KINDS:
            if kind in text_kinds:
                return kind

        if _BYTES_STATUS in self.evidence.statuses:
            return "too_large"
        if any(reading.is_quota for reading in self.texts):
            return None
        return next((kind for kind in (*_OTHER_KINDS, _OVERFLOW) if kind in code_kinds), None)

    def describe(self, kind: OverflowKind) -> OverflowInfo:
        """Return the overflow of this kind, with the amounts of the text that names most of them."""
        if kind == "too_large" and self._is_about_bytes():
            sizes = [find_byte_limit(text) for text in self.evidence.texts]
            return OverflowInfo(
                kind=kind, is_bytes=True, limit_bytes=min((size for size in sizes if size), default=None)
            )

        if kind != _OVERFLOW or not self.texts:
            return OverflowInfo(kind=kind)

        amounts = max((reading.amounts for reading in self.texts), key=lambda amounts: amounts.fullness)
        return OverflowInfo(
            kind=kind,
            limit_tokens=amounts.limit,
            actual_tokens=amounts.total,
            input_tokens=amounts.input,
            output_tokens=amounts.output,
            is_lower_bound=amounts.is_lower_bound,
        )

    def _is_about_bytes(self) -> bool:
        is_other = self.is_vetoed or any(map(names_quota_or_tokens, self.signs))
        return not is_other and (_BYTES_STATUS in self.evidence.statuses or any(map(names_request_size, self.signs)))

    def _names_context(self) -> bool:
        """Return whether a code reports overflow of the context: context_length_exceeded does, TOO_MANY_TOKENS does not."""
        return any(reading.kind == _OVERFLOW and "context" in code.lower() for code, reading in self.codes.items())

    def _is_bodyless_overflow(self) -> bool:
        names = " ".join(self.evidence.providers).lower()
        statuses = {status for provider, taken in _BODYLESS.items() if provider in names for status in taken}
        return bool(self.evidence.statuses & statuses) and all(
            len(text) <= _STATUS_LINE_CHARS and not _STATUS_LINE.sub("", text) for text in self.evidence.texts
        )


def _occurs_in(pattern: str | re.Pattern[str], text: str) -> bool:
    if isinstance(pattern, str):
        return bool(pattern) and pattern.casefold() in text.casefold()
    return pattern.search(text) is not None
