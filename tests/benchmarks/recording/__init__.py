"""The public sessions: recorded again by `python -m tests.benchmarks.recording`; tests/benchmarks/sessions/README.md tells of each."""
