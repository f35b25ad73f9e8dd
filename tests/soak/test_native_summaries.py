"""Recorded conversations and 10,000 generated ones with the providers' own summaries; the suite runs the first two hundred."""

from collections.abc import Callable

import pytest

from tests.data import needs_data, sessions
from tests.native_runs import KINDS, CompactedAgent, NativeRun
from tests.sealed_runs import BINDING, replay

HISTORIES = 2_500
PART = 625


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, HISTORIES, PART))
def test_generated_conversations_with_native_summaries(
    first: int, kind: type[NativeRun], note_line: Callable[[str], None]
) -> None:
    runs = {seed: kind(seed) for seed in range(first, first + PART)}
    for run in runs.values():
        run.steps(24)
    requests, natives, refusals, rotations = (
        sum(column)
        for column in zip(
            *((run.requests, run.natives, len(run.refusals), run.rotations) for run in runs.values()), strict=True
        )
    )
    note_line(
        f"{kind.__name__}, from {first:,}: {requests:,} requests, {natives:,} with a summary of the provider, "
        f"{refusals} refused after {rotations} rotations of a key"
    )
    assert {seed: faults for seed, run in runs.items() if (faults := run.faults)} == {}


@needs_data
@pytest.mark.parametrize("window", [8_192, 16_384, 32_768])
def test_recorded_conversations_with_readable_summaries(window: int, note_line: Callable[[str], None]) -> None:
    """Our own summaries cover the blocks, and keep their names."""
    agents = {record["id"]: replay(record, window, BINDING, CompactedAgent()) for record in sessions()}
    missing = [count for agent in agents.values() for count in agent.missing]
    share = 1 - sum(missing) / (6 * len(missing))
    note_line(f"recorded, {window:,}: {len(missing):,} requests behind a readable summary, {share:.2%} of its names")
    assert share == 1
    assert [name for name, agent in agents.items() if agent.signer.refusals] == []
