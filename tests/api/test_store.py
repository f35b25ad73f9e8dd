"""`CompactionController(store=...)`: records that survive the process."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from tests.conversations import Scripted, above_threshold, controller, talk, texts
from tests.stores.later import LaterStore


class Broken:
    """A store that is down."""

    def load(self, session_id: str) -> Sequence[str]:
        raise OSError("no such host")

    def append(self, session_id: str, record_id: str, record: str) -> None:
        raise OSError("disk full")

    def remove(self, session_id: str, record_id: str) -> None:
        raise OSError("disk full")


async def test_an_async_store_serves_async_and_sync_callers() -> None:
    store = LaterStore()
    messages = above_threshold()
    await controller(8_192, summarizer=Scripted("- kept"), store=store).transform_context(messages)
    assert "- kept" in texts(await controller(8_192, store=store).transform_context(messages))
    assert len(await store.load("default")) == 1


def test_an_async_store_serves_sync_programs() -> None:
    store = LaterStore()
    messages = above_threshold()
    controller(8_192, summarizer=Scripted("- kept"), store=store).transform_context_sync(messages)
    assert "- kept" in texts(controller(8_192, store=store).transform_context_sync(messages))


@pytest.mark.parametrize("given", [None, 5, [None], [1, 2], b"x", "text"])
def test_nonsense_from_a_store_costs_a_warning(given: object, caplog: pytest.LogCaptureFixture) -> None:

    class Odd(Broken):
        def load(self, session_id: str) -> Sequence[str]:
            return given  # type: ignore[return-value]  # wrong on purpose

    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        messages = talk(2)
        assert controller(8_192, store=Odd()).transform_context_sync(messages) is messages
    assert caplog.records
