"""Recorded sessions for each adapter: several times the window, run to their end by a real agent loop."""

from functools import cache

import pytest

from compaction_hooks.testing import Script
from tests.cases import sampled
from tests.provider.recorded import read_scripts

MINIMUM_TOKENS = 40_000
MOST_ANSWERS = 150
"""In all: every model call of a loop costs some milliseconds of its framework's own."""

PATTERNS = sampled(["openhands*", "miniswe*", "kimi*"], 1)
"""One session of each source: an editor, a terminal, many turns in Chinese."""


@cache
def recorded_script(pattern: str) -> Script:
    """The first long session of a source; skips where it has none."""
    for _, script in read_scripts(pattern, minimum_tokens=MINIMUM_TOKENS):
        if len(script.answers) <= MOST_ANSWERS and max(len(turn.user) for turn in script.turns) < 20_000:
            return script
    pytest.skip(f"no session of {pattern} has {MINIMUM_TOKENS:,} tokens")
