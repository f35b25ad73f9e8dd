"""Prints the figures of the soak when all of it has run, whichever process ran which part."""

from collections.abc import Callable
from dataclasses import asdict

import pytest

from tests.soak.figures import Figures, table


@pytest.fixture
def note_figures(record_property: Callable[[str, object], None]) -> Callable[[str, Figures], None]:
    return lambda name, figures: record_property("figures", [name, asdict(figures)])


@pytest.fixture
def note_line(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    return lambda line: record_property("line", line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    noted = [pair for report in reports for pair in getattr(report, "user_properties", ())]
    rows = [value for name, value in noted if name == "figures"]
    lines = [value for name, value in noted if name == "line"]
    if rows or lines:
        terminalreporter.section("figures")
        for line in [*(table(rows) if rows else []), *lines]:
            terminalreporter.write_line(line)
