"""The tables, and the question whether a peer is better on both cost and retention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.benchmarks.money.playing import Score
from tests.benchmarks.money.rules import RULES, CacheRules


def price_table() -> Iterator[str]:
    """Yield the rules as Markdown, with their sources."""
    yield "| model | input | from cache | into cache | output | least prefix | how a prefix is found | sources |"
    yield "|---|--:|--:|--:|--:|--:|---|---|"
    for rules in RULES:
        yield (
            f"| {rules.model} | ${rules.input:.2f} | ${rules.read:.3g} | ${rules.write:.2f} | ${rules.output:.2f} "
            f"| {rules.minimum_tokens:,} | {_how(rules)} | {', '.join(rules.sources)} |"
        )


def _how(rules: CacheRules) -> str:
    if not rules.at_marks:
        return (
            f"longest common prefix, steps of {rules.step_tokens}" if rules.step_tokens > 1 else "longest common prefix"
        )
    where = "the system messages and the newest message" if rules.marks_system else "the newest message"
    back = f", {rules.lookback_blocks} blocks back" if rules.lookback_blocks else ""
    return f"at a mark: the end of {where}{back}"


def score_table(scores: Mapping[str, Score]) -> Iterator[str]:
    """Yield one row for each strategy."""
    yield (
        "| strategy | "
        + " | ".join(rules.model for rules in RULES)
        + " | names used again | probes | refused | broken | prefix changes |"
    )
    yield "|---|" + "--:|" * (len(RULES) + 5)
    for name, score in scores.items():
        dollars = " | ".join(f"${score.bills[rules.model].dollars(rules):.2f}" for rules in RULES)
        yield (
            f"| {name} | {dollars} | {_share(score.names_known, score.names)} | {_share(score.probes_known, score.probes)} "
            f"| {score.refused or ''} | {score.broken or ''} | {score.changes} |"
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def better(scores: Mapping[str, Score], ours: str, peers: list[str]) -> Iterator[str]:
    """Yield each peer that is cheaper under some rules and keeps more names without keeping fewer answers, or the reverse.

    Cost is for each answered call. A peer with calls larger than the window, or with broken requests, is not better.
    """
    own = scores[ours]
    for name in peers:
        score = scores[name]
        if score.refused or score.broken or not _keeps_more(score, own):
            continue
        models = [rules.model for rules in RULES if _cost(score, rules) < _cost(own, rules)]
        if models:
            yield f"{name} is cheaper ({', '.join(models)}) and keeps more than {ours}"


def _keeps_more(score: Score, own: Score) -> bool:
    names = score.names_known / max(score.names, 1) - own.names_known / max(own.names, 1)
    probes = score.probes_known / max(score.probes, 1) - own.probes_known / max(own.probes, 1)
    return names >= 0 and probes >= 0 and (names > 0 or probes > 0)


def _cost(score: Score, rules: CacheRules) -> float:
    return score.bills[rules.model].dollars(rules) / max(score.calls - score.refused, 1)
