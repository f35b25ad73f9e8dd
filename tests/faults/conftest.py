"""Fixtures of all faults."""

from collections.abc import Iterator

import pytest

from compaction_hooks.runtime import drivers
from tests.faults.harness import helper_threads


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No thread of ours outlives its test: hung functions were released there, and end."""
    yield
    for thread in helper_threads():
        thread.join(5)
    assert not helper_threads()


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> float:
    """Stores and handlers are given up after this many seconds."""
    seconds = 0.05
    monkeypatch.setattr(drivers, "STORE_TIMEOUT_SECONDS", seconds)
    monkeypatch.setattr(drivers, "HANDLER_TIMEOUT_SECONDS", seconds)
    return seconds
