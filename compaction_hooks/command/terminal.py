"""The printed report of a replay: headline, plot, table of compactions, savings and losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from compaction_hooks.command.done import Done
from compaction_hooks.command.plot import ASCII, UNICODE, Cell, Ink, columns, plot, upper_edge
from compaction_hooks.replay.compare import headline, summarize
from compaction_hooks.replay.numbers import dollars, percent, pluralize, short
from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.replayed import Cost, Replay, ReplayedCompaction

SHOWN_NOTES = 3
SHOWN_NAMES = 5
SHOWN_COMPACTIONS = 30
"""Rows in the table of compactions; if there are more, the middle ones are left out."""
RULE_CHARS = 6
"""Least characters of the line behind a title."""
ROOMY_COLUMNS = 100
"""From this terminal width on, the columns of a table are set wider apart."""

_STYLES = {
    Ink.NOTHING: "",
    Ink.LABEL: "dim",
    Ink.SENT: "green",
    Ink.WITHOUT: "red",
    Ink.WINDOW: "bold",
    Ink.TRIGGER: "yellow",
    Ink.COMPACTION: "bold magenta",
}
HEAD = "bold"


def clean(text: str) -> str:
    """Return a text that is safe on a terminal: control characters and lone surrogates become question marks."""
    safe = "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)
    return safe.encode("utf-8", "replace").decode("utf-8")


def print_session(console: Console, title: str, done: Done, replay: Replay, *, shows_summaries: bool = False) -> None:
    """Print the report of one session at one setting. A session that fits the window gets no plot and no table."""
    console.print(rule(title, console.width))
    console.print(Text(headline(summarize("", [replay])), style=HEAD))
    if replay.calls:
        console.print(Text(_describe_calls(replay)))
    console.print()

    if replay.compactions or replay.unfit:
        console.print(_Plot(replay))
        console.print()
    if replay.compactions:
        console.print(_compaction_table(replay.compactions, console.width))
        console.print()

    console.print(_facts(_findings(done, replay)))
    for compaction in replay.compactions if shows_summaries else ():
        console.print()
        console.print(rule(f"Summary at call {compaction.call}", console.width))
        console.print(Text(clean(compaction.summary) or "(no summary: results were cleared)"))
    console.print()


def rule(title: str, width: int) -> Rule:
    """Return a line with a title, of which the end is shown if it is too long: the name of a file."""
    shown = clean(title)
    most = max(width - RULE_CHARS, RULE_CHARS)
    shown = shown if len(shown) <= most else f"…{shown[1 - most :]}"
    return Rule(Text(shown, style="dim"), align="left", style="dim", characters="-")


# -- in words


def _describe_calls(replay: Replay) -> str:
    """Return the numbers of calls and compactions, and how much less was sent."""
    totals, window = replay.totals, short(replay.window)
    calls = pluralize(totals.calls, "call")
    if not replay.compactions and not replay.unfit:
        largest = short(max(call.tokens_sent for call in replay.calls))
        return f"{calls}, the largest with {largest} tokens, in a window of {window}."

    sentences = [f"{calls} in a window of {window}, {pluralize(totals.compactions, 'compaction')}."]
    if totals.compactions:
        it = "it" if totals.compactions == 1 else "them"
        without = f"{pluralize(totals.overflows_without, 'call')} would not have fitted"
        sentences.append(f"Without {it} {without if totals.overflows_without else 'every call would have fitted too'}.")
        sentences.append(f"{percent(totals.saving)} fewer tokens sent.")
    if replay.unfit:
        sentences.append(f"{pluralize(len(replay.unfit), 'call')} could not be made to fit.")
    return " ".join(sentences)


def _findings(done: Done, replay: Replay) -> Iterator[tuple[str, str]]:
    """Yield the lines below the table, each with its heading."""
    yield from _describe_session(done, replay)
    yield from _describe_outcome(replay)
    yield from _describe_bill(replay)
    yield from _explain_figures(done.session, replay)


def _describe_session(done: Done, replay: Replay) -> Iterator[tuple[str, str]]:
    session = done.session
    kind = f"{session.format_name}, {session.model}" if session.model else session.format_name
    yield "Session", clean(f"{session.id} ({kind}, {pluralize(done.messages, 'message')})")
    if done.window is not None:
        yield "Window", clean(f"{short(replay.window)}, {done.window.why}")


def _describe_outcome(replay: Replay) -> Iterator[tuple[str, str]]:
    """Yield the tokens sent, the calls that stayed too large, and how much of the session the compactions kept."""
    totals = replay.totals
    if replay.compactions:
        yield (
            "Tokens sent",
            f"{short(totals.tokens_sent)} in all calls, {short(totals.tokens_without)} without compaction",
        )
    if replay.unfit:
        first = replay.unfit[0]
        error = first.error.partition(": ")[2] or first.error
        yield "Does not fit", clean(f"{pluralize(len(replay.unfit), 'call')}, first call {first.call}: {error}")
    if replay.put_off:
        reasons = ", ".join(f"{why} ({count}x)" for why, count in replay.put_off.items())
        yield "Put off", clean(f"over the trigger but inside the window: {reasons}")

    if totals.probes:
        yield "Answers kept", _describe_probes(replay)
    if totals.used_later:
        yield "Kept", _describe_used_later(replay.compactions)
    if totals.constraints:
        yield "Constraints", _describe_constraints(replay)


def _describe_bill(replay: Replay) -> Iterator[tuple[str, str]]:
    if replay.costs:
        yield "Cost", describe_costs(replay.costs)
    recorded = replay.costs[0].recorded if replay.costs else None
    if recorded:
        yield "Recorded", f"{dollars(recorded)} by the provider's own counts, as far as they are recorded"


def _explain_figures(session: RecordedSession, replay: Replay) -> Iterator[tuple[str, str]]:
    """Yield what limits the figures: gaps of the recording, sizes by estimate, hidden tokens."""
    if session.compactions:
        yield "Recording", f"the recorded agent itself compacted {_times(len(session.compactions))}"
    if notes := session.skipped:
        more = f" (and {len(notes) - SHOWN_NOTES} more)" if len(notes) > SHOWN_NOTES else ""
        yield "Notes", clean("; ".join(notes[:SHOWN_NOTES]) + more)

    if replay.compactions or replay.unfit:
        counts = "what the provider counted up to the first compaction, then " if replay.used_recorded_usage else ""
        yield "Sizes", f"{counts}the controller's own estimates, which rather say too many tokens than too few"
    if replay.compactions:
        yield "More", "compaction-hooks report shows each compaction, what it lost, and what the model saw"
    if replay.hidden_tokens:
        hidden = f"the provider counted {short(replay.hidden_tokens)} tokens more in the first call"
        yield "Hidden", f"{hidden}, such as prompt and tools of the agent: they are in the cost, and in no size"


def _describe_probes(replay: Replay) -> str:
    totals = replay.totals
    words = f"{totals.probes_kept} of {totals.probes} probes can be answered from the context at the end"
    never = Counter(probe.kind for probe in replay.probes if not probe.is_in_session)
    lost = Counter(probe.kind for probe in replay.probes if probe.is_in_session and not probe.is_kept)
    for kinds, why in ((lost, "lost"), (never, "never in the session word for word")):
        if kinds:
            words += f"; {why}: {', '.join(f'{kind} ({count})' for kind, count in kinds.items())}"
    return clean(words)


def _describe_used_later(compactions: Sequence[ReplayedCompaction]) -> str:
    found = [compaction.used_later for compaction in compactions]
    kept = sum(len(each.kept) for each in found)
    lost = list(dict.fromkeys(name for each in found for name in each.lost))
    gone = sum(len(each.lost) for each in found)
    words = (
        f"of {kept + gone} names that the agent used in the five calls after a compaction and that only compacted messages had, "
        f"{kept} stayed in the summary or a pinned message, {gone} nowhere"
    )
    return clean(f"{words}{_list_some(lost)}")


def _describe_constraints(replay: Replay) -> str:
    """Return how many of the user's constraints stayed, and the first of those that were lost."""
    totals = replay.totals
    lost = list(dict.fromkeys(text for each in replay.compactions for text in each.lost_constraints))
    words = f"of {totals.constraints} constraints in compacted messages, {totals.constraints - len(lost)} stay in every view"
    return clean(f"{words}{_list_some(lost)}")


def _list_some(lost: Sequence[str]) -> str:
    """Return the first of what was lost, behind a colon; nothing if nothing was."""
    more = ", ..." if len(lost) > SHOWN_NAMES else ""
    return f": {', '.join(lost[:SHOWN_NAMES])}{more}" if lost else ""


def describe_costs(costs: Sequence[Cost]) -> str:
    """Return the cost with and without compaction, by the recorded model's prices or by those of the examples."""
    if costs[0].is_recorded:
        cost = costs[0]
        sent = cost.sent
        parts = f"{short(sent.read)} cached, {short(sent.written)} written to the cache, {short(sent.plain)} uncached"
        summaries = f"; summaries by the model would add {dollars(cost.summaries)}" if cost.summaries else ""
        return (
            f"{dollars(cost.with_compaction)} by {cost.model}'s prices, {dollars(cost.without_compaction)} without "
            f"compaction ({parts}, {short(sent.output)} of answers){summaries}"
        )

    each = (
        f"{cost.model} {dollars(cost.with_compaction)} ({dollars(cost.without_compaction)} without)" for cost in costs
    )
    told = f"the recorded model's prices are unknown; by those of {', '.join(each)}"
    if not any(cost.summaries for cost in costs):
        return told
    added = ", ".join(dollars(cost.summaries) for cost in costs)
    return f"{told}; summaries by the model would add {added}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _facts(findings: Iterator[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for heading, text in findings:
        grid.add_row(heading, Text(text))
    return grid


# -- tables


def table(first: str, *others: str, gap: int = 2) -> Table:
    """Return a table without rows; all columns but the first hold numbers."""
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    made.add_column(first, overflow="ellipsis")
    for heading in others:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def gap_of(width: int) -> int:
    """Return the blanks between two columns on a terminal of this width."""
    return 2 if width >= ROOMY_COLUMNS else 1


def _compaction_table(compactions: Sequence[ReplayedCompaction], width: int) -> Table:
    """Return a row for each compaction, without columns that hold only zeros."""
    cells = [_compaction_cells(compaction) for compaction in compactions]
    headings = [heading for heading in cells[0] if any(row[heading] != "0" for row in cells)]
    made = table(headings[0], *headings[1:], gap=gap_of(width))
    left_out = len(cells) - SHOWN_COMPACTIONS
    for place, row in enumerate(cells):
        if left_out > 0 and place == SHOWN_COMPACTIONS // 2:
            made.add_row("...", f"{left_out} more")
        if left_out <= 0 or not SHOWN_COMPACTIONS // 2 <= place < SHOWN_COMPACTIONS // 2 + left_out:
            made.add_row(*(row[heading] for heading in headings))
    return made


def _compaction_cells(compaction: ReplayedCompaction) -> dict[str, str]:
    return {
        "\ncall": str(compaction.call),
        "\nwhy": compaction.reason.value,
        "tokens\nbefore": short(compaction.tokens_before),
        "\nafter": short(compaction.tokens_after),
        "messages\nsummarized": str(compaction.summarized_messages),
        "kept word\nfor word": str(compaction.kept_messages),
        "\npinned": str(compaction.pinned_messages),
        "results\ncleared": str(compaction.cleared_results),
        "parts\ncut short": str(compaction.shortened_parts),
        "files\nlisted": str(len(compaction.read_files) + len(compaction.modified_files)),
    }


# -- the plot


class _Plot:
    """The plot as wide as the console, with its legend."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        replay = self._replay
        glyphs = ASCII if options.ascii_only else UNICODE
        names = [
            (replay.window, f"window {short(replay.window)}"),
            (replay.trigger, f"trigger {short(replay.trigger)}"),
        ]
        margin = max(len(name) for _, name in names) + 1

        without = [call.tokens_without for call in replay.calls]
        drawn = columns(
            without,
            [call.tokens_sent for call in replay.calls],
            frozenset(compaction.call - 1 for compaction in replay.compactions),
            max(options.max_width - margin, 1),
        )

        top = upper_edge(drawn, replay.window)
        names.append((top, short(top)))
        for row in plot(drawn, window=replay.window, trigger=replay.trigger, labels=names, glyphs=glyphs):
            yield _row(row)

        last = str(len(without))
        yield _row([(f"{'call 1':>{margin + 6}}{last:>{max(len(drawn) - 6, len(last) + 1)}}", Ink.LABEL)])

        legend = [
            (" " * margin, Ink.NOTHING),
            (glyphs.bars[-1], Ink.SENT),
            (" context sent   ", Ink.LABEL),
            (glyphs.without, Ink.WITHOUT),
            (" without compaction   ", Ink.LABEL),
            (glyphs.mark, Ink.COMPACTION),
            (" compaction", Ink.LABEL),
        ]
        if max(without) > top:
            legend += [(f"   {glyphs.beyond}", Ink.WITHOUT), (f" up to {short(max(without))}", Ink.LABEL)]
        yield _row(legend)


def _row(cells: Sequence[Cell]) -> RenderableType:
    return Text.assemble(*((text, _STYLES[ink]) for text, ink in cells), no_wrap=True, overflow="crop", end="\n")
