"""A real run of pytest with the plugin, in a process of its own."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.damaged_summaries import WINDOW, WISH, needy_conversation
from tests.replay.samples import OLD_FILE, OLD_ORDER, short_conversation, write_sessions

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]

TESTS = f"""
import pytest

from compaction_hooks import CompactionSettings, ConfigurationError
from compaction_hooks.replay import read_sessions
from compaction_hooks.testing.plugin import CompactionChecker
from tests.damaged_summaries import without_names, without_wishes


def test_passes(compaction: CompactionChecker) -> None:
    done = compaction.check("needy.jsonl", window={WINDOW}, min_kept=0.6, max_lost_constraints=0)
    assert len(done.compactions) == 2


def test_options(compaction: CompactionChecker) -> None:
    often = CompactionSettings(trigger_tokens=3_000)
    assert len(compaction.check("needy.jsonl", window={WINDOW}, settings=often, min_kept=0).compactions) > 2
    with pytest.raises(pytest.fail.Exception, match="summarizer failed"):
        compaction.check("needy.jsonl", window={WINDOW}, summarizer=lambda request: "", min_kept=0)


def test_names(compaction: CompactionChecker) -> None:
    compaction.check("needy.jsonl", window={WINDOW}, summarizer=without_names, min_kept=0.6, max_lost_constraints=0)


def test_wishes(compaction: CompactionChecker) -> None:
    settings = CompactionSettings(keep_user_tokens=0)
    limits = dict(min_kept=0.6, max_lost_constraints=0)
    compaction.check("needy.jsonl", window={WINDOW}, summarizer=without_wishes, settings=settings, **limits)


def test_cents(compaction: CompactionChecker) -> None:
    compaction.check("needy.jsonl", max_cents=1)


@pytest.mark.parametrize("session", read_sessions("two.jsonl"), ids=lambda session: session.id)
def test_sessions(session, compaction: CompactionChecker) -> None:
    assert compaction.check(session, max_cents=1, allow_unmeasured=True).session_id == session.id


def test_damaged(compaction: CompactionChecker) -> None:
    compaction.check("damaged.jsonl", min_kept=0)


def test_mistakes(compaction: CompactionChecker) -> None:
    with pytest.raises(ConfigurationError, match="no limit is given"):
        compaction.check("needy.jsonl")
    with pytest.raises(ValueError, match="two.jsonl has 2 sessions: check each"):
        compaction.check("two.jsonl", min_kept=0.6)
    with pytest.raises(ConfigurationError, match="window=0 must be"):
        compaction.check("needy.jsonl", min_kept=0.6, window=0)
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return an empty folder, whose tests find the modules of this project."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
    return pytester


def test_a_session_that_breaks_a_limit_fails_its_test_and_the_loss_is_named(project: pytest.Pytester) -> None:
    write_sessions(project.path / "needy.jsonl", needy_conversation())
    write_sessions(project.path / "two.jsonl", short_conversation(), short_conversation())
    write_sessions(project.path / "damaged.jsonl", [*short_conversation(), {"role": "assistant", "content": 17}])
    project.makeconftest('pytest_plugins = ["compaction_hooks.testing.plugin"]')
    project.makepyfile(TESTS)
    run = project.runpytest_subprocess()
    run.assert_outcomes(passed=5, failed=4)
    run.stdout.fnmatch_lines(
        [
            "*_ test_names _*",
            f"compaction of session s1 in a window of {WINDOW:,} tokens:",
            f"  min_kept failed: kept 0 of 2 names *; lost at call 22: {OLD_ORDER}, {OLD_FILE}",
            "*_ test_wishes _*",
            "compaction of session s1 *",
            f"  max_lost_constraints failed: * lost at call 15: '{WISH}'",
            "*_ test_cents _*",
            "compaction of session s1 in a window of 200,000 tokens:",
            "  max_cents not measured: no price of the recorded model is known*",
            "*_ test_damaged _*",
            "session s1 was not read whole: line 1, message 5: *",
        ]
    )
    run.stdout.no_fnmatch_line("*pytest.fail(*")


@pytest.mark.full
def test_the_programs_of_the_page_run(project: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    for program in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        (project.path / program.split()[1]).write_text(program, encoding="utf-8")  # its first line names the file
    (project.path / "sessions").mkdir()
    write_sessions(project.path / "sessions" / "orders.jsonl", needy_conversation(), needy_conversation())
    project.runpytest_subprocess().assert_outcomes(passed=2)
