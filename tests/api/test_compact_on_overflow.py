"""`CompactionSettings.compact_on_overflow`: whether an overflow is recovered from."""

import pytest

from compaction_hooks import CompactionSettings
from tests.conversations import controller, steps, user
from tests.too_long import Provider, TooLongError


def test_recovery_can_be_switched_off() -> None:
    provider = Provider(10)
    hooks = controller(None, settings=CompactionSettings(compact_on_overflow=False))
    with pytest.raises(TooLongError):
        hooks.call_sync([user("go"), *steps(30, 300)], provider)
