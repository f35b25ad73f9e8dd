"""A real run of pytest with the plugin, in a process of its own."""

import os
import sys
from pathlib import Path

import pytest

from tests.damaged_summaries import WINDOW, WISH, needy_conversation
from tests.replay.samples import OLD_FILE, OLD_ORDER, short_conversation, write_sessions

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = 'pytest_plugins = ["compaction_hooks.testing.plugin"]'
TESTS = f"""
import pytest

from compaction_hooks import ConfigurationError
from compaction_hooks.replay import read_sessions
from compaction_hooks.testing.plugin import CompactionChecker
from tests.damaged_summaries import without_names, without_wishes


def test_passes(compaction: CompactionChecker) -> None:
    done = compaction.check("needy.jsonl", window={WINDOW}, min_kept=0.6, max_lost_constraints=0)
    assert len(done.compactions) == 2


def test_names(compaction: CompactionChecker) -> None:
    compaction.check("needy.jsonl", window={WINDOW}, summarizer=without_names, min_kept=0.6, max_lost_constraints=0)


def test_wishes(compaction: CompactionChecker) -> None:
    compaction.check("needy.jsonl", window={WINDOW}, summarizer=without_wishes, min_kept=0.6, max_lost_constraints=0)


def test_cents(compaction: CompactionChecker) -> None:
    compaction.check("needy.jsonl", max_cents=1)


@pytest.mark.parametrize("session", read_sessions("two.jsonl"), ids=lambda session: session.id)
def test_sessions(session, compaction: CompactionChecker) -> None:
    assert compaction.check(session, max_cents=1, allow_unmeasured=True).session_id == session.id


def test_mistakes(compaction: CompactionChecker) -> None:
    with pytest.raises(ConfigurationError, match="no limit is given"):
        compaction.check("needy.jsonl")
    with pytest.raises(ValueError, match="two.jsonl has 2 sessions: check each"):
        compaction.check("two.jsonl", min_kept=0.6)
"""


def test_a_session_that_breaks_a_limit_fails_its_test_and_the_loss_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    write_sessions(pytester.path / "needy.jsonl", needy_conversation())
    write_sessions(pytester.path / "two.jsonl", short_conversation(), short_conversation())
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    run = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    run.assert_outcomes(passed=4, failed=3)
    asked = "at least 0.6 is asked for"
    run.stdout.fnmatch_lines(
        [
            "*_ test_names _*",
            f"compaction of session s1 in a window of {WINDOW:,} tokens:",
            f"  min_kept failed: kept 0 of 2 names *, {asked}; lost at call 22: {OLD_ORDER}, {OLD_FILE}",
            "*_ test_wishes _*",
            "compaction of session s1 *",
            f"  max_lost_constraints failed: * lost at call 15: '{WISH}'",
            "*_ test_cents _*",
            "compaction of session s1 in a window of 200,000 tokens:",
            "  max_cents not measured: no price of the recorded model is known*",
        ],
        consecutive=False,
    )
    run.stdout.no_fnmatch_line("*pytest.fail(*")
