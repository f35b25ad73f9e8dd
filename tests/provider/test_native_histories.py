"""Generated histories with the providers' own summaries: all go on, sealed ones reach no other issuer, and no name is lost."""

from __future__ import annotations

import pytest

from tests.native_runs import KINDS, NativeRun


@pytest.mark.parametrize("kind", KINDS)
def test_every_history_goes_on_whatever_its_user_changes(kind: type[NativeRun]) -> None:
    runs = {seed: kind(seed) for seed in range(50)}
    for run in runs.values():
        run.steps(16)
    assert {seed: faults for seed, run in runs.items() if (faults := run.faults)} == {}
    assert sum(run.natives for run in runs.values()) > 100
