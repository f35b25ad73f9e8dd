"""`compact_on_overflow`, `overflow_patterns`: whether an overflow is recovered from, and how further providers say it."""

import pytest

from compaction_hooks import CompactionSettings
from tests.conversations import controller, steps, user
from tests.too_long import Provider, TooLongError


def test_recovery_can_be_switched_off() -> None:
    provider = Provider(10)
    hooks = controller(None, settings=CompactionSettings(compact_on_overflow=False))
    with pytest.raises(TooLongError):
        hooks.call_sync([user("go"), *steps(30, 300)], provider)


def test_a_new_wording_can_be_added() -> None:
    provider = Provider(20_000, RuntimeError("the kettle is full"))
    messages = [user("go"), *steps(30, 300)]
    with pytest.raises(RuntimeError):
        controller(None).call_sync(messages, provider)
    hooks = controller(None, settings=CompactionSettings(overflow_patterns=("Kettle is full",)))
    assert hooks.call_sync(messages, provider) == "answer"
