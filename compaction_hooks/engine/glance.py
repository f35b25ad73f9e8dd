"""The call in which nothing is due, answered at once: no flow, no event loop, and of the list only what is new is looked at."""

from __future__ import annotations

from dataclasses import replace

from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.measuring import (
    Call,
    Shared,
    calibration_of,
    context_tokens_of,
    take_embedded_usage,
    terms_of,
)
from compaction_hooks.engine.sizes import Frame, LastSent
from compaction_hooks.messages import M
from compaction_hooks.view.snapshot import Snapshot, ViewKey


def glance(
    conversation: Conversation[M], shared: Shared, messages: list[M], options: tuple[object, ...]
) -> LastSent[M] | None:
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
        if frame is None or frame.revision != shared.revision.number or conversation.cooldown.has_overflowed:
            return None
        if frame.options != options or conversation.history is not frame.history:
            return None
        if shared.has_store and (conversation.queue.unwritten or not conversation.queue.is_loaded):
            return None
        history, last = conversation.read(messages), conversation.last_sent
        is_same, is_identity, model = history is frame.history, frame.projection.is_identity, frame.key.model
        if is_same and is_identity and last is frame.last_sent and last is not None and last.view is messages:
            taught = calibration_of(conversation, shared, model)
            if taught is frame.taught and conversation.sizes.baseline is frame.baseline:
                return last  # nothing was said since, and nothing learned
        key = frame.key if is_same else _grown(frame, conversation)
        if key is not None and history.log.counted:
            take_embedded_usage(conversation, shared, history, key, frame.terms)
        if key is None or conversation.cooldown.has_overflowed:
            conversation.glanced_at = messages
            return None
        taught = calibration_of(conversation, shared, model)
        tokens = context_tokens_of(conversation, taught, key)
        if frame.limit is not None and tokens > frame.limit:
            conversation.glanced_at = messages
            return None
        view = messages if is_identity else frame.projection.view_of(messages)
        frame.history, frame.run_count, frame.key = history, history.run_count, key
        frame.taught, frame.baseline = taught, conversation.sizes.baseline
        to_send = conversation.to_send(view)
        frame.last_sent = conversation.last_sent = LastSent(to_send, view, key, tokens, frame.terms.budget)
        return frame.last_sent


def _grown(frame: Frame[M], conversation: Conversation[M]) -> ViewKey | None:
    """The view with what is new at its end; None where that changes more than its size."""
    old, history = frame.key, conversation.history
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
    for record in reversed(conversation.records.all):  # what covers most comes last
        if record.covered_runs < before:
            return False
        if record.covered_runs < now:
            return True
    return False


def frame_of(snapshot: Snapshot[M], call: Call[M], shared: Shared, revision: int) -> Frame[M] | None:
    """Return what the next calls have in common with this one, in which nothing was due; None where each must be looked at.

    Args:
        revision: What conversations had learned of windows before this call looked.
    """
    settings, budget = shared.settings_for(call), snapshot.budget
    is_repaired = settings.repair if call.repair is None else call.repair
    if is_repaired or not shared.goes_by_size:
        return None
    is_watched = budget is not None and settings.auto_compact and not settings.is_subagent
    covered = snapshot.record.covered_runs if snapshot.record else 0
    return Frame(
        options=call.options,
        revision=revision,
        terms=terms_of(snapshot.record, snapshot.history, budget),
        limit=budget.trigger if budget is not None and is_watched else None,
        projection=snapshot.projection,
        run=covered if covered > snapshot.history.base else 0,
        replaced=snapshot.history.log.replaced,
        history=snapshot.history,
        run_count=snapshot.history.run_count,
        key=snapshot.key,
        last_sent=None,
        taught=None,
        baseline=None,
    )
