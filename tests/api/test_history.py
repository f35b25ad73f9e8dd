"""`session.history()`: the records of the compactions that the present list shows, oldest first."""

from tests.conversations import one_task, steps, summarizing


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
