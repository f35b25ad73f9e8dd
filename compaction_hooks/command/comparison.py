"""The printed report of several sessions, or of several settings: the outcome first, then tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from compaction_hooks.command.done import Batch, Done
from compaction_hooks.command.terminal import HEAD, clean, gap_of, print_session, rule, table
from compaction_hooks.replay.compare import Money, Outcome, Setting, advise, headline, summarize
from compaction_hooks.replay.numbers import dollars, percent, pluralize, short
from compaction_hooks.replay.replayed import Totals

SHOWN_SESSIONS = 20
"""Rows in the table of sessions, those with the most tokens; all with `--details`."""


def print_batch(
    console: Console, batch: Batch, settings: Sequence[Setting], *, details: bool, shows_summaries: bool
) -> None:
    """Print the report of one session, or the sums of several and a comparison of settings."""
    is_single = len(batch.done) == 1
    if details or (is_single and len(settings) == 1):
        for done in batch.done:
            for replay in done.replays:
                print_session(console, done, replay, shows_summaries=shows_summaries)
    if len(settings) > 1 and batch.done:
        _print_settings(console, batch, settings)
    elif len(batch.done) > 1:
        _print_sessions(console, batch.done, shows_all=details)
    if batch.ignored:
        told = f"{pluralize(batch.ignored, 'file')} in the folders left out: no session, or no answer of a model in it."
        console.print(told, style="dim")


def _print_sessions(console: Console, done: Sequence[Done], *, shows_all: bool) -> None:
    """Print the outcome of all sessions at one setting, and a row for each."""
    outcome = summarize("", [one.replays[0] for one in done])
    console.print(rule(f"All {len(done):,} sessions"))
    console.print(Text(headline(outcome), style=HEAD))
    console.print(Text(_describe_windows(done)))
    console.print()
    by_size = sorted(done, key=lambda one: one.replays[0].totals.tokens_without, reverse=True)
    shown = done if shows_all or len(done) <= SHOWN_SESSIONS else by_size[:SHOWN_SESSIONS]
    rows = [_total_cells(summarize("", [one.replays[0]])) for one in shown]
    sums = _total_cells(outcome)
    headings = [heading for heading in sums if sums[heading] or any(row[heading] for row in rows)]
    made = table("\nsession", *headings, gap=gap_of(console.width))
    for one, row in zip(shown, rows, strict=True):
        made.add_row(Text(clean(one.session.id)), *(row[heading] for heading in headings))
    if len(shown) < len(done):
        made.add_row(f"... {len(done) - len(shown):,} smaller ones")
    made.add_section()
    made.add_row("all", *(sums[heading] for heading in headings), style=HEAD)
    console.print(made)
    console.print()
    console.print(Text(_describe_money(outcome.money, len(done))))
    if not shows_all:
        console.print("--details shows each session.", style="dim")


def _describe_windows(done: Sequence[Done]) -> str:
    windows = sorted({one.replays[0].window for one in done})
    calls = sum(len(one.replays[0].calls) for one in done)
    span = short(windows[0]) if len(windows) == 1 else f"{short(windows[0])} to {short(windows[-1])}"
    unknown = sum(one.window_note.startswith("since") for one in done)
    if not done[0].window_note:
        origin = ""
    elif unknown == len(done):
        origin = ", since no recorded model is known"
    else:
        origin = " of the recorded models" + (f"; 200k for {unknown:,} whose model is unknown" if unknown else "")
    return f"{pluralize(calls, 'call')} in windows of {span}{origin}."


def _total_cells(outcome: Outcome) -> dict[str, str]:
    totals = outcome.totals
    return {
        "\ncalls": f"{totals.calls:,}",
        "compac-\ntions": f"{totals.compactions:,}",
        "over\nwindow": f"{totals.overflows_without:,}" if totals.overflows_without else "",
        "still\nover": f"{totals.unfit_calls:,}" if totals.unfit_calls else "",
        "tokens\nwithout": short(totals.tokens_without),
        "tokens\nsent": short(totals.tokens_sent),
        "\ncost": _describe_cost(outcome.money),
        "\nsaved": _describe_saving(outcome.money),
        "answers\nkept": f"{totals.probes_kept}/{totals.probes}" if totals.probes else "",
        **_kept_cells(totals),
    }


def _kept_cells(totals: Totals) -> dict[str, str]:
    return {
        "names\nkept": f"{totals.kept}/{totals.used_later}" if totals.used_later else "",
        "rules\nkept": f"{totals.constraints - totals.lost_constraints}/{totals.constraints}"
        if totals.constraints
        else "",
    }


def _describe_cost(money: Sequence[Money]) -> str:
    """Return the cost in dollars, or its span by the example prices."""
    costs = [each.spent for each in money]
    if not costs:
        return ""
    return dollars(costs[0]) if len(costs) == 1 else f"{dollars(min(costs))}-{dollars(max(costs)).removeprefix('$')}"


def _describe_saving(money: Sequence[Money]) -> str:
    shares = sorted(each.saved / each.without for each in money if each.without)
    if not shares:
        return ""
    low, high = percent(shares[0]), percent(shares[-1])
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _describe_money(money: Sequence[Money], sessions: int) -> str:
    """Return the bill in words, with the cost of summaries by a model."""
    lines: list[str] = []
    for each in money:
        sent, whose = each.sent, f"by {each.model}'s prices" if each.model else "by the recorded models' prices"
        lines.append(
            f"{dollars(each.spent)} {whose}, {dollars(each.without)} without compaction: {short(sent.read)} tokens cached, "
            f"{short(sent.written)} written to the cache, {short(sent.plain)} uncached, {short(sent.output)} of answers; "
            f"summaries by the model would add {dollars(each.summaries)}"
        )
    left_out = sessions - money[0].sessions if money else 0
    if left_out and not money[0].model:
        lines.append(f"left out: {pluralize(left_out, 'session')} whose model has no known price")
    return "\n".join(lines)


# -- settings


def _print_settings(console: Console, batch: Batch, settings: Sequence[Setting]) -> None:
    """Print a row for each setting, one for no compaction, and which setting to choose."""
    outcomes = [
        summarize(setting.name, [one.replays[number] for one in batch.done]) for number, setting in enumerate(settings)
    ]
    title = clean(batch.done[0].file) if len(batch.done) == 1 else f"All {len(batch.done):,} sessions"
    console.print(rule(f"{title}, {pluralize(len(settings), 'setting')}"))
    rows = {outcome.name: _setting_cells(outcome) for outcome in outcomes}
    rows["no compaction"] = _uncompacted_cells(outcomes[0])
    headings = [heading for heading in next(iter(rows.values())) if any(row.get(heading) for row in rows.values())]
    made = table("\nsetting", *headings, gap=gap_of(console.width))
    for name, row in rows.items():
        made.add_row(Text(name), *(row.get(heading, "") for heading in headings))
    console.print(made)
    console.print()
    console.print(Text(advise(outcomes), style=HEAD))
    left_out = len(batch.done) - outcomes[0].money[0].sessions if outcomes[0].money else 0
    if left_out:
        told = f"Costs without {pluralize(left_out, 'session')} whose model has no known price."
        console.print(told, style="dim")


def _setting_cells(outcome: Outcome) -> dict[str, str]:
    totals = outcome.totals
    return {
        "compac-\ntions": f"{totals.compactions:,}",
        "over\nwindow": f"{totals.overflows_without:,}",
        "still\nover": f"{totals.unfit_calls:,}" if totals.unfit_calls else "",
        "\ntokens": short(totals.tokens_sent),
        **_kept_cells(totals),
        **_money_cells(outcome.money),
    }


def _money_cells(money: Sequence[Money]) -> dict[str, str]:
    """Return the cost and its parts by the recorded models' prices; else the cost by each example."""
    if len(money) != 1:
        return {f"{each.model.replace('-', chr(10), 1)}": dollars(each.spent) for each in money}
    (only,) = money
    return {
        "tokens\ncached": short(only.sent.read),
        "to the\ncache": short(only.sent.written),
        "un-\ncached": short(only.sent.plain),
        "\ncost": dollars(only.spent),
        "model's\nsummaries": f"+{dollars(only.summaries)}" if only.summaries else "",
    }


def _uncompacted_cells(outcome: Outcome) -> dict[str, str]:
    """Return the row of the sessions without compaction, in a window that would take any list."""
    costs = outcome.money
    if len(costs) == 1:
        money = {"\ncost": dollars(costs[0].without)}
    else:
        money = {f"{each.model.replace('-', chr(10), 1)}": dollars(each.without) for each in costs}
    return {"\ntokens": short(outcome.totals.tokens_without), **money}
