"""`session.state()`: how full the context is; `session.history()`: the records that the present list shows, oldest first."""

from compaction_hooks import Usage
from tests.conversations import controller, one_task, steps, summarizing, system, talk


def test_before_the_first_call_only_the_window_is_known() -> None:
    state = controller(8_000).state()
    assert (state.context_tokens, state.fraction, state.context_window) == (None, None, 8_000)


def test_the_fraction_is_the_part_of_the_window_that_the_context_takes() -> None:
    hooks = controller(8_000)
    hooks.transform_context_sync([system(), *talk(2)])
    hooks.report_usage(Usage(input_tokens=2_000, output_tokens=5))
    state = hooks.state()
    assert (state.context_tokens, state.is_estimate, state.fraction) == (2_000, False, 0.25)


def test_history_tells_each_compaction_with_its_sizes() -> None:
    hooks = summarizing()
    assert hooks.history() == []
    messages = one_task()
    hooks.transform_context_sync(messages)
    messages = [*messages, *steps(14, 300, first=22)]
    hooks.compact_sync(messages)
    told = hooks.history()
    assert [record.reason for record in told] == ["threshold", "manual"]
    assert [record.compaction_count for record in told] == [1, 2]
    assert all(record.tokens_after < record.tokens_before for record in told)
    assert told[0].id == told[1].parent
    hooks.undo()
    assert [record.id for record in hooks.history()] == [told[0].id]
