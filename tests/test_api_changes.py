"""`nox -s api`: what it says of a checkout after a release, by a small package in a repository of its own."""

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("griffe")

from tests.api_changes import compare

PAGE = """
## What is public

    compaction_hooks compaction_hooks.tokens compaction_adapters.kit

## All else
"""
PACKAGE = """
from compaction_hooks.inner import Session
__version__ = "0.3.0"
__all__ = ["Session", "count"]
def count(text, limit=9): ...
"""
INNER = """
from dataclasses import dataclass
@dataclass
class Session:
    name: str
    size: int = 0
    def call(self, view, *, limit=9): ...
    def leave(self):
        deprecation.warn("Session.leave", since="0.2.0", gone_in="0.4.0", instead="close()")
def helper(text): ...
"""
TOKENS = """
__all__ = ["measure"]
def measure(text): ...
def other(text): ...
"""
FILES = {
    "CHANGELOG.md": "## 0.4.0 - unreleased\n## 0.3.0 - 2026-11-28\n## 0.2.0 - 2026-10-01\n",
    "docs/versions.md": PAGE,
    "compaction_hooks/__init__.py": PACKAGE,
    "compaction_hooks/inner.py": INNER,
    "compaction_hooks/tokens.py": TOKENS,
    "adapters/compaction_adapters/__init__.py": "",
    "adapters/compaction_adapters/kit.py": "__all__ = ['run']\ndef run(flow): ...\n",
}
NEXT, INNER_FILE = '__version__ = "0.4.0.dev0"', "compaction_hooks/inner.py"
RENAMED = '@deprecation.renamed_argument("{}", "{}", since="0.4.0", gone_in="0.6.0")\n'

CHANGES = {
    "nothing": ([], []),
    "private": (
        [(INNER_FILE, "def helper(text): ...", ""), ("compaction_hooks/tokens.py", "def other(text): ...", "")],
        [],
    ),
    "another default": ([(INNER_FILE, "limit=9", "limit=10")], []),
    "a new argument": ([(INNER_FILE, "limit=9", "limit=9, more=None")], []),
    "an argument is gone": (
        [(INNER_FILE, ", *, limit=9", "")],
        ["compaction_hooks.inner.Session.call(limit): Parameter was removed"],
    ),
    "an argument is required": (
        [(INNER_FILE, "limit=9", "limit")],
        ["compaction_hooks.inner.Session.call(limit): Parameter is now required"],
    ),
    "an argument has another name, and warns": (
        [
            (
                INNER_FILE,
                "    def call(self, view, *, limit=9)",
                f"    {RENAMED.format('limit', 'most')}    def call(self, view, *, most=9)",
            )
        ],
        [],
    ),
    "a required field has another name, and warns": (
        [
            (INNER_FILE, "@dataclass", RENAMED.format("name", "id") + "@dataclass"),
            (
                INNER_FILE,
                "    name: str",
                "    id: str\n    @property\n    def name(self):\n"
                '        deprecation.warn("Session.name", since="0.4.0", gone_in="0.6.0", instead="id")',
            ),
        ],
        [],
    ),
    "a field is gone": (
        [(INNER_FILE, "    size: int = 0\n", "")],
        [
            "compaction_hooks.inner.Session(size): Parameter was removed",
            "compaction_hooks.inner.Session.size: Public object was removed",
        ],
    ),
    "a name is gone": (
        [
            ("compaction_hooks/__init__.py", "def count(text, limit=9): ...", ""),
            ("compaction_hooks/__init__.py", ', "count"', ""),
        ],
        ["compaction_hooks.count: Public object was removed"],
    ),
    "a name is not promised any more": (
        [("compaction_hooks/__init__.py", ', "count"', "")],
        ["compaction_hooks.count: no longer in __all__"],
    ),
    "a module is not promised any more": (
        [("docs/versions.md", " compaction_hooks.tokens", "")],
        ["compaction_hooks.tokens: no longer a public module"],
    ),
    "an adapter lacks a name": (
        [("adapters/compaction_adapters/kit.py", "def run(flow)", "def run_all(flow)")],
        ["compaction_adapters.kit.run: Public object was removed"],
    ),
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with a release, 0.3.0, after which 0.4.0 is made."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -q -m release", "tag v0.3.0"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    return tmp_path


def change(checkout: Path, name: str, before: str, after: str) -> None:
    text = (checkout / name).read_text(encoding="utf-8")
    assert before in text
    (checkout / name).write_text(text.replace(before, after), encoding="utf-8")


@pytest.mark.parametrize("case", CHANGES)
def test_what_a_release_promised_is_not_taken_away_without_a_warning(case: str, checkout: Path) -> None:
    edits, said = CHANGES[case]
    change(checkout, "compaction_hooks/__init__.py", '__version__ = "0.3.0"', NEXT)
    for edit in edits:
        change(checkout, *edit)
    assert compare(checkout) == ("v0.3.0", said)


@pytest.mark.parametrize(("version", "said"), [("0.3.1", ["compaction_hooks.inner.Session.leave"] * 2), ("0.4.0", [])])
def test_a_name_that_warned_goes_in_the_version_that_was_told(version: str, said: list[str], checkout: Path) -> None:
    change(checkout, "compaction_hooks/__init__.py", "0.3.0", version)
    text = (checkout / INNER_FILE).read_text(encoding="utf-8")
    (checkout / INNER_FILE).write_text(text.partition("    def leave")[0] + "def helper(text): ...\n", encoding="utf-8")
    assert [line.partition(":")[0] for line in compare(checkout)[1]] == said


def test_before_the_first_release_the_last_commit_is_compared(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## 0.3.0 - 2026-11-28\n", encoding="utf-8")
    change(checkout, INNER_FILE, ", *, limit=9", "")
    reference, found = compare(checkout)
    assert reference.startswith("the last commit")
    assert len(found) == 1


def test_a_clone_without_the_tag_of_the_release_does_not_pass(checkout: Path) -> None:
    """As the last commit alone is, which a CI fetches if it is told nothing else."""
    subprocess.run(["git", "tag", "-d", "v0.3.0"], cwd=checkout, check=True, capture_output=True)
    change(checkout, "compaction_hooks/__init__.py", '__version__ = "0.3.0"', NEXT)
    with pytest.raises(SystemExit, match=r"git fetch --tags.*v0\.3\.0"):
        compare(checkout)
