"""A sample of the soak: generated histories, call by call, keep every promise."""

import pytest

from tests.cases import sampled
from tests.invariants import run_generated

SAMPLE = 96


@pytest.mark.parametrize("first", sampled(range(0, SAMPLE, 16), 2))
def test_generated_histories_keep_every_promise(first: int) -> None:
    broken = {seed: broken for seed in range(first, first + 16) if (broken := run_generated(seed).report.broken)}
    assert not broken
