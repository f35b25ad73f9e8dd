"""A pytest plugin with one fixture, `compaction`, which checks that recorded sessions keep what their agent needs.

Switch it on in `conftest.py`: `pytest_plugins = ["compaction_hooks.testing.plugin"]`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from compaction_hooks import CompactionSettings, Summarizer
from compaction_hooks.replay import (
    Finding,
    Limits,
    RecordedSession,
    Replay,
    judge,
    read_sessions,
    replay,
    window_of,
)


class CompactionChecker:
    """The fixture `compaction`."""

    def check(
        self,
        session: RecordedSession | str | os.PathLike[str],
        *,
        window: int | None = None,
        settings: CompactionSettings | None = None,
        summarizer: Summarizer | None = None,
        min_kept: float | None = None,
        max_cents: float | None = None,
        max_lost_constraints: int | None = None,
        allow_unmeasured: bool = False,
    ) -> Replay:
        """Replay a recorded session, fail the test if it breaks a limit, and return the replay for further assertions.

        A call that cannot be made to fit the window fails the test in any case, and so do a summarizer that fails and a file that
        could not be read whole.

        Args:
            session: A session of `read_sessions`, or the path of a file with one session.
            window: The context window, in tokens; None: that of the recorded model, 200,000 if it is unknown.
            settings: The policy; None: the defaults.
            summarizer: A function, sync or async; None: the one that needs no model.
            min_kept, max_cents, max_lost_constraints: As in `Limits`; at least one is needed.
            allow_unmeasured: Whether a limit passes that cannot be measured, such as the cost for a model without a known price.

        Raises:
            ConfigurationError: there is no limit, or `window` is not above zero.
            ReplayError: the file cannot be read.
            ValueError: the file has several sessions.
            ContextOverflowError: the system prompt and tools alone are larger than the window.
        """
        __tracebackhide__ = True
        limits = Limits(min_kept=min_kept, max_cents=max_cents, max_lost_constraints=max_lost_constraints)
        recorded = session if isinstance(session, RecordedSession) else _read_one(session)
        if recorded.unread:
            pytest.fail(f"session {recorded.id} was not read whole: {'; '.join(recorded.unread)}", pytrace=False)
        size = window_of(recorded).tokens if window is None else window
        done = replay(recorded, window=size, settings=settings, summarizer=summarizer)
        findings = judge(done, limits, has_summarizer=summarizer is not None)
        failed = [finding for finding in findings if finding.fails(allow_unmeasured=allow_unmeasured)]
        if failed:
            pytest.fail(_describe(recorded, size, failed), pytrace=False)
        return done


@pytest.fixture(scope="session")
def compaction() -> CompactionChecker:
    """Return a checker of recorded sessions: `compaction.check("session.jsonl", min_kept=0.6)`."""
    return CompactionChecker()


def _read_one(path: str | os.PathLike[str]) -> RecordedSession:
    first, *others = read_sessions(path)
    if others:
        count = len(others) + 1
        raise ValueError(f"{os.fspath(path)} has {count} sessions: check each session of read_sessions(...) by itself")
    return first


def _describe(session: RecordedSession, window: int, failed: Sequence[Finding]) -> str:
    lines = (f"  {finding.limit} {finding.verdict.value}: {finding.why}" for finding in failed)
    return "\n".join((f"compaction of session {session.id} in a window of {window:,} tokens:", *lines))
