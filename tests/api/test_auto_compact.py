"""`CompactionSettings.auto_compact`: whether a view is compacted at the threshold."""

from compaction_hooks import CompactionSettings
from tests.conversations import controller, steps, user


def test_auto_compact_off_leaves_the_list_alone() -> None:
    messages = [user("go"), *steps(30, 400)]
    hooks = controller(8_192, settings=CompactionSettings(auto_compact=False))
    assert hooks.transform_context_sync(messages) is messages
