"""kill -9 at any point of a save, 200 times: `nox -s soak`. The fast suite kills processes that make the file."""

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stores.kills import check_kills

FILES = 4
KILLS = 50
"""In each file."""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("seed", range(FILES))
def test_the_store_opens_and_holds_the_last_complete_record(
    seed: int, tmp_path: Path, note_line: Callable[[str], None]
) -> None:
    path = tmp_path / "records.db"
    seen = check_kills("sqlite", str(path), KILLS, seed=seed)
    note_line(f"SQLite, file {seed + 1} of {FILES}: {seen}")
    assert seen.rounds == KILLS
    assert seen.within > KILLS / 2
    assert 0 < seen.kept < seen.within, "kills before and after a record is settled"
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
