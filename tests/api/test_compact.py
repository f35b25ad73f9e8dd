"""`session.compact()`: a compaction by hand."""

from __future__ import annotations

import pytest

from compaction_hooks import CompactionOutcome, ContextOverflowError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.tokens import CharacterEstimator, estimate_messages_tokens
from tests.conversations import Chat, Scripted, controller, steps, system, talk, user


@pytest.mark.parametrize("turns", [24, 48])
def test_a_quarter_of_the_context_is_kept_where_nothing_else_is_said(turns: int) -> None:
    messages = [system(), *talk(turns, tokens=100)]
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    hooks.transform_context_sync(messages)
    whole = hooks.state().context_tokens or 0
    view = hooks.compact_sync(messages).messages
    read, size = OpenAIChatFormat().read, CharacterEstimator()
    kept = estimate_messages_tokens([piece for message in view[2:] for piece in read(message)], size)
    assert 0.22 < kept / whole <= 0.25


def test_a_manual_compaction_of_what_no_longer_fits_is_not_taken_for_done() -> None:
    """The compacted view was rejected too, so it is larger than the window, whatever was estimated."""
    hooks = controller(4_096, summarizer=Scripted("- facts"))
    messages = [user("Read them all."), *steps(14)]

    def rejecting(view: list[Chat]) -> None:
        raise RuntimeError("prompt is too long")

    with pytest.raises(ContextOverflowError):
        hooks.call_sync(messages, rejecting)
    rejected = hooks.state().context_tokens or 0
    assert rejected > 4_096
    result = hooks.compact_sync(messages)
    assert result.outcome is CompactionOutcome.COMPACTED
    assert result.tokens_after <= 4_096
