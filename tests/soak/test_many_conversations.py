"""64 conversations at once through one controller, ten minutes' worth of calls: none sees words of another, memory is flat."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crowd import CONVERSATIONS, crowd_with_file, crowd_with_memory

ROUNDS = 4
CALLS = 150
"""Of each conversation in a round: a call a second, for ten minutes in all."""


@pytest.mark.parametrize("kind", ["fewer sessions in memory than conversations, a file", "more, a store in memory"])
def test_ten_minutes_of_calls_leave_nothing_behind(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note_line: Callable[[str], None]
) -> None:
    """Threads, event loops, eviction; what Python objects hold after each round is printed."""
    is_file = kind.endswith("a file")
    monkeypatch.setattr("compaction_hooks.session.controller.MAX_SESSIONS", 32 if is_file else 1_000)
    crowd = crowd_with_file(tmp_path / "records.db") if is_file else crowd_with_memory()
    started = time.perf_counter()
    seen = crowd.run(rounds=ROUNDS, calls=CALLS, length=50)
    held, most = ("/".join(str(size >> 10) for size in sizes) for sizes in (seen.memory, seen.peaks))
    note_line(
        f"{CONVERSATIONS} at once ({kind}): {seen.calls:,} calls, {seen.conversations} conversations, "
        f"{crowd.summarizer.requests:,} summaries, {len(seen.wrong)} wrong; KB held after 25/50/75/100 %: {held}; "
        f"at most in each quarter: {most}; {time.perf_counter() - started:.0f} s"
    )
    assert not seen.wrong
    assert seen.calls == CONVERSATIONS * ROUNDS * CALLS
    assert crowd.summarizer.requests > CONVERSATIONS
    assert seen.memory_growth < 128 * 1024
    assert seen.peak_growth < 0.25
