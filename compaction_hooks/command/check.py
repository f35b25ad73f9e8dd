"""`compaction-hooks check`: limits for recorded sessions, for a CI."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from compaction_hooks import ConfigurationError, Summarizer
from compaction_hooks.command.batch import Job, replay_files
from compaction_hooks.command.junit import CheckedSession, write_junit
from compaction_hooks.command.options import AUTO, BAD_INPUT, Files, Keeps, Reserve, Triggers, Windows, build_setting
from compaction_hooks.command.terminal import clean
from compaction_hooks.replay import Limits, Verdict, judge
from compaction_hooks.replay.numbers import pluralize

LIMIT_FAILED: Final = 1

MinKept = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="Least share of the names that the agent used after a compaction which a summary must keep."
    ),
]
MaxCents = Annotated[
    float | None,
    typer.Option(
        min=0, help="Most US cents that a session may cost by its model's prices, its calls as they are sent."
    ),
]
MaxLostConstraints = Annotated[
    int | None, typer.Option(min=0, help="Most constraints of the user that may be missing after a compaction.")
]
AllowUnmeasured = Annotated[
    bool,
    typer.Option("--allow-unmeasured", help="Pass a limit that cannot be measured, such as a cost without a price."),
]
WithSummarizer = Annotated[
    str | None,
    typer.Option(
        "--summarizer",
        metavar="MODULE:FUNCTION",
        help="Your own summarizer, sync or async, imported from the present folder too.",
        show_default="by rule, without a model",
    ),
]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the outcome as JUnit XML too.")]


def check(
    files: Files,
    min_kept: MinKept = None,
    max_cents: MaxCents = None,
    max_lost_constraints: MaxLostConstraints = None,
    allow_unmeasured: AllowUnmeasured = False,
    windows: Windows = AUTO,
    triggers: Triggers = "",
    keeps: Keeps = "",
    reserve: Reserve = "",
    summarizer: WithSummarizer = None,
    junit: Junit = None,
) -> None:
    """Replay recorded sessions and fail if one breaks a limit. At least one limit is needed; each session is judged alone.

    A call that cannot be made to fit the window fails in any case, and so does a summarizer of your own that fails. A file that
    cannot be read whole, or that holds no session of a known kind, is bad.
    Exit codes: 0 if all limits hold, 1 if one does not, 2 if a file or an option is bad.
    """
    if min_kept is max_cents is max_lost_constraints is None:
        raise typer.BadParameter("no limit is given; give --min-kept, --max-cents or --max-lost-constraints")
    try:
        limits = Limits(min_kept=min_kept, max_cents=max_cents, max_lost_constraints=max_lost_constraints)
    except ConfigurationError as error:  # nan or inf
        raise typer.BadParameter(str(error)) from None
    setting = build_setting(windows, triggers, keeps, reserve)
    summarize = None if summarizer is None else _import_summarizer(summarizer)

    batch = replay_files(files, Job(settings=(setting,), summarizer=summarize, is_strict=True))
    checked: list[CheckedSession] = []
    for done in batch.done:
        findings = judge(done.replays[0], limits, has_summarizer=summarize is not None)
        checked.append(CheckedSession(file=done.file, session_id=done.session.id, findings=findings))
        _print_failures(checked[-1], allow_unmeasured)
    compactions = sum(len(done.replays[0].compactions) for done in batch.done)
    _print(_sum_up(checked, compactions, len(batch.errors), allow_unmeasured))

    is_written = junit is None or _try_to_write(junit, checked, batch.errors, allow_unmeasured)
    if batch.errors or not is_written:
        raise typer.Exit(BAD_INPUT)
    raise typer.Exit(LIMIT_FAILED if any(_fails(each, allow_unmeasured) for each in checked) else 0)


def _try_to_write(path: Path, checked: Sequence[CheckedSession], errors: Sequence[str], allow_unmeasured: bool) -> bool:
    try:
        write_junit(path, checked, errors, allow_unmeasured=allow_unmeasured)
    except OSError as problem:
        sys.stderr.write(f"error: {clean(str(path))} cannot be written ({problem.strerror})\n")
        return False
    return True


# -- output


def _print_failures(session: CheckedSession, allow_unmeasured: bool) -> None:
    for finding in session.findings:
        if finding.fails(allow_unmeasured=allow_unmeasured):
            name = finding.limit.replace("_", "-")
            _print(f"{session.file}, session {session.session_id}: {name} {finding.verdict.value}: {finding.why}")


def _sum_up(checked: Sequence[CheckedSession], compactions: int, errors: int, allow_unmeasured: bool) -> str:
    failed = sum(_fails(each, allow_unmeasured) for each in checked)
    unmeasured = sum(finding.verdict is Verdict.NOT_MEASURED for each in checked for finding in each.findings)
    outcome = f"{len(checked) - failed} passed, {failed} failed"

    parts = [f"{pluralize(len(checked), 'session')}, {pluralize(compactions, 'compaction')}: {outcome}"]
    if unmeasured:
        parts.append(f"{pluralize(unmeasured, 'limit')} not measured")
    if errors:
        parts.append(pluralize(errors, "error"))
    if checked and not compactions:
        parts.append("nothing was compacted, a smaller --window shows more")
    return "; ".join(parts)


def _fails(session: CheckedSession, allow_unmeasured: bool) -> bool:
    return any(finding.fails(allow_unmeasured=allow_unmeasured) for finding in session.findings)


def _print(line: str) -> None:
    sys.stdout.write(f"{' '.join(clean(line).split())}\n")


# -- options


def _import_summarizer(name: str) -> Summarizer:
    """Return the function of a name such as `agent.summaries:summarize`."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        found = attrgetter(attribute)(importlib.import_module(module))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a script exits, with 0 too: nothing would be checked
        raise typer.BadParameter(f"--summarizer {name} cannot be imported ({type(error).__name__}: {error})") from None
    if not callable(found):
        raise typer.BadParameter(f"--summarizer {name} is no function")
    return cast("Summarizer", found)
