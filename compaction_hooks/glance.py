"""The call in which nothing is due, answered at once: no flow, no event loop, and of the list only what is new is looked at."""

from __future__ import annotations

from compaction_hooks.conversation import Conversation, Frame, HandedOut, Measured
from compaction_hooks.measuring import Shared, Standing, pressure_of
from compaction_hooks.messages import M


def glance(
    conversation: Conversation[M], shared: Shared, messages: list[M], options: tuple[object, ...]
) -> list[M] | None:
    """Return the list to send where the last look still tells that nothing is due; None where somebody must look again.

    Args:
        options: Of this call, whatever a size depends on, as `Call.options` has it.

    Raises:
        FormatError: a new message cannot be read.
    """
    with conversation.lock:
        frame = conversation.frame
        if frame is None or frame.revision != shared.revision.number or conversation.has_overflowed:
            return None
        if frame.options != options or conversation.history is not frame.history:
            return None
        if shared.has_store and (conversation.unwritten or not conversation.is_loaded):
            return None
        history, last = conversation.read(messages), conversation.handed_out
        is_same = history is frame.history and last is frame.handed_out and conversation.anchor is frame.anchor
        if is_same and last is not None and last.view is messages:
            return messages
        measured = frame.measured if history is frame.history else _grown(frame, conversation)
        if measured is None:
            return None
        tokens = pressure_of(conversation, shared, measured)
        if frame.limit is not None and tokens > frame.limit:
            return None
        view = messages if frame.projection.is_identity else frame.projection.view_of(messages)
        frame.history, frame.measured, frame.anchor = history, measured, conversation.anchor
        frame.handed_out = conversation.handed_out = HandedOut(view, measured, tokens, frame.budget)
        return view


def _grown(frame: Frame[M], conversation: Conversation[M]) -> Measured | None:
    """The view with what is new at its end; None where that changes more than its size."""
    old, history = frame.measured, conversation.history
    if history is None or history.log is not frame.history.log or frame.projection.favoured is not None:
        return None
    if history.log.replaced != frame.replaced:
        return None
    # Usage an answer carries is taken in by a look. A late result may bind the place where the record ends.
    if len(history.log.counted) != frame.counted or (frame.run and not history.is_boundary(frame.run)):
        return None
    estimated = old.estimated + history.tokens(frame.history.piece_count)
    return Measured(history.log, history.piece_count, old.record_id, estimated, old.model)


def frame_of(standing: Standing[M], shared: Shared) -> Frame[M] | None:
    """Return what the next calls have in common with this one, in which nothing was due; None where each must be looked at."""
    call, settings, budget = standing.call, shared.settings, standing.budget
    if settings.repair if call.repair is None else call.repair:
        return None
    is_watched = budget is not None and settings.auto_compact and not settings.is_subagent
    return Frame(
        options=call.options,
        revision=shared.revision.number,
        budget=budget,
        limit=budget.trigger if budget is not None and is_watched else None,
        projection=standing.projection,
        run=standing.record.covered_runs
        if standing.record and standing.record.covered_runs > standing.history.base
        else 0,
        counted=len(standing.history.log.counted),
        replaced=standing.history.log.replaced,
        history=standing.history,
        measured=standing.measured,
        handed_out=None,
        anchor=None,
    )
