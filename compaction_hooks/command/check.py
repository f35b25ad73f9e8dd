"""`compaction-hooks check`: limits for recorded sessions, for a CI."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from compaction_hooks import CompactionSettings, ConfigurationError, ContextOverflowError, Summarizer
from compaction_hooks.command.junit import CheckedSession, write_junit
from compaction_hooks.command.terminal import clean
from compaction_hooks.replay import (
    DEFAULT_WINDOW,
    Limits,
    RecordedSession,
    Replay,
    ReplayError,
    Verdict,
    find_window,
    judge,
    read_sessions,
    replay,
)
from compaction_hooks.replay.numbers import parse_tokens, pluralize, short
from compaction_hooks.replay.readers.folders import load_folder

LIMIT_FAILED: Final = 1
BAD_INPUT: Final = 2
"""Also if a limit failed: not all that was to be checked is checked."""

AUTO: Final = "auto"
MINIMUM_WINDOW: Final = 1_024
"""In tokens; the controller treats smaller windows as this one."""
_DEFAULTS: Final = CompactionSettings()

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE", help="Recorded sessions, as `replay` takes them, or folders of them.", show_default=False
    ),
]
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
Window = Annotated[
    str, typer.Option(metavar="TOKENS", help="Context window: 16k, 200000, 1M; auto: that of the recorded model.")
]
Trigger = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Compact above this part of the window (60%) or these tokens (100k).",
        show_default="the window less the reserve",
    ),
]
Keep = Annotated[
    str, typer.Option(metavar="TOKENS", help="Recent messages kept word for word.", show_default="by the window")
]
Reserve = Annotated[
    str,
    typer.Option(metavar="TOKENS", help="Left free for the answer.", show_default=short(_DEFAULTS.reserve_tokens)),
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


def check_files(
    files: Files,
    min_kept: MinKept = None,
    max_cents: MaxCents = None,
    max_lost_constraints: MaxLostConstraints = None,
    allow_unmeasured: AllowUnmeasured = False,
    window: Window = AUTO,
    trigger: Trigger = "",
    keep: Keep = "",
    reserve: Reserve = "",
    summarizer: WithSummarizer = None,
    junit: Junit = None,
) -> None:
    """Replay recorded sessions and fail if one breaks a limit. At least one limit is needed; each session is judged alone.

    A call that cannot be made to fit the window fails in any case, and so does a summarizer of your own that fails.
    Exit codes: 0 if all limits hold, 1 if one does not, 2 if a file or an option is bad.
    """
    try:
        limits = Limits(min_kept=min_kept, max_cents=max_cents, max_lost_constraints=max_lost_constraints)
    except ConfigurationError:
        options = "--min-kept, --max-cents or --max-lost-constraints"
        raise typer.BadParameter(f"no limit is given; give {options}") from None
    tokens, settings = _read_window(window), _read_settings(trigger, keep, reserve)
    summarize = None if summarizer is None else _import_summarizer(summarizer)

    def play(session: RecordedSession) -> Replay:
        size = tokens or find_window(session) or DEFAULT_WINDOW
        return replay(session, window=size, settings=settings, summarizer=summarize)

    errors: list[ReplayError] = []
    checked: list[CheckedSession] = []
    compactions = 0
    for file, session, done in _replay_each(files, play, errors.append):
        compactions += len(done.compactions)
        findings = judge(done, limits, has_summarizer=summarize is not None)
        checked.append(CheckedSession(file=file, session_id=session.id, findings=findings))
        _print_failures(checked[-1], allow_unmeasured)
    if not checked and not errors:
        errors.append(ReplayError(files[0], "there is no session in it", "check the path"))
    for error in errors:
        _print_error(str(error))
    _print(_sum_up(checked, compactions, len(errors), allow_unmeasured))

    is_written = junit is None or _try_to_write(junit, checked, errors, allow_unmeasured)
    if errors or not is_written:
        raise typer.Exit(BAD_INPUT)
    raise typer.Exit(LIMIT_FAILED if any(_fails(each, allow_unmeasured) for each in checked) else 0)


# -- work


def _replay_each(
    paths: Sequence[Path],
    play: Callable[[RecordedSession], Replay],
    on_error: Callable[[ReplayError], None],
) -> Iterator[tuple[str, RecordedSession, Replay]]:
    """Yield each file, session and replay, one after the other; all that can be read is replayed."""
    for file in _find_files(paths):
        try:
            for session in read_sessions(file):
                try:
                    done = play(session)
                except ContextOverflowError as too_large:
                    on_error(ReplayError(file, f"session {session.id}: {too_large}", "use a larger --window"))
                    continue
                yield str(file), session, done
        except ReplayError as error:
            on_error(error)


def _find_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the paths; in place of a folder that is no session, all files below it."""
    for path in paths:
        if path.is_dir() and not load_folder(path):
            yield from sorted(file for file in path.rglob("*") if file.is_file())
        else:
            yield path


def _try_to_write(
    path: Path, checked: Sequence[CheckedSession], errors: Sequence[ReplayError], allow_unmeasured: bool
) -> bool:
    try:
        write_junit(path, checked, errors, allow_unmeasured=allow_unmeasured)
    except OSError as problem:
        _print_error(f"{path} cannot be written ({problem.strerror})")
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


def _print_error(line: str) -> None:
    sys.stderr.write(f"error: {' '.join(clean(line).split())}\n")


# -- options


def _read_window(text: str) -> int | None:
    """Return a window in tokens; None for "auto"."""
    if text.strip() == AUTO:
        return None
    window = _read_tokens(text)
    if window < MINIMUM_WINDOW:
        raise typer.BadParameter(f"{text!r} is below the smallest window of {MINIMUM_WINDOW:,} tokens; write 16k")
    return window


def _read_settings(trigger: str, keep: str, reserve: str) -> CompactionSettings:
    """Return the settings for the texts of options; an empty text is the default."""
    is_ratio = trigger.strip().endswith("%")
    try:
        return CompactionSettings(
            trigger_ratio=_read_part(trigger) if is_ratio else None,
            trigger_tokens=_read_tokens(trigger) if trigger and not is_ratio else None,
            keep_recent_tokens=_read_tokens(keep) if keep else None,
            reserve_tokens=_read_tokens(reserve) if reserve else _DEFAULTS.reserve_tokens,
        )
    except ConfigurationError as error:  # one option contradicts another
        raise typer.BadParameter(str(error)) from None


def _read_tokens(text: str) -> int:
    number = parse_tokens(text)
    if number is None:
        raise typer.BadParameter(f"{text[:40]!r} is no number of tokens; write 16k, 200000 or 1M")
    return number


def _read_part(text: str) -> float:
    number = parse_tokens(text.strip().removesuffix("%"))
    if number is None or number > 100:
        raise typer.BadParameter(f"{text[:40]!r} is no part of the window; write 60%")
    return number / 100


def _import_summarizer(name: str) -> Summarizer:
    """Return the function of a name such as `agent.summaries:summarize`."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        found = attrgetter(attribute)(importlib.import_module(module))
    except Exception as error:  # noqa: BLE001 - the module of a user may raise anything
        raise typer.BadParameter(f"--summarizer {name} cannot be imported ({type(error).__name__}: {error})") from None
    if not callable(found):
        raise typer.BadParameter(f"--summarizer {name} is no function")
    return cast("Summarizer", found)
