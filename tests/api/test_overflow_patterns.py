"""`CompactionSettings.overflow_patterns`: how further providers say that a request is too long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from compaction_hooks import CompactionSettings
from tests.conversations import controller, steps, texts, user

Chat = Mapping[str, object]


class TooLongError(Exception):
    """An overflow as Anthropic words it."""

    def __init__(self, actual: int = 210_000, limit: int = 200_000) -> None:
        super().__init__(f"prompt is too long: {actual} tokens > {limit} maximum")
        self.status_code = 400


class Provider:
    """Takes what fits and rejects the rest."""

    def __init__(self, limit_chars: int, error: Exception | None = None) -> None:
        self.limit_chars = limit_chars
        self.error = error or TooLongError()
        self.sent: list[list[Chat]] = []

    def __call__(self, view: list[Chat]) -> str:
        self.sent.append(view)
        if len(texts(view)) > self.limit_chars:
            raise self.error
        return "answer"

    async def later(self, view: list[Chat]) -> str:
        await asyncio.sleep(0)
        return self(view)


def test_a_wording_nobody_knows_can_be_added() -> None:
    """Providers invent new wordings all the time."""
    provider = Provider(20_000, RuntimeError("the kettle is full"))
    messages = [user("go"), *steps(30, 300)]
    with pytest.raises(RuntimeError):
        controller(None).call_sync(messages, provider)
    hooks = controller(None, settings=CompactionSettings(overflow_patterns=("Kettle is full",)))
    assert hooks.call_sync(messages, provider) == "answer"
