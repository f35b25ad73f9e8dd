"""10,000 generated histories with the providers' own summaries; the fast suite runs the first two hundred."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.native_runs import KINDS, NativeRun

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
