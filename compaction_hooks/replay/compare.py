"""Several settings, compared on the same sessions, and which of them to choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from compaction_hooks import CompactionSettings
from compaction_hooks.replay.bills import Bill
from compaction_hooks.replay.numbers import dollars, percent, pluralize
from compaction_hooks.replay.replayed import Replay, Totals, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Settings to replay sessions with.

    Attributes:
        options: The options that are compared, with their values as they are written on the command line.
        window: The context window in tokens; None: that of each session's model.
    """

    options: Mapping[str, str]
    window: int | None = None
    settings: CompactionSettings = field(default_factory=CompactionSettings)

    @property
    def name(self) -> str:
        """The options in words, such as "window 64k, trigger 60%"."""
        return ", ".join(f"{option} {value}" for option, value in self.options.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The cost of several sessions by the same prices, in US dollars.

    Attributes:
        model: The model whose prices are used; empty for those of each session's own.
        sessions: How many they are.
        spent, without: With compaction and without. Summaries are free.
        summaries: What the summaries would have cost if the model had written them.
        sent: The tokens of all calls as sent, by price.
    """

    model: str
    sessions: int = 0
    spent: float = 0.0
    without: float = 0.0
    summaries: float = 0.0
    sent: Bill = field(default_factory=Bill)

    @property
    def saved(self) -> float:
        """Dollars saved by compaction; below 0 if it costs more than it saves."""
        return self.without - self.spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one setting does to all sessions.

    Attributes:
        name: The setting's name.
        money: By the sessions' own prices, if any are known; else, by each of the example prices. If some sessions' prices are
            known, those of the others are not in it.
    """

    name: str
    totals: Totals
    money: tuple[Money, ...]

    @property
    def lost(self) -> int:
        """How much of what was needed later is lost: identifiers and constraints."""
        return self.totals.used_later - self.totals.kept + self.totals.lost_constraints


def summarize(name: str, replays: Sequence[Replay]) -> Outcome:
    """Return the outcome of one setting's replays."""
    return Outcome(name=name, totals=total(replays), money=tuple(_add_up(replays)))


def _add_up(replays: Iterable[Replay]) -> list[Money]:
    costs = [cost for replay in replays for cost in replay.costs]
    known = [cost for cost in costs if cost.is_recorded]

    sums: dict[str, Money] = {}
    for cost in known or costs:
        model = "" if cost.is_recorded else cost.model
        before = sums.get(model, Money(model=model))
        sums[model] = Money(
            model=model,
            sessions=before.sessions + 1,
            spent=before.spent + cost.with_compaction,
            without=before.without + cost.without_compaction,
            summaries=before.summaries + cost.summaries,
            sent=before.sent + cost.sent,
        )

    return list(sums.values())


def headline(outcome: Outcome) -> str:
    """Return what compaction saves and what it costs, in one sentence."""
    totals = outcome.totals
    if not totals.calls:
        return "No call to replay: no answer of a model has anything before it."
    if not totals.compactions:
        return _describe_nothing(totals)

    gains: list[str] = []
    if totals.overflows_without:
        gains.append(
            f"makes {pluralize(totals.overflows_without - totals.unfit_calls, 'call')} fit that would not have"
        )
    if outcome.money:
        gains.append(_describe_money(outcome))

    return f"Compaction {' and '.join(gains) or 'runs'}; {_describe_losses(totals)}."


def _describe_nothing(totals: Totals) -> str:
    """Return why nothing was compacted."""
    if totals.unfit_calls:
        return f"Compaction cannot help here: {pluralize(totals.unfit_calls, 'call')} cannot be made to fit."
    if totals.put_off:
        return "Compaction saves nothing here: it was due, and would not have made any request smaller."
    return "Compaction saves nothing here: no call came near the window."


def _describe_losses(totals: Totals) -> str:
    losses: list[str] = []
    if totals.used_later:
        losses.append(f"{totals.used_later - totals.kept} of {pluralize(totals.used_later, 'name')}")
    if totals.constraints:
        losses.append(f"{totals.lost_constraints} of {pluralize(totals.constraints, 'constraint')}")
    if not losses:
        return "the agent used nothing later that it took away"
    return f"of what was needed later it loses {' and '.join(losses)}"


def _describe_money(outcome: Outcome) -> str:
    """Return what is saved, or the bill if there is none without compaction: calls over the window cannot be made."""
    money = outcome.money
    is_part = not money[0].model and money[0].sessions < outcome.totals.sessions
    where = f" in the {pluralize(money[0].sessions, 'session')} with known prices" if is_part else ""
    if outcome.totals.overflows_without:
        return f"brings the bill to {span_of([each.spent for each in money])}{where}"
    if len(money) == 1:
        return f"{_describe_dollars(money[0])}{where}"
    return _describe_shares(money)


def _describe_dollars(money: Money) -> str:
    share = f" ({percent(abs(money.saved) / money.without)})" if money.without else ""
    if money.saved >= 0:
        return f"saves {dollars(money.saved)} of {dollars(money.without)}{share}"
    return f"costs {dollars(-money.saved)} more than the {dollars(money.without)} without it{share}"


def _describe_shares(money: Iterable[Money]) -> str:
    """Return the least and the most that is saved by the prices of several models."""
    shares = sorted(each.saved / each.without for each in money if each.without)
    if not shares:
        return "is free"

    low, high = shares[0], shares[-1]
    if low >= 0:
        return f"saves {percent(low)} to {percent(high)} of the bill (by model)"
    if high <= 0:
        return f"costs {percent(-high)} to {percent(-low)} more (by model)"
    return f"changes the bill by {percent(-high)} to +{percent(-low)} (by model)"


def span_of(costs: Sequence[float]) -> str:
    """Return a cost in dollars, or the least and the largest of those by several models."""
    least, largest = dollars(min(costs)), dollars(max(costs))
    return least if len(costs) == 1 else f"{least} to {largest} (by model)"


# -- advice


def advise(outcomes: Sequence[Outcome]) -> str:
    """Return the safest and the cheapest setting, a line each with the difference; one line if they are the same.

    The safest is the cheapest of those that lose the least. Settings with calls that could not be made to fit are no choice, unless
    all have some. With several example prices, the cheapest has the lowest mean of the costs, each as a part of the cost without
    compaction.
    """
    fitting = [each for each in outcomes if not each.totals.unfit_calls] or list(outcomes)
    if not any(each.totals.compactions for each in fitting):
        return "All of these settings do the same: nothing is compacted."
    if all(_relative_cost(each) > 1 and not each.totals.overflows_without for each in fitting):
        return "Choose no compaction: every call fits without it, and costs less than with any of these settings."

    least = min(each.lost for each in fitting)
    safest = min((each for each in fitting if each.lost == least), key=_relative_cost)
    cheapest = min(fitting, key=_relative_cost)
    if cheapest is safest:
        return f"Safest and cheapest: {_describe_choice(safest)}."

    more = f", {cheapest.lost - safest.lost:,} more" if safest.totals.compactions else ""
    return (
        f"Safest: {_describe_choice(safest)}.\n"
        f"Cheapest: {_describe_choice(cheapest, _describe_less(cheapest, safest))}{more}."
    )


def _describe_choice(outcome: Outcome, less: str = "") -> str:
    price = f" at {span_of([each.spent for each in outcome.money])}{less}" if outcome.money else ""
    return f"{outcome.name}{price}; it {_describe_loss(outcome)}"


def _describe_less(outcome: Outcome, other: Outcome) -> str:
    """Return how much less one setting costs than another, by each of the prices."""
    shares = sorted(
        1 - one.spent / than.spent for one, than in zip(outcome.money, other.money, strict=True) if than.spent
    )
    if not shares:
        return ""
    low, high = percent(shares[0]), percent(shares[-1])
    return f", {low} less" if low == high else f", {low.removesuffix(' %')} to {high} less"


def _describe_loss(outcome: Outcome) -> str:
    """Return how much of what was needed later a setting loses; if nothing was needed, nothing was measured."""
    totals = outcome.totals
    needed = totals.used_later + totals.constraints
    if not totals.compactions:
        return "takes nothing away"
    if not needed:
        return "takes nothing away that was used in the next calls"
    return f"loses {outcome.lost} of {needed} that were needed later"


def _relative_cost(outcome: Outcome) -> float:
    """Return the cost as a part of that without compaction; without prices, that of the tokens."""
    parts = [each.spent / each.without for each in outcome.money if each.without]
    return sum(parts) / len(parts) if parts else 1 - outcome.totals.saving
