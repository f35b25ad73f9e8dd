"""The recorded conversations: those next to the checkout, and a public set of our own in the repository.

Tests that need the first are skipped without them. Benchmarks read them if they are there, and the public set otherwise.
"""

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PUBLIC = Path(__file__).resolve().parent / "benchmarks" / "sessions"
"""Recorded by `python -m tests.benchmarks.recording`."""
FOLDER = DATA / "sessions" if DATA.is_dir() else PUBLIC
"""The conversations of benchmarks and long tests."""

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the recorded conversations in ../shared/data")


def sessions(pattern: str = "*", folder: Path = FOLDER) -> Iterator[dict[str, Any]]:
    """Yield the recorded conversations of the files whose names match, in a stable order."""
    for path in sorted(folder.glob(f"{pattern}.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a benchmark that choose the folder of its conversations, `data`."""
    parser.add_argument(
        "--data",
        type=Path,
        default=FOLDER,
        help="folder of recorded conversations, as *.jsonl.gz; without it ../shared/data/sessions, or the public ones",
    )
    parser.add_argument(
        "--public",
        dest="data",
        action="store_const",
        const=PUBLIC,
        help="the public conversations of tests/benchmarks/sessions",
    )
