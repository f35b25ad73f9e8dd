"""The call in which nothing is due, answered at once: no flow, no event loop, and of the list only what is new is looked at."""

from __future__ import annotations

from dataclasses import replace

from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.measuring import (
    Shared,
    Standing,
    calibration_of,
    pressure_of,
    take_embedded_usage,
    terms_of,
)
from compaction_hooks.engine.sizes import Frame, HandedOut, Measured
from compaction_hooks.messages import M


def glance(
    conversation: Conversation[M], shared: Shared, messages: list[M], options: tuple[object, ...]
) -> HandedOut[M] | None:
    """Return what to send where the last look still tells that nothing is due; None where somebody must look again.

    What is new is read, and usage that it carries is taken in, as a look does.

    Args:
        options: Of this call, whatever a size depends on, as `Call.options` has it.

    Raises:
        FormatError: a new message cannot be read.
    """
    with conversation.lock:
        frame, conversation.glanced_at = conversation.frame, None
        if not isinstance(messages, list):  # pyright: ignore[reportUnnecessaryIsInstance]
            return None
        if frame is None or frame.revision != shared.revision.number or conversation.has_overflowed:
            return None
        if frame.options != options or conversation.history is not frame.history:
            return None
        if shared.has_store and (conversation.unwritten or not conversation.is_loaded):
            return None
        history, last = conversation.read(messages), conversation.handed_out
        is_same, is_identity, model = history is frame.history, frame.projection.is_identity, frame.measured.model
        if is_same and is_identity and last is frame.handed_out and last is not None and last.view is messages:
            taught = calibration_of(conversation, shared, model)
            if taught is frame.taught and conversation.anchor is frame.anchor:
                return last  # nothing was said since, and nothing learned
        measured = frame.measured if is_same else _grown(frame, conversation)
        if measured is not None and history.log.counted:
            take_embedded_usage(conversation, shared, history, measured, frame.terms)
        if measured is None or conversation.has_overflowed:
            conversation.glanced_at = messages
            return None
        taught = calibration_of(conversation, shared, model)
        tokens = pressure_of(conversation, taught, measured)
        if frame.limit is not None and tokens > frame.limit:
            conversation.glanced_at = messages
            return None
        view = messages if is_identity else frame.projection.view_of(messages)
        frame.history, frame.run_count, frame.measured = history, history.run_count, measured
        frame.taught, frame.anchor = taught, conversation.anchor
        to_send = conversation.to_send(view)
        frame.handed_out = conversation.handed_out = HandedOut(to_send, view, measured, tokens, frame.terms.budget)
        return frame.handed_out


def _grown(frame: Frame[M], conversation: Conversation[M]) -> Measured | None:
    """The view with what is new at its end; None where that changes more than its size."""
    old, history = frame.measured, conversation.history
    if history is None or history.log is not frame.history.log or frame.projection.favoured is not None:
        return None
    if history.log.replaced != frame.replaced or not frame.projection.is_settled:
        return None
    if frame.run and not history.is_boundary(frame.run):  # a late result bound the place where the record ends
        return None
    if _reaches_another(conversation, frame.run_count, history.run_count):
        return None
    estimated = old.estimated + history.tokens(frame.history.piece_count)
    return replace(old, log=history.log, piece_count=history.piece_count, estimated=estimated)


def _reaches_another(conversation: Conversation[M], before: int, now: int) -> bool:
    """Whether the list has grown over the end of a record, which no look could find true before: one from before a rewind."""
    for record in reversed(conversation.records):  # what covers most comes last
        if record.covered_runs < before:
            return False
        if record.covered_runs < now:
            return True
    return False


def frame_of(standing: Standing[M], shared: Shared, revision: int) -> Frame[M] | None:
    """Return what the next calls have in common with this one, in which nothing was due; None where each must be looked at.

    Args:
        revision: What conversations had learned of windows before this call looked.
    """
    call, settings, budget = standing.call, shared.settings, standing.budget
    if settings.repair if call.repair is None else call.repair:
        return None
    is_watched = budget is not None and settings.auto_compact and not settings.is_subagent
    covered = standing.record.covered_runs if standing.record else 0
    return Frame(
        options=call.options,
        revision=revision,
        terms=terms_of(standing.record, standing.history, budget),
        limit=budget.trigger if budget is not None and is_watched else None,
        projection=standing.projection,
        run=covered if covered > standing.history.base else 0,
        replaced=standing.history.log.replaced,
        history=standing.history,
        run_count=standing.history.run_count,
        measured=standing.measured,
        handed_out=None,
        taught=None,
        anchor=None,
    )
