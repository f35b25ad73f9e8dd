from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.samples import Read, read_one, write


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that writes objects as the lines of a session file and reads its only session."""
    return lambda *lines: read_one(write(tmp_path / "s.jsonl", *lines))
