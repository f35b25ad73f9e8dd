"""A run of twenty tool steps against a server whose window ends the answers it has no room for."""

from __future__ import annotations

from compaction_hooks.testing import Answer, Call
from tests.conversations import prose
from tests.provider import Side

STEPS = 20
WINDOW = 5_000
"""Of the server, in tokens: room for about eight of the steps."""
BELIEVED = 128_000
"""What the model's user believes the window is, where it is told at all."""
MOST = 2_000
"""What a request asks for at most, in tokens: more than any answer has, less than the window."""


def talkative(steps: int = STEPS) -> list[Answer]:
    """Return answers that are longer than the results between them, so that it is an answer that does not fit."""
    asked = [Answer(prose(400), (Call("read_file", {"path": f"src/{step}.py"}),)) for step in range(steps)]
    return [*asked, Answer("All read.")]


def cut_off(side: Side) -> int:
    """Return how many answers the window ended."""
    return len(side.model_requests) - len(side.rejections) - (STEPS + 1)
