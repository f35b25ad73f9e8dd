"""Repair of a summary, whoever wrote it: the constraints and identifiers that it lacks are added, as far as there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compaction_hooks.files.operations import read_calls
from compaction_hooks.messages import M
from compaction_hooks.recall.facts import read_words_of_user
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.strategies.summary_plan import SummaryPlan, find_pinned, tokens_above
from compaction_hooks.summary.extractive.identifiers import collect_mentions, identifier_items
from compaction_hooks.summary.extractive.outline import Item, Section, as_data, parse
from compaction_hooks.summary.extractive.outline import render as render_items
from compaction_hooks.view.snapshot import Snapshot

CONSTRAINTS_RATIO = 0.25
"""The most of the target that constraints may take which a summary lacks; beyond it the newest are put back."""
LINE_TOKENS = 2
"""Estimate of a bullet and a line break."""


def repair_summary(
    snapshot: Snapshot[M],
    goal: Goal[M],
    plan: SummaryPlan,
    text: str,
    render: Callable[[str], str],
    *,
    ledger_tokens: int,
) -> str:
    """Return a summary with the constraints and identifiers that it lacks, word for word, as far as the view stays at the target.

    Args:
        render: Returns the text of a summary's message.
        ledger_tokens: The most tokens of identifiers.
    """
    wanted = [item for item in _constraints(snapshot, plan) if item.text not in text]
    has_ledger = not ledger_tokens or Section.IDENTIFIERS.value in text
    if has_ledger and not wanted:
        return text
    target, start = snapshot.room(goal.budget.target), snapshot.history.run_start(plan.cut)
    most = target - tokens_above(snapshot, start) - snapshot.history.tokens(start)
    room = most - snapshot.text_tokens(render(text))

    size = snapshot.estimator.estimate_tokens
    kept = _newest_fitting(wanted, min(room, int(target * CONSTRAINTS_RATIO)), size)
    repaired = _add(text, kept)
    gone = len(wanted) - len(kept)
    if gone and snapshot.has_recall:
        note = f"(Left out: {gone:,} earlier constraints of the user. The recall tool finds them by their words.)"
        repaired = f"{repaired}\n\n{note}"
    if not has_ledger:
        room -= sum(size(item.text) + LINE_TOKENS for item in kept)
        repaired = _add(repaired, _ledger(plan, repaired, min(room, ledger_tokens), size))
    return repaired if snapshot.text_tokens(render(repaired)) <= most else text


def _constraints(snapshot: Snapshot[M], plan: SummaryPlan) -> list[Item]:
    """Return the user's constraints before the cut, oldest first; those in messages that stay are in view."""
    start = snapshot.history.run_start(plan.cut)
    pinned = {*find_pinned(snapshot, start)}
    words = read_words_of_user(snapshot.history, start)
    earlier = [item.text for item in parse(plan.previous_summary or "") if item.section is Section.CONSTRAINTS]
    said = (text for index, found in words.items() if index not in pinned for text in found.constraints)
    return [as_data(Item(section=Section.CONSTRAINTS, text=text)) for text in dict.fromkeys((*earlier, *said))]


def _ledger(plan: SummaryPlan, text: str, room: int, size: Callable[[str], int]) -> list[Item]:
    """Return the identifiers that are most likely needed next and not in the text, best first, as many as fit."""
    messages = (*plan.history, *plan.prefix)
    known = (*plan.files.modified, *plan.files.read) if plan.tags else ()
    found = identifier_items(collect_mentions(messages, read_calls(messages), ()), frozenset(known))
    chosen: list[Item] = []
    for item in map(as_data, found):
        if item.text in text:
            continue
        room -= size(f"{item.group}: {item.text}") + LINE_TOKENS
        if room < 0:
            break
        chosen.append(item)
    return chosen


def _newest_fitting(items: Sequence[Item], room: int, size: Callable[[str], int]) -> list[Item]:
    kept: list[Item] = []
    for item in reversed(items):
        room -= size(item.text) + LINE_TOKENS
        if room < 0:
            break
        kept.insert(0, item)
    return kept


def _add(text: str, items: Sequence[Item]) -> str:
    """Return the text with items of one section, under its heading if the text has that, else at its end."""
    if not items:
        return text
    heading, _, lines = render_items(items).rpartition(f"{items[0].section.value}\n")
    before, found, after = text.partition(f"{items[0].section.value}\n")
    if found:
        return f"{before}{found}{lines}\n{after}"
    return f"{text.rstrip()}\n\n{heading}{items[0].section.value}\n{lines}".lstrip()
