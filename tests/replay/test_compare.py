from dataclasses import replace

from compaction_hooks.replay.bills import Bill
from compaction_hooks.replay.compare import Money, Outcome, advise, headline, summarize
from compaction_hooks.replay.replayed import Cost, Replay, Totals
from tests.cases import folded


def outcome(
    name: str = "a", *, spent: float | None = 1.0, without: float = 2.0, lost: int = 0, over: int = 0, unfit: int = 0
) -> Outcome:
    totals = Totals(
        sessions=1, calls=9, compactions=1, used_later=10, kept=10 - lost, overflows_without=over, unfit_calls=unfit
    )
    money = () if spent is None else (Money(model="", sessions=1, spent=spent, without=without, sent=Bill()),)
    return Outcome(name=name, totals=totals, money=money)


def by_model(*pairs: tuple[float, float], lost: int = 0) -> Outcome:
    money = tuple(Money(model=f"m{n}", spent=spent, without=without) for n, (spent, without) in enumerate(pairs))
    totals = Totals(calls=2, compactions=1, used_later=10 if lost else 0, kept=10 - lost if lost else 0)
    return Outcome(name="a", totals=totals, money=money)


@folded(
    "outcomes, advice",
    {
        "the cheapest of those that keep as much": (
            [outcome("a", spent=1.5), outcome("b", spent=1.0), outcome("c", spent=0.5, lost=2)],
            "Safest: b at $1.00; it loses 0 of 10 that were needed later.\n"
            "Cheapest: c at $0.50, 50 % less; it loses 2 of 10 that were needed later, 2 more.",
        ),
        "one keeps more": (
            [outcome("a", lost=3), outcome("b", spent=1.2, lost=1)],
            "Safest: b at $1.20; it loses 1 of 10 that were needed later.\n"
            "Cheapest: a at $1.00, 17 % less; it loses 3 of 10 that were needed later, 2 more.",
        ),
        "calls that do not fit": (
            [outcome("a", spent=0.1, unfit=1, over=5), outcome("b", over=5)],
            "Safest and cheapest: b at $1.00; it loses 0 of 10 that were needed later.",
        ),
        "no prices": (
            [outcome("a", spent=None), outcome("b", spent=None)],
            "Safest and cheapest: a; it loses 0 of 10 that were needed later.",
        ),
        "compaction does not pay": (
            [outcome("a", spent=3.0), outcome("b", spent=2.5)],
            "Choose no compaction: every call fits without it, and costs less than with any of these settings.",
        ),
        "it must be": (
            [outcome("a", spent=3.0, over=1), outcome("b", spent=2.5, over=1)],
            "Safest and cheapest: b at $2.50; it loses 0 of 10 that were needed later.",
        ),
        "nothing measured": (
            [by_model((1, 2)), outcome("b", spent=1.5)],
            "Safest and cheapest: a at $1.00; it takes nothing away that was used in the next calls.",
        ),
        "a large window that is never full, and a threshold far below it": (
            [replace(by_model((8, 8), (9, 9)), totals=Totals(calls=2)), by_model((1, 8), (3, 9), lost=4)],
            "Safest: a at $8.00 to $9.00 (by model); it takes nothing away.\n"
            "Cheapest: a at $1.00 to $3.00 (by model), 67 to 88 % less; it loses 4 of 10 that were needed later.",
        ),
        "nothing compacted": (
            [Outcome(name="a", totals=Totals(sessions=1, calls=3), money=())] * 2,
            "All of these settings do the same: nothing is compacted.",
        ),
    },
)
def test_advice_has_its_reason(outcomes: list[Outcome], advice: str) -> None:
    assert advise(outcomes) == advice


@folded(
    "told, text",
    {
        "saves": (
            outcome(spent=0.5, over=4, lost=3),
            "Compaction makes 4 calls fit that would not have and brings the bill to $0.50; of what was needed later it loses 3 of "
            "10 names.",
        ),
        "saves, and every call fits": (
            outcome(spent=0.5, lost=3),
            "Compaction saves $1.50 of $2.00 (75 %); of what was needed later it loses 3 of 10 names.",
        ),
        "costs more": (
            outcome(spent=2.5),
            "Compaction costs $0.50 more than the $2.00 without it (25 %); of what was needed later it loses 0 of 10 names.",
        ),
        "by model": (
            by_model((1, 2), (1.5, 2)),
            "Compaction saves 25 % to 50 % of the bill (by model); the agent used nothing later that it took away.",
        ),
        "dearer by model": (
            by_model((3, 2), (2.5, 2)),
            "Compaction costs 25 % to 50 % more (by model); the agent used nothing later that it took away.",
        ),
        "both by model": (
            by_model((1, 2), (3, 2)),
            "Compaction changes the bill by -50 % to +50 % (by model); the agent used nothing later that it took away.",
        ),
        "no call": (
            Outcome(name="a", totals=Totals(), money=()),
            "No call to replay: no answer of a model has anything before it.",
        ),
        "nothing due": (
            Outcome(name="a", totals=Totals(calls=3), money=()),
            "Compaction saves nothing here: no call came near the window.",
        ),
        "nothing gained": (
            Outcome(name="a", totals=Totals(calls=3, put_off=2), money=()),
            "Compaction saves nothing here: it was due, and would not have made any request smaller.",
        ),
        "some do not fit": (
            Outcome(name="a", totals=Totals(calls=5, compactions=1, unfit_calls=1, overflows_without=4), money=()),
            "Compaction makes 3 calls fit that would not have; the agent used nothing later that it took away.",
        ),
        "nothing fits": (
            Outcome(name="a", totals=Totals(calls=3, unfit_calls=1, overflows_without=1), money=()),
            "Compaction cannot help here: 1 call cannot be made to fit.",
        ),
    },
)
def test_the_headline_tells_what_is_saved_and_what_it_costs(told: Outcome, text: str) -> None:
    assert headline(told) == text


def test_known_prices_go_before_examples() -> None:
    def cost(model: str, *, is_recorded: bool) -> Cost:
        calls = (1.0,)
        return Cost(
            model=model,
            is_recorded=is_recorded,
            calls=calls,
            calls_without=calls,
            summaries=0.0,
            sent=Bill(),
            sent_without=Bill(),
        )

    def replay(*costs: Cost) -> Replay:
        return Replay(
            session_id="s1",
            window=8_000,
            trigger=6_000,
            keep=2_000,
            calls=(),
            compactions=(),
            unfit=(),
            put_off={},
            probes=(),
            used_recorded_usage=False,
            costs=costs,
        )

    known = replay(cost("m1", is_recorded=True))
    examples = replay(cost("e1", is_recorded=False), cost("e2", is_recorded=False))
    assert [each.model for each in summarize("a", [examples, examples]).money] == ["e1", "e2"]
    (money,) = summarize("a", [known, examples, known]).money
    assert (money.model, money.sessions, money.spent) == ("", 2, 2.0)
