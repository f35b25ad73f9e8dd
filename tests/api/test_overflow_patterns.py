"""`CompactionSettings.overflow_patterns`: how further providers say that a request is too long."""

import pytest

from compaction_hooks import CompactionSettings
from tests.conversations import controller, steps, user
from tests.too_long import Provider


def test_a_new_wording_can_be_added() -> None:
    provider = Provider(20_000, RuntimeError("the kettle is full"))
    messages = [user("go"), *steps(30, 300)]
    with pytest.raises(RuntimeError):
        controller(None).call_sync(messages, provider)
    hooks = controller(None, settings=CompactionSettings(overflow_patterns=("Kettle is full",)))
    assert hooks.call_sync(messages, provider) == "answer"
