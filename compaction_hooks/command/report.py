"""`compaction-hooks report` and `compaction-hooks chart`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from compaction_hooks.command.batch import Job, replay_files
from compaction_hooks.command.comparison import describe_gaps
from compaction_hooks.command.done import Batch
from compaction_hooks.command.options import AUTO, BAD_INPUT, Files, Keeps, Reserve, Triggers, Windows, build_setting
from compaction_hooks.command.terminal import clean
from compaction_hooks.errors import MissingExtraError
from compaction_hooks.replay.numbers import pluralize
from compaction_hooks.replay.page.chart import chart_of, write_chart
from compaction_hooks.replay.page.data import read_report
from compaction_hooks.replay.page.write import HOLDS_NUMBERS, HOLDS_TEXT, load_template, write_report

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


def report(
    files: Files,
    output: Page = Path("report.html"),
    windows: Windows = AUTO,
    triggers: Triggers = "",
    keeps: Keeps = "",
    reserve: Reserve = "",
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

    batch = _replay(files, windows, triggers, keeps, reserve)
    if batch.done:
        replays = [(done.file, done.session, done.replays[0]) for done in batch.done]
        _write(output, write_report(read_report(replays, with_text=not no_text)))
        holds = HOLDS_NUMBERS if no_text else HOLDS_TEXT
        typer.echo(f"{clean(str(output))}: {pluralize(len(replays), 'session')}. {holds}")

    raise typer.Exit(BAD_INPUT if batch.errors else 0)


def chart(
    session: Session,
    output: Drawing = Path("chart.svg"),
    windows: Windows = AUTO,
    triggers: Triggers = "",
    keeps: Keeps = "",
    reserve: Reserve = "",
) -> None:
    """Draw the context of a recorded session at each call as SVG, with compaction and without. The chart holds numbers only."""
    batch = _replay([session], windows, triggers, keeps, reserve)
    if len(batch.done) > 1:
        raise typer.BadParameter(f"{session} has {len(batch.done)} sessions; give a file with one")
    if batch.done:
        _write(output, write_chart(chart_of(batch.done[0].replays[0])))
    raise typer.Exit(BAD_INPUT if batch.errors else 0)


def _replay(files: list[Path], windows: str, triggers: str, keeps: str, reserve: str) -> Batch:
    setting = build_setting(windows, triggers, keeps, reserve)
    batch = replay_files(files, Job(settings=(setting,), details=True))
    for told in describe_gaps(batch):
        typer.echo(told, err=True)
    return batch


def _write(output: Path, text: str) -> None:
    output.write_text(text, encoding="utf-8", newline="\n")
