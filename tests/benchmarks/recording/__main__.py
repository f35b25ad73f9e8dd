"""Recorder of the public sessions, which benchmarks and docs use: scripted agents with real tools.

    python -m tests.benchmarks.recording [NAME ...] [--folder FOLDER]

Needs a clone with its history, since some agents work on this project's own files at one commit; no key, no model, no network.
Another run gives the same sessions. tests/benchmarks/sessions/README.md tells what is in them.
"""

import argparse
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.recording import analysis, german, refactoring, research, review, rules, support
from tests.benchmarks.recording.kit import ROOT
from tests.data import PUBLIC


def _example() -> dict[str, Any]:
    """Return the session of examples/, which its own script records."""
    session: dict[str, Any] = json.loads((ROOT / "examples" / "session.jsonl").read_text(encoding="utf-8"))
    return session


SESSIONS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "analysis": analysis.record,
    "bugs": _example,
    "german": german.record,
    "refactoring": refactoring.record,
    "research": research.record,
    "review": review.record,
    "rules": rules.record,
    "support": support.record,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=[*SESSIONS], help="sessions to record; all without it")
    parser.add_argument("--folder", type=Path, default=PUBLIC)
    chosen = parser.parse_args()
    for name in chosen.names:
        session = SESSIONS[name]()
        text = json.dumps(session, ensure_ascii=False) + "\n"
        path = chosen.folder / f"{name}.jsonl.gz"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(
            f"{path.name}: {len(session['messages']):,} messages, {len(text):,} characters, {path.stat().st_size:,} bytes"
        )


if __name__ == "__main__":
    main()
