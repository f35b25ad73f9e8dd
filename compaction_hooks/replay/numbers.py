"""Numbers for people: token counts in short form, such as 16k for 16,000, parsed and formatted; shares, and dollars."""

from __future__ import annotations

import re

_MOST_TOKENS = 10**12
"""A larger number is taken for a typing error."""
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
_WRITTEN = re.compile(r"(\d+(?:[_,]\d{3})*(?:\.\d+)?)\s?([km]?)", re.IGNORECASE)


def parse_tokens(text: str) -> int | None:
    """Return the number of tokens in a text; None if there is none from 1 to a million million.

    >>> [parse_tokens(text) for text in ("16k", "1.5M", "200000", "200_000", "0", "-5", "much", "9" * 400)]
    [16000, 1500000, 200000, 200000, None, None, None, None]
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        return None
    number = float(re.sub("[_,]", "", match[1])) * _FACTORS[match[2].lower()]
    return int(number) if 1 <= number <= _MOST_TOKENS else None


def short(number: int) -> str:
    """Return a number in at most five characters up to 999 billion.

    >>> [short(number) for number in (0, 999, 1_234, 16_000, 99_960, 860_400, 1_234_567, 52_000_000, 2_759_000_000)]
    ['0', '999', '1.2k', '16k', '100k', '860k', '1.2M', '52M', '2.8B']
    """
    for factor, unit in ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")):
        if number >= factor * 0.9995 or (unit == "k" and number >= factor):
            value = number / factor
            return f"{value:.0f}{unit}" if value >= 99.95 else f"{value:.1f}".removesuffix(".0") + unit
    return str(number)


def percent(part: float) -> str:
    """Return a share of one as percent; only 0 and 1 themselves become 0 % and 100 %.

    >>> [percent(part) for part in (0, 0.001, 0.666, 0.9999, 1, -0.25)]
    ['0 %', '1 %', '67 %', '99 %', '100 %', '-25 %']
    """
    rounded = round(part * 100)
    if 0 < part < 1:
        rounded = min(max(rounded, 1), 99)
    return f"{rounded} %"


def dollars(amount: float) -> str:
    """Return US dollars with two digits that tell something.

    >>> [dollars(amount) for amount in (0, 0.00004, 0.0123, 0.5, 1.238, 1234.5)]
    ['$0', '<$0.0001', '$0.012', '$0.50', '$1.24', '$1,234.50']
    """
    if 0 < amount < 0.0001:
        return "<$0.0001"
    if 0 < amount < 0.1:
        digits = 3 if amount >= 0.01 else 4
        return f"${amount:.{digits}f}"
    return f"${amount:,.2f}" if amount else "$0"


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    >>> pluralize(1, "call"), pluralize(0, "call"), pluralize(2, "summary")
    ('1 call', '0 calls', '2 summaries')
    """
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"
