"""A summary is completed for its place in a view: the room that it has there, and all that the conversation says so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from compaction_hooks.digest import complete
from compaction_hooks.history.history import UserWords
from compaction_hooks.messages import M
from compaction_hooks.strategies.candidate import Goal
from compaction_hooks.strategies.reduce_parts import most_gain
from compaction_hooks.strategies.summary_plan import Summarized, SummaryPlan, find_head_summary
from compaction_hooks.view.parts import find_handle
from compaction_hooks.view.snapshot import Snapshot

FILLED_RATIO = 0.5
"""The most that a summary may have with what is filled in, next to the size of the one before, as a part of the other messages
that it replaces: else nothing is gained."""


def repair_summary(
    snapshot: Snapshot[M],
    goal: Goal[M],
    plan: SummaryPlan,
    summary: Summarized,
    show: Callable[[str], str],
) -> str:
    """Return a summary with the facts that it lacks, word for word, as far as the view stays at the target.

    Args:
        show: Returns the text of a summary's message.
    """
    history = snapshot.history
    return complete(
        summary.text,
        plan.facts,
        plan.allowance,
        size=snapshot.estimator.estimate_tokens,
        measure=lambda text: snapshot.text_tokens(show(text)),
        find_limits=partial(_find_limits, snapshot, goal, plan, show),
        words=_find_words(snapshot, plan),
        find_handle=lambda piece: find_handle(history, piece) if snapshot.has_recall else "",
        find_failures=partial(_find_failures, snapshot, plan),
        is_by_rule=summary.is_by_rule,
        has_our_headings=summary.has_our_headings,
        has_form=summary.has_form,
        identifier_tokens=plan.identifier_tokens,
        tags=plan.tags,
    )


def _find_limits(
    snapshot: Snapshot[M],
    goal: Goal[M],
    plan: SummaryPlan,
    show: Callable[[str], str],
    message_tokens: int,
    heading_tokens: int,
) -> tuple[int | None, int]:
    """Return the most tokens of the summary's message with words of the user, None without a limit, and with all other facts.

    Args:
        message_tokens: Size of the message as it is.
        heading_tokens: Size of the shortest addition.
    """
    start = snapshot.history.run_start(plan.cut)
    kept = snapshot.history.tokens(start)
    most = snapshot.room(goal.budget.target) - snapshot.tokens_above(start) - kept

    excess = message_tokens + heading_tokens - most
    if 0 < excess <= kept:  # the kept messages are shortened next
        most += most_gain(snapshot, goal, plan.cut)
    # Next to a system prompt larger than the target, the user's words have the room that any summary has.
    most_of_words = None if excess > kept else most

    earlier_tokens = snapshot.text_tokens(show(plan.previous_summary or ""))  # its facts should stay
    replaced = snapshot.estimated - snapshot.tokens_above(start) - kept
    filled = earlier_tokens + int((replaced - earlier_tokens) * FILLED_RATIO)
    return most_of_words, min(most, max(filled, message_tokens))


def _find_words(snapshot: Snapshot[M], plan: SummaryPlan) -> Mapping[int | None, UserWords]:
    """Return the user's words before the cut, oldest first, by piece; those in messages that stay are in view.

    Each piece is read once.
    """
    history, pinned = snapshot.history, {*plan.pinned}
    start = history.run_start(plan.cut)
    first, known = history.log.user_words
    read = {i: plan.facts.read_words(history.piece(i).message) for i in history.pieces_of_user(start, first)}
    known = {**known, **{index: words for index, words in read.items() if any(words)}}
    history.log.user_words = max(first, start), known

    found: dict[int | None, UserWords] = {}
    if history.runs_before_list or snapshot.readable_native is not None or find_head_summary(history) is not None:
        # The list lacks older messages: their words are in the earlier summary, among those of its writer.
        found[None] = plan.facts.earlier_words
    return found | {index: words for index, words in known.items() if index < start and index not in pinned}


def _find_failures(snapshot: Snapshot[M], plan: SummaryPlan) -> object:
    """Return the failures of all calls before the cut. They are kept, and the next compaction goes on from there."""
    history = snapshot.history
    run, known = history.log.failures
    if known is None or run > plan.cut or not history.is_boundary(run):  # a rewind, or a late result
        run, known = history.runs_before_list, None

    older = None
    if run != snapshot.covered_runs:
        first = history.run_start(run) if run > history.runs_before_list else 0
        pieces = history.pieces(first, history.run_start(plan.cut))  # no call is open at a cut
        older = (piece.message for piece in pieces)

    known = plan.facts.add_failures(known, older)
    history.log.failures = plan.cut, known
    return known
