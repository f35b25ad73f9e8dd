"""The recorded conversations next to the checkout. Tests that need them are skipped without them."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the recorded conversations in ../shared/data")


def sessions(pattern: str = "*") -> Iterator[dict[str, Any]]:
    """Yield the recorded conversations of the files whose names match, in a stable order."""
    for path in sorted((DATA / "sessions").glob(f"{pattern}.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)
