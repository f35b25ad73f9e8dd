"""The failures of calls, folded: reading them in parts gives the same as reading all at once."""

from __future__ import annotations

from random import Random

from compaction_hooks.digest.steps import MOST_FAILURES, Failures, Step, read_steps
from compaction_hooks.files.operations import read_calls
from compaction_hooks.messages import Message, ToolCall, ToolResult


def ran(id: int, name: str, result: str) -> list[Message]:
    called = ToolCall(str(id), "bash", f'{{"command": "{name}"}}')
    return [
        Message(role="assistant", parts=(called,)),
        Message(role="tool", parts=(ToolResult(str(id), result),)),
    ]


def read(steps: list[list[Message]]) -> list[Step]:
    return [*read_steps(read_calls(message for step in steps for message in step))]


def test_failures_read_in_parts_are_those_read_at_once() -> None:
    random = Random(7)
    for _ in range(200):
        steps = [
            ran(n, f"test {random.randrange(5)}", random.choice(["Error: 3 failed", "ok"]))
            for n in range(random.randrange(20))
        ]
        first, second = sorted(random.choices(range(len(steps) + 1), k=2))
        parts = [read(part) for part in (steps[:first], steps[first:second], steps[second:])]
        folded = Failures()
        for part in parts:
            folded = folded.add(part)
        assert folded.mended_items() == Failures().add(read(steps)).mended_items()


def test_the_oldest_of_very_many_failures_are_forgotten() -> None:
    failed = [ran(n, f"test {n}", "Error: 3 failed") for n in range(MOST_FAILURES + 10)]
    found = Failures().add(read(failed))
    assert len(found.failed) == MOST_FAILURES
    passed = [ran(n, f"test {n}", "ok") for n in (9, 10)]
    assert [item.text for item in found.add(read(passed)).mended_items()] == [
        "bash(test 10) -> FAILED: Error: 3 failed; later ok"
    ]
