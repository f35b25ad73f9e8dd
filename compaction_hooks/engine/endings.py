"""How a compaction ended, as the host is told: the event of one that was made, and the error that nothing fits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from compaction_hooks.errors import ContextOverflowError
from compaction_hooks.events import CompactionFinished
from compaction_hooks.messages import Usage
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.strategies import ShortenParts
from compaction_hooks.strategies.candidate import largest_fixed_part
from compaction_hooks.view import CompactionReason
from compaction_hooks.view.head import covered_pieces
from compaction_hooks.view.record import CompactionRecord
from compaction_hooks.view.snapshot import Snapshot


def finished_event(
    session_id: str,
    reason: CompactionReason,
    before: Snapshot[Any],
    after: Snapshot[Any],
    record: CompactionRecord,
    *,
    seconds: float,
    usage: Usage | None,
    fallback_reason: str,
    overruled_veto: str,
) -> CompactionFinished:
    """Return the event of a compaction whose record is active.

    Args:
        usage: The tokens that it cost, with what came to nothing.
        fallback_reason: Why the summary is made by rule, or in part; "" if it is not.
        overruled_veto: The host's veto, which did not count; "" without one.
    """
    return CompactionFinished(
        session_id=session_id,
        reason=reason,
        tokens_before=before.tokens,
        tokens_after=record.tokens_after,
        messages_before=before.message_count,
        messages_after=after.message_count,
        compacted_messages=record.compacted_message_count,
        unseen_messages=record.unseen_message_count,
        summary_messages=1 if record.rendered else 0,
        duration_seconds=seconds,
        usage=usage,
        used_fallback=bool(fallback_reason),
        fallback_reason=fallback_reason,
        overruled_veto=overruled_veto,
        native_summaries=_count_natives(before, after),
        left_out=sum(item.kind == "media" for item in after.view.reductions),
        record=record,
    )


def _count_natives(before: Snapshot[Any], after: Snapshot[Any]) -> int:
    """Return how many summaries of the provider's own are newly covered."""
    runs = [each.record.covered_runs if each.record else 0 for each in (before, after)]
    first, end = (covered_pieces(after.history, covered) for covered in runs)
    return sum(first <= piece < end for piece in after.history.natives())


def may_shorten(settings: CompactionSettings) -> bool:
    """Whether one of the strategies shortens parts of messages."""
    return any(isinstance(strategy, ShortenParts) for strategy in settings.effective_strategies)


def unfit_error(
    snapshot: Snapshot[Any], settings: CompactionSettings, window: int, tried: Iterable[int] = ()
) -> ContextOverflowError:
    """Return the error that names the part of the view that cannot shrink.

    Args:
        tried: The sizes of the candidates, in tokens of the model.
    """
    part, size = largest_fixed_part(snapshot)
    smallest = min([snapshot.tokens, *tried])
    noun = "the prefix outside the list (system prompt, tools)" if part == "hidden prefix" else f"the {part}"
    why = f", of which {noun} takes about {min(size, smallest):,}"
    fix = f"shorten {noun}"
    if size <= window and not may_shorten(settings):
        part = "strategies"
        why = " after all strategies"
        fix = "add ShortenParts() to the strategies"

    return ContextOverflowError(
        f"the conversation cannot be made to fit {window:,} tokens: the smallest valid request has about "
        f"{smallest:,}{why}; {fix} or use a model with a larger window",
        tokens=smallest,
        window=window,
        part=part,
    )
