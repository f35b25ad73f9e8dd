"""`CompactionSettings.is_subagent`: the parent agent compacts at the threshold."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

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


def test_a_subagent_leaves_the_threshold_to_its_parent() -> None:
    messages = [user("go"), *steps(30, 400)]
    hooks = controller(8_192, settings=CompactionSettings(is_subagent=True))
    assert hooks.transform_context_sync(messages) is messages


def test_a_subagent_still_recovers() -> None:
    provider = Provider(20_000, TooLongError(9_000, 8_000))
    hooks = controller(None, settings=CompactionSettings(is_subagent=True))
    assert hooks.call_sync([user("go"), *steps(30, 300)], provider) == "answer"
