"""`compaction-hooks report` and `compaction-hooks chart`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from compaction_hooks import CompactionSettings, ContextOverflowError
from compaction_hooks.command.replay import BAD_INPUT, Files, Keep, Reserve, Window
from compaction_hooks.command.terminal import clean
from compaction_hooks.errors import MissingExtraError
from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.numbers import pluralize, short
from compaction_hooks.replay.page.chart import chart_of, write_chart
from compaction_hooks.replay.page.data import read_report
from compaction_hooks.replay.page.source import Done
from compaction_hooks.replay.page.write import HOLDS_NUMBERS, HOLDS_TEXT, load_template, write_report
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.run import DEFAULT_WINDOW, find_window, replay

_DEFAULTS: Final = CompactionSettings()

Session = Annotated[
    Path, typer.Argument(metavar="FILE", help="A file with one session, of any kind that replay reads.")
]
Page = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The page; a file that is there is replaced.")
]
Drawing = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The SVG; a file that is there is replaced.")
]
WithoutText = Annotated[
    bool, typer.Option("--no-text", help="Leave out all text of the conversations, names of tools and files included.")
]


def write_page(
    files: Files,
    output: Page = Path("report.html"),
    window: Window = None,
    keep: Keep = None,
    reserve: Reserve = _DEFAULTS.reserve_tokens,
    no_text: WithoutText = False,
) -> None:
    """Write one HTML page that shows what compaction would have done to recorded sessions, and what the model saw at each call.

    The page loads nothing. It holds the conversations, unless --no-text is given.
    """
    try:
        load_template()
    except MissingExtraError as missing:
        sys.stderr.write(f"error: {missing}\n")
        raise typer.Exit(BAD_INPUT) from None
    replayer = _Replayer(window, CompactionSettings(keep_recent_tokens=keep, reserve_tokens=reserve))
    done = [*replayer.run(files)]
    if done:
        _write(output, write_report(read_report(done, with_text=not no_text)))
        typer.echo(
            f"{clean(str(output))}: {pluralize(len(done), 'session')}. {HOLDS_NUMBERS if no_text else HOLDS_TEXT}"
        )
    raise typer.Exit(BAD_INPUT if replayer.has_failed else 0)


def draw_chart(
    session: Session,
    output: Drawing = Path("chart.svg"),
    window: Window = None,
    keep: Keep = None,
    reserve: Reserve = _DEFAULTS.reserve_tokens,
) -> None:
    """Draw the context of a recorded session at each call as SVG, with compaction and without. The chart holds numbers only."""
    replayer = _Replayer(window, CompactionSettings(keep_recent_tokens=keep, reserve_tokens=reserve))
    done = [*replayer.run([session])]
    if len(done) > 1:
        replayer.report_error(ReplayError(session, f"it has {len(done)} sessions", "give a file with one"))
    elif done:
        _write(output, write_chart(chart_of(done[0][2])))
    raise typer.Exit(BAD_INPUT if replayer.has_failed else 0)


def _write(output: Path, text: str) -> None:
    output.write_text(text, encoding="utf-8", newline="\n")


class _Replayer:
    """Replays files with all details, and reports bad ones on standard error."""

    def __init__(self, window: int | None, settings: CompactionSettings) -> None:
        self.has_failed = False
        self._window = window
        self._settings = settings

    def run(self, files: Sequence[Path]) -> Iterator[Done]:
        """Yield the replays of all sessions that can be read, in order."""
        for file in files:
            try:
                for session in read_sessions(file):
                    yield from self._replay(file, session)
            except ReplayError as error:
                self.report_error(error)

    def _replay(self, file: Path, session: RecordedSession) -> Iterator[Done]:
        window = self._window or find_window(session) or DEFAULT_WINDOW
        try:
            yield str(file), session, replay(session, window=window, settings=self._settings, details=True)
        except ContextOverflowError as too_large:
            fix = f"use a larger --window than {short(window)}"
            self.report_error(ReplayError(file, f"session {session.id}: {too_large}", fix))

    def report_error(self, error: ReplayError) -> None:
        """Print an error in one line."""
        self.has_failed = True
        sys.stderr.write(f"error: {' '.join(clean(str(error)).split())}\n")
