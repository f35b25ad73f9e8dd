"""The public sessions, recorded again by `python -m tests.benchmarks.recording`."""

import sys
from pathlib import Path

# The agents have the tools of examples/record_session.py, which is a program and no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))
