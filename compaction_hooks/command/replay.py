"""`compaction-hooks replay`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from compaction_hooks.command import as_json
from compaction_hooks.command.batch import Job, replay_files
from compaction_hooks.command.comparison import find_smaller, print_command, print_gaps, print_reports, print_smaller
from compaction_hooks.command.options import AUTO, BAD_INPUT, Files, Keeps, Reserve, Triggers, Windows, build_settings
from compaction_hooks.replay.compare import Setting
from compaction_hooks.replay.numbers import short

WithDetails = Annotated[
    bool, typer.Option("--details", help="Of several sessions, show the report of each. Of one it is shown always.")
]
WithSummaries = Annotated[bool, typer.Option("--summary", help="Show the summaries too.")]
WithUsage = Annotated[
    bool, typer.Option("--usage", help="Believe the recorded token counts until the first compaction, not estimates.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the same as JSON, and nothing else.")]


def replay(
    files: Files,
    windows: Windows = AUTO,
    triggers: Triggers = "",
    keeps: Keeps = "",
    reserve: Reserve = "",
    details: WithDetails = False,
    summary: WithSummaries = False,
    usage: WithUsage = False,
    as_data: AsJson = False,
) -> None:
    """Show what compaction would have done to recorded sessions: replay them call by call through a real controller.

    Needs no key, no model and no network: summaries are extracted by rules.
    """
    settings = build_settings(windows, triggers, keeps, reserve)
    batch = replay_files(files, Job(settings=tuple(settings), uses_recorded_usage=usage))
    if as_data:
        sys.stdout.write(json.dumps(as_json.report(batch), indent=1, allow_nan=False) + "\n")
    else:
        console = Console(highlight=False)
        print_reports(console, batch, details=details or summary, shows_summaries=summary)
        if (hit := find_smaller(batch)) is not None:
            # Sizes for another window say nothing about this one.
            if hit.is_there and not (triggers or keeps or reserve):
                setting = Setting(options={"window": short(hit.window)}, window=hit.window)
                job = Job(settings=(setting,), uses_recorded_usage=usage)
                print_smaller(console, hit, replay_files([Path(hit.file)], job))
            print_command(console, hit)
        print_gaps(console, batch)
    raise typer.Exit(BAD_INPUT if batch.errors else 0)
