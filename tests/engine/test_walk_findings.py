"""What random walks of `compaction_hooks.testing.rehearsal` found, each in its shortest form."""

from __future__ import annotations

import pytest

from compaction_hooks import CompactionOutcome, ContextOverflowError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import check_view
from tests.conversations import Chat, Scripted, assistant, call, controller, steps, tool, user


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


def test_a_request_that_was_current_after_a_rewind_goes_when_another_one_comes() -> None:
    """The view is a function of list and record: a session that has seen the rewind shows what a new process shows."""
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    whole = [user("Read them all."), *steps(8), user("And the tests."), *steps(2, first=8)]
    hooks.compact_sync(whole, keep_recent_tokens=1_500)
    rewound = whole[:17]
    view = hooks.transform_context_sync(rewound)
    assert view[1] is rewound[0]
    again = [*rewound, user("No, the docs.")]
    seen = hooks.transform_context_sync(again)
    elsewhere = controller(200_000).session("elsewhere")
    elsewhere.import_records(hooks.session("default").export_records())
    assert seen == elsewhere.transform_context_sync(again)
    assert not any(message is rewound[0] for message in seen)


def test_a_late_result_puts_a_record_out_of_force_although_its_id_was_used_again_meanwhile() -> None:
    """Some APIs' ids are all alike: a result answers the newest call that is open, not the newest one."""
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    messages = [
        user("Read them all."),
        assistant(None, call("", path="slow.py")),
        *steps(3),
        assistant(None, call("", path="fast.py")),
        tool("", "the contents of fast.py"),
        *steps(8, first=3),
    ]
    result = hooks.compact_sync(messages, keep_recent_tokens=3_300)
    assert result.record is not None
    late = [*messages, tool("", "the contents of slow.py")]
    view = hooks.transform_context_sync(late)
    check_view(late, view, format=OpenAIChatFormat(), summaries=[result.record.rendered])
