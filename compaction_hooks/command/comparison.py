"""The printed report of several sessions, or of several settings: the outcome first, then tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from compaction_hooks.command.done import Batch, Done
from compaction_hooks.command.terminal import HEAD, clean, gap_of, print_session, rule, table
from compaction_hooks.replay.compare import Money, Outcome, advise, headline, summarize
from compaction_hooks.replay.numbers import dollars, parse_tokens, percent, pluralize, short
from compaction_hooks.replay.replayed import Replay, Totals
from compaction_hooks.replay.windows import DEFAULT_WINDOW

SHOWN_FILES = 3
"""Names of files that were not read; more are only counted."""
SHOWING = 0.6
"""A window of this part of the largest call is passed well before the end of a session."""
LEAST_WINDOW = 2_000
"""In a smaller one there is too little to see."""
UNCOMPACTED = "no compaction"
DROPPED = ("\ntrigger", "un-\ncached", "to the\ncache", "tokens\ncached", "model's\nsummaries", "\ntokens")
"""Columns that a narrow terminal does without, in this order."""
SHOWN_SESSIONS = 20
"""Rows in the table of sessions, those with the most tokens; all with `--details`."""


def print_reports(console: Console, batch: Batch, *, details: bool, shows_summaries: bool) -> None:
    """Print the report of one session, or the sums of several and a comparison of settings."""
    is_single = len(batch.done) == 1
    if details or (is_single and len(batch.settings) == 1):
        for done in batch.done:
            for setting, replay in zip(batch.settings, done.replays, strict=True):
                title = done.file if len(batch.settings) == 1 else f"{done.file}, {setting.name}"
                print_session(console, title, done, replay, shows_summaries=shows_summaries)

    if len(batch.settings) > 1 and batch.done:
        _print_settings(console, batch)
    elif len(batch.done) > 1:
        _print_sessions(console, batch.done, shows_all=details)


class Smaller(NamedTuple):
    """A session and a smaller window, in tokens, in which it is compacted."""

    file: str
    window: int

    @property
    def is_there(self) -> bool:
        """Whether the file can be read again: standard input cannot."""
        return Path(self.file).exists()

    @property
    def command(self) -> str:
        """The command that shows the compactions."""
        name = shlex.quote(clean(self.file)) if self.is_there else "-"
        return f"compaction-hooks replay {name} --window {short(self.window)}"


def find_smaller(batch: Batch) -> Smaller | None:
    """Return the session with the largest call and a window of 60 % of that, if nothing is compacted.

    None if something is, or if no window would show any: the system prompt and the first request must fit.
    """
    replays = [(replay, done.file) for done in batch.done for replay in done.replays if replay.calls]
    if not replays or any(replay.compactions for replay, _ in replays):
        return None
    largest, file = max(replays, key=lambda pair: _largest_call(pair[0]))
    window = parse_tokens(short(int(SHOWING * _largest_call(largest)))) or 0
    return Smaller(file, window) if window > max(largest.calls[0].tokens_without, LEAST_WINDOW) else None


def print_command(console: Console, hit: Smaller) -> None:
    """Print the command that shows the compactions of a session."""
    console.print(Text(f"To see compactions: {hit.command}", style=HEAD), soft_wrap=True)


def print_gaps(console: Console, batch: Batch) -> None:
    """Print which files are left out, and which could not be read whole."""
    for told in describe_gaps(batch):
        console.print(Text(told, style="dim"))


def print_smaller(console: Console, hit: Smaller, batch: Batch) -> None:
    """Print the report of the session with the largest call of a file, in a smaller window than its own."""
    done = max(batch.done, key=lambda each: _largest_call(each.replays[0]))
    told = f"Nothing is compacted. In a window of {short(hit.window)}, 60 % of the largest call:"
    console.print(Text(told, style=HEAD))
    console.print()
    print_session(console, f"{hit.file}, window {short(hit.window)}", done, done.replays[0])


def _largest_call(replay: Replay) -> int:
    return max((call.tokens_without for call in replay.calls), default=0)


def describe_gaps(batch: Batch) -> Iterator[str]:
    """Yield a line on the files that are no sessions, and one on those that could not be read whole."""
    if batch.ignored:
        yield f"{_count(batch.ignored)} left out, without a session or an answer of a model: {_name(batch.ignored)}"
    damaged = [*dict.fromkeys(done.file for done in batch.done if done.session.unread)]
    if damaged:
        yield f"{_count(damaged)} not read whole (see the notes): {_name(damaged)}"


def _count(files: Sequence[str]) -> str:
    return pluralize(len(files), "file")


def _name(files: Sequence[str]) -> str:
    names = ", ".join(clean(Path(name).name) for name in files[:SHOWN_FILES])
    return f"{names}, ..." if len(files) > SHOWN_FILES else names


def _print_sessions(console: Console, done: Sequence[Done], *, shows_all: bool) -> None:
    """Print the outcome of all sessions at one setting, and a row for each."""
    outcome = summarize("", [one.replays[0] for one in done])
    console.print(rule(f"All {len(done):,} sessions", console.width))
    console.print(Text(headline(outcome), style=HEAD))
    console.print(Text(_describe_windows(done)))
    console.print()

    by_size = sorted(done, key=lambda one: one.replays[0].totals.tokens_without, reverse=True)
    shown = by_size if shows_all else by_size[:SHOWN_SESSIONS]
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
    unknown = sum(one.window is not None and not one.window.is_known for one in done)

    if done[0].window is None:
        origin = ""
    elif unknown == len(done):
        origin = ", since no recorded model is known"
    else:
        default = f"; {short(DEFAULT_WINDOW)} for {unknown:,} whose model is unknown"
        origin = " of the recorded models" + (default if unknown else "")

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
            f"{short(sent.written)} written to the cache, {short(sent.plain)} uncached, {short(sent.output)} of answers"
            + (f"; summaries by the model would add {dollars(each.summaries)}" if each.summaries else "")
        )

    left_out = sessions - money[0].sessions if money else 0
    if left_out and not money[0].model:
        lines.append(f"left out: {pluralize(left_out, 'session')} whose model has no known price")
    return "\n".join(lines)


# -- settings


def _print_settings(console: Console, batch: Batch) -> None:
    """Print a row for each setting, one for no compaction, and which setting to choose."""
    outcomes = [
        summarize(setting.name, [one.replays[number] for one in batch.done])
        for number, setting in enumerate(batch.settings)
    ]

    title = batch.done[0].file if len(batch.done) == 1 else f"All {len(batch.done):,} sessions"
    console.print(rule(f"{title}, {pluralize(len(batch.settings), 'setting')}", console.width))

    names = [", ".join(setting.options.values()) for setting in batch.settings]
    rows = [_setting_cells(batch, number, outcome) for number, outcome in enumerate(outcomes)]
    names, rows = [UNCOMPACTED, *names], [_uncompacted_cells(outcomes[0]), *rows]
    headings = _choose_columns([", ".join(batch.settings[0].options), *names], rows, console.width)

    made = table(f"\n{', '.join(batch.settings[0].options)}", *headings, gap=gap_of(console.width))
    for name, row in zip(names, rows, strict=True):
        made.add_row(Text(name, no_wrap=True), *(row.get(heading, "") for heading in headings))
    console.print(made)
    console.print()

    console.print(Text(advise(outcomes), style=HEAD))
    left_out = len(batch.done) - outcomes[0].money[0].sessions if outcomes[0].money else 0
    if left_out:
        told = f"Costs without {pluralize(left_out, 'session')} whose model has no known price."
        console.print(told, style="dim")


def _choose_columns(names: Sequence[str], rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Return the headings of the columns that are not empty, without the least important ones if the terminal is narrow."""
    headings = [heading for heading in rows[-1] if any(row.get(heading) for row in rows)]
    widths = {
        heading: max(len(cell) for cell in (*heading.split("\n"), *(row.get(heading, "") for row in rows)))
        for heading in headings
    }

    first = max(map(len, names))
    for dropped in DROPPED:
        if first + sum(widths[heading] + gap_of(width) for heading in headings) <= width:
            break
        headings = [heading for heading in headings if heading != dropped]
    return headings


def _setting_cells(batch: Batch, number: int, outcome: Outcome) -> dict[str, str]:
    """Return the cells of a setting's row, by heading; the trigger only if it is the same in all sessions.

    Args:
        number: Index of the setting.
    """
    totals = outcome.totals
    triggers = {done.replays[number].trigger for done in batch.done}
    return {
        "\ntrigger": short(*triggers) if len(triggers) == 1 else "",
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
