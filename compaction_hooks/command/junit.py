"""The findings of `check` as JUnit XML, as GitLab, Jenkins and reporters of GitHub Actions read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, ElementTree, SubElement

from compaction_hooks.replay import Finding, Verdict

_SUITE: Final = "compaction-hooks check"
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML 1.0 document may have, escaped or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSession:
    """One session with its findings."""

    file: str
    session_id: str
    findings: Sequence[Finding]


def write_junit(
    path: Path, checked: Iterable[CheckedSession], errors: Iterable[str], *, allow_unmeasured: bool
) -> None:
    """Write a test case for each limit of each session, and one for each error; make the folders of the path.

    Raises:
        OSError: the file cannot be written.
    """
    suite = Element("testsuite", name=_SUITE)
    for each in checked:
        for finding in each.findings:
            case = _add_case(suite, each.file, f"{each.session_id}: {finding.limit}")
            if finding.fails(allow_unmeasured=allow_unmeasured):
                _add_outcome(case, "failure", finding.why, finding.verdict.value)
            elif finding.verdict is Verdict.NOT_MEASURED:
                _add_outcome(case, "skipped", finding.why, finding.verdict.value)

    for error in errors:
        file = error.partition(": ")[0].partition(", line ")[0]
        _add_outcome(_add_case(suite, file, "replay"), "error", error, "not replayed")

    for name, kind in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(1 for _ in suite.iter(kind))))

    suites = Element("testsuites")
    suites.append(suite)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


def _add_case(suite: Element, file: str, name: str) -> Element:
    shown = _clean(file)
    return SubElement(suite, "testcase", classname=shown, file=shown, name=_clean(name))


def _add_outcome(case: Element, kind: str, text: str, type: str) -> None:
    # GitLab shows the text of the element, others its attribute.
    shown = _clean(text)
    SubElement(case, kind, message=shown, type=type).text = shown


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
