"""The tables: the gap between no summary and everything that a context restores, and paired differences with their intervals."""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeAlias

from tests.benchmarks.judge.contexts import CUT, FULL, OURS
from tests.benchmarks.judge.moments import half_of
from tests.benchmarks.tables import print_table

SCOPES = ("all tokens", "calls", "prose", "needed names")
"""The groups of scored tokens; needed names are in calls and in prose too."""
DRAWS = 4_000
"""Times that sessions are drawn anew for an interval of 95 %."""
SEEN = 2.8
"""Standard errors of the least difference that a run shows four times in five at 5 %: 1.96 and 0.84."""
LEAST_SESSIONS = 3
"""Sessions from which on their spread says anything."""
COLUMNS = (
    *("context", "tokens above CUT", "moments", "sessions", "scored", "restored, %"),
    *("points more", "bits saved a moment", "better in", "seen"),
)
LEGEND = """\
restored: of the bits between CUT and FULL. points more, bits saved: than {to} in the same moments. In brackets: 95 %, by drawing
sessions anew. better in: moments with fewer bits. seen: the least difference in bits that this run shows four times in five."""


class Counted(NamedTuple):
    """The sums of a moment in one context.

    Attributes:
        bits: By scope.
        tokens: The judge's tokens of the context.
    """

    bits: dict[str, float]
    tokens: int


Case: TypeAlias = Mapping[str, Counted]
"""The contexts of a moment."""


class Share(NamedTuple):
    """A ratio of two sums, of one moment or of many."""

    part: float
    whole: float


def count(scored: Iterable[Sequence[Any]], result: Mapping[str, Any]) -> Counted:
    """Return the sums of a result by scope."""
    bits = dict.fromkeys(SCOPES, 0.0)
    for value, (_, kind, name) in zip(result["bits"], scored, strict=True):
        for scope in ("all tokens", "calls" if kind == "call" else "prose", *(["needed names"] if name else ())):
            bits[scope] += value
    return Counted(bits, result["front"])


def interval(shares: Iterable[tuple[str, Share]], unit: float, sign: str = "") -> str:
    """Return the ratio of all shares with its interval over sessions; "-" if there is nothing to divide by.

    Args:
        shares: Pairs of a session and a share of one of its moments.
        sign: "+" to show it.
    """
    by_session: defaultdict[str, list[Share]] = defaultdict(list)
    for session, share in shares:
        by_session[session].append(share)
    sums = [Share(*map(sum, zip(*own, strict=True))) for own in by_session.values()]
    if not sums or _ratio(sums) is None:
        return "-"

    chance = random.Random(1)
    drawn = (_ratio(chance.choices(sums, k=len(sums))) for _ in range(DRAWS))
    ratios = sorted(ratio for ratio in drawn if ratio is not None)
    edge = len(ratios) // 40
    low, high = ratios[edge], ratios[-edge - 1]
    return f"{unit * (_ratio(sums) or 0):{sign}.1f} ({unit * low:{sign}.0f} to {unit * high:{sign}.0f})"


def _ratio(shares: Sequence[Share]) -> float | None:
    whole = sum(share.whole for share in shares)
    return sum(share.part for share in shares) / whole if whole > 0 else None


def least_seen(saved: Iterable[tuple[str, float]]) -> str:
    """Return the least difference that so many sessions show, by the spread of their means."""
    by_session: defaultdict[str, list[float]] = defaultdict(list)
    for session, value in saved:
        by_session[session].append(value)
    means = [fmean(values) for values in by_session.values()]
    return f"{SEEN * stdev(means) / sqrt(len(means)):.1f}" if len(means) >= LEAST_SESSIONS else "-"


def rows(cases: Mapping[str, Case], sessions: Mapping[str, str], to: str) -> Iterator[Sequence[object]]:
    """Yield the rows of a table: each context, over the moments that have it, `to` and CUT."""
    for name in dict.fromkeys(name for found in cases.values() for name in found):
        common = {case: found for case, found in cases.items() if {name, to, CUT} <= set(found)}
        if not common:
            continue
        above = fmean(found[name].tokens - found[CUT].tokens for found in common.values())
        about = f"{above:,.0f}", len(common), len({sessions[case] for case in common})
        for scope in SCOPES:
            cells = _cells(common, sessions, name, to, scope)
            yield (name, *about, scope, *cells) if scope == SCOPES[0] else ("", "", "", "", scope, *cells)


def _cells(cases: Mapping[str, Case], sessions: Mapping[str, str], name: str, to: str, scope: str) -> list[str]:
    """Return the figures of a context in one scope."""

    def bits(case: Case, context: str) -> float:
        return case[context].bits[scope]

    scored = {case: found for case, found in cases.items() if bits(found, CUT)}
    whole = {case: found for case, found in scored.items() if FULL in found}
    gaps = {case: bits(found, CUT) - bits(found, FULL) for case, found in whole.items()}
    restored = ((sessions[case], Share(bits(one, CUT) - bits(one, name), gaps[case])) for case, one in whole.items())
    cells = [interval(restored, 100)]
    if name == to:
        return [*cells, "", "", "", ""]

    saved = {case: bits(found, to) - bits(found, name) for case, found in cases.items()}
    points = ((sessions[case], Share(saved[case], gaps[case])) for case in whole)
    each = [(sessions[case], value) for case, value in saved.items()]
    return [
        *cells,
        interval(points, 100, "+"),
        interval(((session, Share(value, 1)) for session, value in each), 1, "+"),
        f"{sum(saved[case] > 0 for case in scored)} of {len(scored)}",
        least_seen(each),
    ]


def print_tables(
    lines: Sequence[Mapping[str, Any]], to: str = OURS, half: str | None = None, by: str | None = None
) -> None:
    """Print the table of results, or one for each source or number of compaction."""
    about = {line["case"]: line for line in lines if "scored" in line}
    groups: defaultdict[object, defaultdict[str, dict[str, Counted]]] = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        first = about[line["case"]]
        if "bits" in line and half in (None, half_of(first["session"])):
            group = first[by] if by else "all"
            groups[group][line["case"]][line["name"]] = count(first["scored"], line)

    sessions = {case: line["session"] for case, line in about.items()}
    for group, cases in groups.items():
        print(f"\n{group}: {len(cases)} moments of {len({sessions[case] for case in cases})} sessions\n")
        print_table(COLUMNS, rows(cases, sessions, to))
    print(f"\n{LEGEND.format(to=to)}")
