"""The command `compaction-hooks replay`."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, TypeAlias, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from compaction_hooks import CompactionSettings, ContextOverflowError, __version__
from compaction_hooks.replay import as_json
from compaction_hooks.replay.errors import ReplayError
from compaction_hooks.replay.numbers import parse_tokens, short
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.replayed import Replay
from compaction_hooks.replay.report import clean, print_replay, print_totals
from compaction_hooks.replay.run import call_indexes, replay

DEFAULT_WINDOW: Final = 16_000
"""In tokens; smaller than the windows of today's models, so that a session of half an hour is compacted several times."""
MINIMUM_WINDOW: Final = 1_024
"""In tokens; the controller treats smaller windows as this one."""
PROGRESS_AFTER_SECONDS: Final = 0.5
"""No progress bar for shorter work."""
NAME_CHARS, BAR_CHARS = 30, 20
"""In characters; with the two numbers of the bar, a line fits 80 columns."""

BAD_INPUT: Final = 2
UNWRITTEN: Final = 1
"""Exit code if the report cannot be written: the pipe is closed, or the disk is full."""

_UsageError = cast("type[Exception]", typer.BadParameter.__base__)  # typer does not export it
_QUIET: Final = logging.NullHandler()
_DEFAULTS: Final = CompactionSettings()

Done: TypeAlias = tuple[str, RecordedSession, Replay]
"""A file, a session in it, and its replay."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 after bad input, 1 if the report cannot be written, 130 after Ctrl-C.

    Args:
        arguments: Without the program's name; None: those of this process. An empty list shows the help.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed before typer could handle it.
    """
    logging.getLogger("compaction_hooks").addHandler(_QUIET)  # the report already shows every event
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal may lack the characters of a summary
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = int(app(given or ["--help"], prog_name="compaction-hooks", standalone_mode=False) or 0)
        sys.stdout.flush()
        return code
    except _UsageError as wrong:
        message = clean(getattr(wrong, "format_message", wrong.__str__)())
        sys.stderr.write(f"error: {' '.join(message.split())} (see compaction-hooks replay --help)\n")
        return BAD_INPUT
    except typer.Abort:  # raised by older versions of typer
        raise KeyboardInterrupt from None
    except OSError as problem:  # from the output: an unreadable input is a ReplayError
        _abandon_output(problem)
        return UNWRITTEN


def _abandon_output(problem: OSError) -> None:
    """Print the reason, unless a closed pipe is the reason; discard the buffer, or flushing it at exit would fail again."""
    if not isinstance(problem, BrokenPipeError):
        sys.stderr.write(f"error: the report cannot be written ({problem.strerror})\n")
    with suppress(io.UnsupportedOperation):  # the stream is not backed by a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"compaction-hooks {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]


@app.callback()
def compaction_hooks(version: Version = False) -> None:
    """Keeps LLM agents' conversations inside the context window."""


def _parse_tokens(value: object) -> int:
    """Return a number of tokens given on the command line or as a default."""
    number = parse_tokens(str(value))
    if number is None:
        raise typer.BadParameter(f"{str(value)[:40]!r} is no number of tokens; write 16k, 200000 or 1M")
    return number


def _parse_window(value: object) -> int:
    window = _parse_tokens(value)
    if window < MINIMUM_WINDOW:
        raise typer.BadParameter(f"{value!r} is below the smallest window of {MINIMUM_WINDOW:,} tokens; write 16k")
    return window


Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Sessions of Claude Code, Codex, Copilot CLI, Gemini CLI, OpenCode, OpenHands, mini-swe-agent, pi and others, message "
        "dumps of LangChain and pydantic-ai, OpenAI or Anthropic message lists; JSON or JSON Lines, plain or gzipped.",
        show_default=False,
    ),
]
Window = Annotated[
    int,
    typer.Option(
        parser=_parse_window,
        metavar="TOKENS",
        help="Context window: 16k, 200000, 1M.",
        show_default=short(DEFAULT_WINDOW),
    ),
]
Keep = Annotated[
    int | None,
    typer.Option(
        parser=_parse_tokens,
        metavar="TOKENS",
        help="Recent messages kept word for word, as far as the window allows.",
        show_default=short(_DEFAULTS.budget(DEFAULT_WINDOW).keep),
    ),
]
Reserve = Annotated[
    int,
    typer.Option(
        parser=_parse_tokens,
        metavar="TOKENS",
        help="Left free for the answer, as far as the window allows.",
        show_default=short(_DEFAULTS.reserve_tokens),
    ),
]
WithSummaries = Annotated[bool, typer.Option("--summary", help="Show the summaries too.")]
WithUsage = Annotated[
    bool, typer.Option("--usage", help="Believe the recorded token counts until the first compaction, not estimates.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the same as JSON, and nothing else.")]


@app.command("replay")
def replay_files(
    files: Files,
    window: Window = DEFAULT_WINDOW,
    keep: Keep = None,
    reserve: Reserve = _DEFAULTS.reserve_tokens,
    summary: WithSummaries = False,
    usage: WithUsage = False,
    as_data: AsJson = False,
) -> None:
    """Show what compaction would have done to recorded sessions: replay them call by call through a real controller.

    Needs no key, no model and no network: summaries are extracted by rules.
    """
    settings = CompactionSettings(keep_recent_tokens=keep, reserve_tokens=reserve)
    replayer = _Replayer(window=window, settings=settings, uses_recorded_usage=usage)
    if as_data:
        _print_json(replayer, files)
    else:
        _print_reports(replayer, files, shows_summaries=summary)
    raise typer.Exit(BAD_INPUT if replayer.errors else 0)


# -- work


class _Replayer:
    """Replays files one by one and reports bad ones on standard error."""

    def __init__(self, *, window: int, settings: CompactionSettings, uses_recorded_usage: bool) -> None:
        self.errors: list[str] = []
        self._window = window
        self._settings = settings
        self._uses_recorded_usage = uses_recorded_usage

    def run(self, files: Sequence[Path]) -> Iterator[Done]:
        """Yield the replays of readable sessions, in order. A progress bar is shown, except while the caller handles a replay."""
        for file in files:
            sessions: list[RecordedSession] = []
            try:
                for session in read_sessions(file):
                    sessions.append(session)  # noqa: PERF402 - sessions read before an error are replayed too
            except ReplayError as error:
                self._report_error(error)
            with _Bar(str(file), sum(len(call_indexes(session)) for session in sessions)) as bar:
                for session in sessions:
                    done = self._replay(file, session, bar)
                    if done is not None:
                        bar.hide()
                        yield str(file), session, done

    def _replay(self, file: Path, session: RecordedSession, bar: _Bar) -> Replay | None:
        try:
            return replay(
                session,
                window=self._window,
                settings=self._settings,
                uses_recorded_usage=self._uses_recorded_usage,
                on_call=bar.advance,
            )
        except ContextOverflowError as too_large:
            fix = f"use a larger --window than {short(self._window)}"
            bar.hide()
            self._report_error(ReplayError(file, f"session {session.id}: {too_large}", fix))
            return None

    def _report_error(self, error: ReplayError) -> None:
        line = " ".join(clean(str(error)).split())
        self.errors.append(line)
        sys.stderr.write(f"error: {line}\n")


def _print_reports(replayer: _Replayer, files: Sequence[Path], *, shows_summaries: bool) -> None:
    console = Console(highlight=False)
    finished: list[Replay] = []
    for file, session, done in replayer.run(files):
        print_replay(console, file, session, done, shows_summaries=shows_summaries)
        finished.append(done)
    if len(finished) > 1:
        print_totals(console, finished)


def _print_json(replayer: _Replayer, files: Sequence[Path]) -> None:
    found = as_json.report(list(replayer.run(files)), replayer.errors)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


class _Bar:
    """Progress bar over the calls of a file, on standard error; shown only on a terminal, and only if the replay takes long."""

    def __init__(self, name: str, calls: int) -> None:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(BAR_CHARS),
            MofNCompleteColumn(),
            TextColumn("calls"),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(_shorten_name(clean(name)), total=calls)
        self._since = time.monotonic()
        self._is_shown = False

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def advance(self) -> None:
        """Count one call."""
        self._progress.advance(self._task)
        is_late = time.monotonic() - self._since > PROGRESS_AFTER_SECONDS
        if is_late and not self._is_shown and self._progress.console.is_terminal:
            self._progress.start()
            self._is_shown = True

    def hide(self) -> None:
        """Hide the bar while a report is printed; the next call shows it again."""
        if self._is_shown:
            self._progress.stop()
            self._is_shown = False


def _shorten_name(name: str) -> str:
    return name if len(name) <= NAME_CHARS else f"…{name[1 - NAME_CHARS :]}"
