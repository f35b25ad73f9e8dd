"""`CompactionSettings.is_subagent`: the parent agent compacts at the threshold."""

from compaction_hooks import CompactionSettings
from tests.conversations import controller, steps, user
from tests.too_long import Provider, TooLongError


def test_a_subagent_leaves_the_threshold_to_its_parent() -> None:
    messages = [user("go"), *steps(30, 400)]
    hooks = controller(8_192, settings=CompactionSettings(is_subagent=True))
    assert hooks.transform_context_sync(messages) is messages


def test_a_subagent_still_recovers() -> None:
    provider = Provider(20_000, TooLongError(9_000, 8_000))
    hooks = controller(None, settings=CompactionSettings(is_subagent=True))
    assert hooks.call_sync([user("go"), *steps(30, 300)], provider) == "answer"
