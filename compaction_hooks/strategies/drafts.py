"""Records that are not yet in force, what they would give, and whether they may be handed out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic

from compaction_hooks.history import History
from compaction_hooks.history.digests import DIGEST_RULE, text_digest
from compaction_hooks.messages import M, Message, MessageFormat, ToolCall
from compaction_hooks.strategies.planning import Summarized, SummaryPlan, pinned_pieces
from compaction_hooks.summary.prompts import PROMPT_VERSION
from compaction_hooks.tokens.budget import MINIMUM_GAIN_RATIO
from compaction_hooks.tokens.media import media_in
from compaction_hooks.validity import is_alike, problems, provider_named, worsened
from compaction_hooks.values import dataclass
from compaction_hooks.view.projection import Projection, apply_record
from compaction_hooks.view.reasoning import stale_runs_of
from compaction_hooks.view.record import Base, CompactionRecord, record_id
from compaction_hooks.view.reductions import (
    LEAST_KEPT_CHARS,
    MINIMUM_KEPT_CHARS,
    Reducible,
    Reduction,
    reducible_parts,
    reducible_texts,
    shortening,
)
from compaction_hooks.view.removable import Removable, removable_media
from compaction_hooks.view.snapshot import Situation
from compaction_hooks.view.summary_message import render_summary

SHORTENING_SLACK = 0.03
"""Of the room there is, left over when parts are shortened: a long text is sized by samples, what is left of it may be denser."""

BYTES_SLACK = 0.1
"""Of a limit in bytes, left for what the neutral messages do not show: JSON's own characters, tools, reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Generic[M]):
    """A record that is not yet in force, and what it would give.

    Attributes:
        tokens: Size of its view in tokens of the model, by estimate.
    """

    record: CompactionRecord
    projection: Projection[M]
    tokens: int


# -- from a plan to a record


def clearing_record(now: Situation[M], results: Sequence[Reducible], at: str) -> CompactionRecord:
    """Return the record in force with these results cleared: what it covers stays the same."""
    return _with_reductions(_continued(now, at), [result.reduction() for result in results])


def summary_record(now: Situation[M], plan: SummaryPlan, summary: Summarized, at: str) -> CompactionRecord:
    """Return the record of a summary: what the plan covers, rendered, with the reductions that still lie in what is kept."""
    history = now.history
    covered_digest = history.digest_before(plan.cut)
    assert covered_digest is not None  # a cut lies between runs of this very history
    unseen = plan.host_count(summary.unseen) + (now.record.unseen_message_count if now.record else 0)
    rendered = render_summary(
        summary.text,
        file_tags=plan.tags,
        continuation=plan.has_continuation,
        covered=plan.host_messages,
        unseen=unseen,
    )
    record = replace(
        _continued(now, at),
        prompt_version=PROMPT_VERSION,
        summary=summary.text,
        previous_summary=plan.previous_summary,
        rendered=rendered,
        compacted_message_count=plan.host_messages,
        unseen_message_count=unseen,
        covered_runs=plan.cut,
        covered_digest=covered_digest,
        digest_rule=DIGEST_RULE,
        pins=plan.pins,
        read_files=plan.files.read,
        modified_files=plan.files.modified,
        digest=plan.digest,
        usage=summary.usage,
    )
    kept = [reduction for reduction in now.reductions if reduction.run >= plan.cut]
    return _with_reductions(replace(record, reductions=()), kept)


def shortening_record(now: Situation[M], draft: Draft[M] | None, at: str) -> CompactionRecord | None:
    """Return the draft's record (or the one in force) with kept parts shortened until the target fits; None when none can be.

    Only as much is taken as is needed, the largest parts first; what was said and the system prompt are never shortened here.
    """
    base = _continued(now, at) if draft is None else draft.record
    return _shortened(now, draft, base, _parts(now, base), now.budget.target, MINIMUM_KEPT_CHARS)


def last_drafts(now: Situation[M], draft: Draft[M] | None, at: str) -> Iterator[Draft[M]]:
    """Yield the draft (or the view in force) shortened until the trigger fits, where nothing gentler fits the window.

    First by media alone; then by tool results and arguments down to `LEAST_KEPT_CHARS`, media, and what was said too: never the
    current request, pinned messages, system messages and the summary.
    """
    base = _continued(now, at) if draft is None else draft.record
    lighter = _without_media(now, draft, base)
    if lighter is not None:
        yield drafted(now, lighter)
    for step in (_with_short_parts, _without_media, _with_short_texts):
        record = step(now, draft, base)
        if record is not None:
            base, draft = record, drafted(now, record)
            yield draft


def _with_short_parts(now: Situation[M], draft: Draft[M] | None, base: CompactionRecord) -> CompactionRecord | None:
    return _shortened(now, draft, base, _parts(now, base), now.budget.trigger, LEAST_KEPT_CHARS)


def _with_short_texts(now: Situation[M], draft: Draft[M] | None, base: CompactionRecord) -> CompactionRecord | None:
    return _shortened(now, draft, base, _unpinned_texts(now, base), now.budget.trigger, LEAST_KEPT_CHARS)


def _without_media(now: Situation[M], draft: Draft[M] | None, base: CompactionRecord) -> CompactionRecord | None:
    """Return a record with as much media left out as is needed, the largest first, of equal ones the oldest."""
    excess = _excess(now, draft, now.budget.trigger)
    chosen: list[Reduction] = []
    for media in sorted(_unpinned_media(now, base), key=lambda media: -media.tokens):
        if excess > 0 and media.tokens > 0:
            chosen.append(media.reduction)
            excess -= media.tokens
    return _with_reductions(base, chosen) if chosen else None


def lighter_draft(now: Situation[M], limit_bytes: int | None, at: str) -> Draft[M] | None:
    """Return the view in force with media left out, the oldest first, for a request that is too large in bytes; None without.

    Args:
        limit_bytes: What the provider takes; None: half of the media.
    """
    base = _continued(now, at)
    found = _unpinned_media(now, base)
    excess = 0
    if limit_bytes is not None:
        excess = view_chars(now.history, now.projection, now.format) - chars_within(limit_bytes)
    if excess <= 0:  # no limit is known, or what exceeds it is not seen here
        excess = sum(media.chars for media in found) // 2
    chosen: list[Reduction] = []
    for media in found:
        if excess > 0 and media.chars:
            chosen.append(media.reduction)
            excess -= media.chars
    return drafted(now, _with_reductions(base, chosen)) if chosen else None


def chars_within(limit_bytes: int) -> int:
    """Return how many characters the messages of a request may have under a limit in bytes."""
    return int(limit_bytes * (1 - BYTES_SLACK))


def view_chars(history: History[M], projection: Projection[M], format: MessageFormat[M]) -> int:
    """Return the characters that the messages of a view take in a request, without its own syntax."""
    parts = [part for message in neutral_view(history, projection, format) for part in message.parts]
    texts = [part.arguments if isinstance(part, ToolCall) else getattr(part, "text", "") for part in parts]
    return sum(map(len, texts)) + sum(media.data_chars for part in parts for media in media_in(part))


def _unpinned_media(now: Situation[M], base: CompactionRecord) -> list[Removable]:
    history = now.history
    pinned = [index for index in range(history.piece_count) if now.is_pinned_by_user(index)]
    estimate = now.estimator.estimate_message_tokens
    return removable_media(history, base.covered_runs, estimate, base.reductions, spared=pinned)


def _parts(now: Situation[M], base: CompactionRecord) -> list[Reducible]:
    parts = reducible_parts(now.history, base.covered_runs, now.estimator.estimate_message_tokens, base.reductions)
    return [part for part in parts if not now.is_pinned_by_user(part.piece)]


def _unpinned_texts(now: Situation[M], base: CompactionRecord) -> list[Reducible]:
    history = now.history
    pinned = [index for index in range(history.piece_count) if now.is_pinned_by_user(index)]
    estimate = now.estimator.estimate_message_tokens
    return reducible_texts(history, base.covered_runs, estimate, base.reductions, spared=pinned)


def _shortened(
    now: Situation[M],
    draft: Draft[M] | None,
    base: CompactionRecord,
    parts: Sequence[Reducible],
    goal: int,
    least_chars: int,
) -> CompactionRecord | None:
    excess = _excess(now, draft, goal)
    chosen = shortening(parts, excess_tokens=excess, rules=now.settings.tool_rules, least_chars=least_chars)
    return _with_reductions(base, chosen) if chosen else None


def _excess(now: Situation[M], draft: Draft[M] | None, goal: int) -> int:
    """Return what a draft, or the view in force, must lose to fit, by estimate before calibration."""
    estimated = now.estimated if draft is None else draft.projection.tokens(now.history)
    room = now.gauge.room(goal)
    return estimated - room + max(0, int(room * SHORTENING_SLACK))


# -- from a record to a view, and its check


def _continued(now: Situation[M], at: str) -> CompactionRecord:
    """The record that follows the one in force and changes nothing yet."""
    digest_before = now.history.digest_before(now.history.base) or ""
    first = CompactionRecord(
        id="",
        prompt_version=PROMPT_VERSION,
        reason=now.reason,
        summary="",
        rendered="",
        compacted_message_count=0,
        covered_runs=now.history.base,
        covered_digest=digest_before,
        seen_runs=0,
        tokens_before=0,
        tokens_after=0,
        compaction_count=0,
        last_compacted_at=at,
    )
    old = now.record or first
    return replace(
        old,
        parent=old.id or None,
        reason=now.reason,
        base=_base(now),
        seen_runs=now.history.run_count,
        tokens_before=now.pressure,
        compaction_count=old.compaction_count + 1,
        last_compacted_at=at,
        usage=None,
        calibration=now.learned,
    )


def _base(now: Situation[M]) -> Base | None:
    """The earlier summary at the head of the list, for a record that must be readable without its parent."""
    head, origin = now.history.summary_piece, now.history.origin
    if head is None or origin is None:
        return None
    text = now.history.piece(head).message.text
    return Base(
        text_digest=text_digest(text),
        runs=origin.runs,
        digest=origin.digest,
        pins=origin.pins,
        reductions=tuple(item for item in now.reductions if item.kind != "media"),
    )


def _with_reductions(record: CompactionRecord, reductions: Iterable[Reduction]) -> CompactionRecord:
    merged = {(item.kind, item.run, item.ordinal): item for item in (*record.reductions, *reductions)}
    kept = tuple(merged.values())
    name = record_id(record.covered_digest, record.rendered, kept, record.parent)
    return replace(record, id=name, reductions=kept)


def drafted(now: Situation[M], record: CompactionRecord, made_from: Iterable[Reducible] = ()) -> Draft[M]:
    """Return a record with its view measured; `made_from` are the parts that its new reductions were made from.

    The draft is judged by the estimate, which errs on the high side. What the record reports is put in proportion to what the
    provider counted for the view before, so that the two numbers can be compared.
    """
    estimate = now.estimator.estimate_message_tokens
    stale_runs = stale_runs_of(record) if now.binds_reasoning else 0
    projection = apply_record(now.history, record, now.format, estimate, now.projection, made_from, stale_runs)
    tokens = now.gauge.tokens(projection.tokens(now.history))
    after = round(tokens * now.pressure / now.tokens)
    return Draft(record=replace(record, tokens_after=after), projection=projection, tokens=tokens)


def objection(now: Situation[M], draft: Draft[M], limit: int) -> str | None:
    """Return why a draft must not be handed out, or None: it fits `limit`, is smaller by 10 %, and breaks nothing.

    The 10 % are waived where the present view does not fit the window and the draft does.
    """
    if draft.tokens > limit:
        return "too large"
    is_rescue = now.pressure > now.budget.window
    if draft.tokens > now.tokens * (1 - MINIMUM_GAIN_RATIO) and not is_rescue:
        return "no gain"
    return breach(now, draft)


def breach(now: Situation[M], draft: Draft[M]) -> str | None:
    """Return the rule of the provider that a draft breaks and the view in force does not, or None."""
    if _only_shortens(now, draft.projection) and not now.binds_reasoning:
        return None
    provider, after = provider_named(now.format.name), neutral_view(now.history, draft.projection, now.format)
    # The model has not answered behind this beginning yet: all reasoning there is was made behind another.
    stale_until = len(after) if now.binds_reasoning else 0
    if not problems(after, provider, stale_until=stale_until):
        return None
    before = neutral_view(now.history, now.projection, now.format)
    broken = worsened(before, after, provider, stale_until=stale_until)
    return f"invalid: {broken[0].rule}" if broken else None


def _only_shortens(now: Situation[M], projection: Projection[M]) -> bool:
    """Whether a view is the one in force with other words in some of its parts: what a provider takes there, it takes here.

    Only messages that are shown anew are looked at.
    """
    history, in_force = now.history, now.projection
    if (projection.cut, projection.pinned) != (in_force.cut, in_force.pinned):
        return False
    if not in_force.rewritten.keys() <= projection.rewritten.keys():
        return False
    fresh = [(host, shown) for host, shown in projection.rewritten.items() if in_force.rewritten.get(host) is not shown]
    return all(
        is_alike([history.piece(index).message for index in history.host_pieces(host)], shown.pieces)
        for host, shown in fresh
    )


def neutral_view(history: History[M], projection: Projection[M], format: MessageFormat[M]) -> list[Message]:
    """Return the neutral messages of a view; of the host's own objects as they were read, only new ones are read."""
    known = {id(history.host(index)): index for index in projection.borrowed}
    found: list[Message] = []
    for message in projection.prefix:
        index = known.get(id(message))
        if index is None:
            found += format.read(message)
        else:
            found += [history.piece(number).message for number in history.host_pieces(index)]
    return found + [piece.message for piece in history.pieces(history.first_piece(projection.rest))]


def largest_fixed_part(now: Situation[M]) -> tuple[str, int]:
    """Return the name and size (tokens of the model) of the largest part that cannot shrink."""
    history = now.history
    last = history.run_start(max((*history.boundaries(now.covered_runs), now.covered_runs)))
    request = history.request
    sizes = {
        "system prompt": sum(history.piece(i).tokens for i in history.systems()) + now.gauge.fixed - now.gauge.tools,
        "tools": now.gauge.tools,
        "current request": history.piece(request).tokens if request is not None else 0,
        "pins": sum(history.piece(i).tokens for i in pinned_pieces(now, last) if i != request),
        "last step": sum(p.tokens for i, p in enumerate(history.pieces(last), last) if i != request),
    }
    counted = {name: math.ceil(size * now.gauge.ratio) for name, size in sizes.items()}
    counted["hidden prefix"] = now.gauge.overhead
    part = max(counted, key=lambda name: counted[name])
    return part, counted[part]
