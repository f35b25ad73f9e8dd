"""The command line: its subcommands, and the exit codes that they have in common."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final, cast

import typer

from compaction_hooks import __version__
from compaction_hooks.command.check import check
from compaction_hooks.command.options import BAD_INPUT
from compaction_hooks.command.records import records
from compaction_hooks.command.replay import replay
from compaction_hooks.command.report import chart, report
from compaction_hooks.command.terminal import clean

UNWRITTEN: Final = 1
"""Exit code if the output cannot be written: the pipe is closed, or the disk is full."""

_UsageError = cast("type[Exception]", typer.BadParameter.__base__)  # typer does not export it
_QUIET: Final = logging.NullHandler()

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command("replay")(replay)
app.command("check")(check)
app.command("records")(records)
app.command("report")(report)
app.command("chart")(chart)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 if a limit of `check` failed or the output cannot be written, 2 after bad
    input, 130 after Ctrl-C.

    Args:
        arguments: Without the program's name; None: those of this process. An empty list shows the help.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed before typer could handle it.
    """
    logging.getLogger("compaction_hooks").addHandler(_QUIET)  # the output already shows every event
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
        sys.stderr.write(f"error: {' '.join(message.split())} (see {_name_command(given)} --help)\n")
        return BAD_INPUT
    except typer.Abort:  # raised by older versions of typer
        raise KeyboardInterrupt from None
    except OSError as problem:  # from the output: an unreadable input is a ReplayError
        _abandon_output(problem)
        return UNWRITTEN


def _name_command(given: Sequence[str]) -> str:
    known = {command.name for command in app.registered_commands}
    return " ".join(("compaction-hooks", *(name for name in given[:1] if name in known)))


def _abandon_output(problem: OSError) -> None:
    """Print the reason, unless a closed pipe is the reason; discard the buffer, or flushing it at exit would fail again."""
    if not isinstance(problem, BrokenPipeError):
        sys.stderr.write(f"error: the output cannot be written ({problem.strerror})\n")
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
