"""Finding the sessions of a command line, and replaying them: many files in parallel, with a progress bar."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from compaction_hooks import ConfigurationError, ContextOverflowError, Summarizer
from compaction_hooks.command.done import Batch, Done
from compaction_hooks.command.terminal import clean
from compaction_hooks.replay.compare import Setting
from compaction_hooks.replay.errors import NothingToReplayError, ReplayError
from compaction_hooks.replay.numbers import pluralize
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.run import DEFAULT_WINDOW, call_indexes, replay, window_of

STDIN: Final = Path("-")
SUFFIXES: Final = (".json", ".jsonl", ".traj", ".json.gz", ".jsonl.gz")
"""Of the files that are searched for in a folder."""
PARALLEL_BYTES: Final = 2_000_000
"""Smaller files together are replayed in this process: to begin others takes longer."""
PROGRESS_AFTER_SECONDS: Final = 0.5
"""No progress bar for shorter work."""
NAME_CHARS, BAR_CHARS = 30, 20
"""In characters; with the two numbers of the bar, a line fits 80 columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """How to replay each session.

    Attributes:
        settings: Each session is replayed with each of them.
        details: Whether the messages stay in the result, and each compaction has `details`. Only in this process.
    """

    settings: tuple[Setting, ...] = (Setting(name="window auto"),)
    uses_recorded_usage: bool = False
    details: bool = False
    summarizer: Summarizer | None = None


def replay_files(paths: Sequence[Path], job: Job) -> Batch:
    """Replay the sessions of files, folders and standard input; report bad ones on standard error."""
    with _save_stdin(paths) as saved:
        files = [found for path in saved for found in _find_files(path)]
        batches = [*_in_parallel(files, job)] if _is_parallel(files, job) else [*_one_by_one(files, job)]
    errors = [line for batch in batches for line in batch.errors]
    ignored = sum(batch.ignored for batch in batches)
    if not errors and not any(batch.done for batch in batches):
        problem = f"no session in it ({pluralize(ignored, 'other file')})" if ignored else "no session in it"
        errors.append(str(ReplayError(paths[0], problem, "name the folder of your agent's sessions")))
    lines = tuple(" ".join(clean(line).split()) for line in errors)
    for line in lines:
        sys.stderr.write(f"error: {line}\n")
    return Batch(done=tuple(one for batch in batches for one in batch.done), errors=lines, ignored=ignored)


# -- files


@contextmanager
def _save_stdin(paths: Sequence[Path]) -> Generator[list[Path]]:
    """Save standard input to a file if `-` is among the paths, since a session is read by its whole file."""
    if STDIN not in paths:
        yield [*paths]
        return
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder, "stdin")
        saved.write_bytes(sys.stdin.buffer.read())
        yield [saved if path == STDIN else path for path in paths]


@dataclass(frozen=True, slots=True)
class _Found:
    """A file, or the folder of one session. One that was not named on the command line may be something else."""

    path: Path
    is_named: bool


def _find_files(path: Path, *, is_named: bool = True) -> Iterator[_Found]:
    """Yield a file, or the files and the session folders below a folder; what cannot be opened is told by its reader."""
    try:
        inside = sorted(path.iterdir()) if os.path.isdir(path) and not _is_session(path) else None
    except OSError:
        inside = None
    if inside is None:
        yield _Found(path, is_named)
    for inner in inside or ():
        if inner.name.endswith(SUFFIXES) or os.path.isdir(inner):
            yield from _find_files(inner, is_named=False)


def _is_session(folder: Path) -> bool:
    """Return whether a folder is itself the session of an agent that writes many files."""
    with suppress(ReplayError):
        return any(True for _ in read_sessions(folder))
    return False


# -- work


def _is_parallel(files: Sequence[_Found], job: Job) -> bool:
    if job.details or len(files) == 1 or os.cpu_count() == 1:
        return False
    return sum(_size(file.path) for file in files) > PARALLEL_BYTES and _can_be_sent(job)


def _can_be_sent(job: Job) -> bool:
    """Return whether another process can get a job: a summarizer must be a function of a module, or an object that is copied."""
    try:
        pickle.loads(pickle.dumps(job))
    except Exception:  # noqa: BLE001 - the object's own methods may raise anything
        return False
    return True


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _one_by_one(files: Sequence[_Found], job: Job) -> Iterator[Batch]:
    for file in files:
        with _Bar(str(file.path), "calls") as bar:
            yield _replay_file(job, file, bar)


def _in_parallel(files: Sequence[_Found], job: Job) -> Iterator[Batch]:
    """Replay each file in one of several processes."""
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    with (
        _Bar("sessions", "files", len(files)) as bar,
        ProcessPoolExecutor(mp_context=context, initializer=_ignore_interrupts) as pool,
    ):
        try:
            for batch in pool.map(partial(_replay_file, job), files):
                yield batch
                bar.advance()
        except BaseException:  # Ctrl-C: do not wait for the sessions that are being replayed
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _replay_file(job: Job, found: _Found, bar: _Bar | None = None) -> Batch:
    """Replay the sessions of one file. Those read before an error are replayed too."""
    sessions: list[RecordedSession] = []
    errors: list[str] = []
    file = found.path
    try:
        for session in read_sessions(file):
            sessions.append(session)  # noqa: PERF402 - sessions read before an error are replayed too
    except NothingToReplayError as error:
        if not found.is_named:
            return Batch(ignored=1)
        errors.append(str(error))
    except ReplayError as error:
        errors.append(str(error))
    if bar is not None:
        bar.set_total(sum(len(call_indexes(session)) for session in sessions) * len(job.settings))
    done: list[Done] = []
    for session in sessions:
        try:
            done.append(_replay_session(job, file, session, bar))
        except (ContextOverflowError, ConfigurationError) as error:
            fix = "use a larger --window" if isinstance(error, ContextOverflowError) else "change the options"
            errors.append(str(ReplayError(file, f"session {session.id}: {error}", fix)))
    return Batch(done=tuple(done), errors=tuple(errors))


def _replay_session(job: Job, file: Path, session: RecordedSession, bar: _Bar | None) -> Done:
    known = window_of(session)
    own = known or DEFAULT_WINDOW
    replays = tuple(
        replay(
            session,
            window=setting.window or own,
            settings=setting.settings,
            summarizer=job.summarizer,
            uses_recorded_usage=job.uses_recorded_usage,
            details=job.details,
            on_call=bar.advance if bar is not None else None,
        )
        for setting in job.settings
    )
    kept = session if job.details else replace(session, messages=(), tools=(), calls=(), system=None)
    note = _explain_window(session.model, is_known=known is not None) if job.settings[0].window is None else ""
    return Done(file=str(file), session=kept, messages=len(session.messages), window_note=note, replays=replays)


def _explain_window(model: str | None, *, is_known: bool) -> str:
    if model is None:
        return "since the recording names no model"
    return f"that of {model}" if is_known else f"since that of {model} is unknown"


# -- the bar


@dataclass(slots=True)
class _Bar:
    """Progress bar on standard error; shown only on a terminal, and only if the work takes long."""

    name: str
    unit: str
    total: int = 0
    _since: float = field(default_factory=time.monotonic)
    _progress: Progress | None = None
    _done: int = 0

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def set_total(self, total: int) -> None:
        """Set how many steps there are."""
        self.total = total

    def advance(self) -> None:
        """Count one step."""
        self._done += 1
        if self._progress is not None:
            self._progress.advance(self._progress.task_ids[0])
        elif time.monotonic() - self._since > PROGRESS_AFTER_SECONDS:
            self._show()

    def _show(self) -> None:
        console = Console(stderr=True)
        if not console.is_terminal:
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(BAR_CHARS), MofNCompleteColumn())
        self._progress = Progress(*columns, TextColumn(self.unit), console=console, transient=True)
        self._progress.add_task(_shorten_name(clean(self.name)), total=self.total, completed=self._done)
        self._progress.start()


def _shorten_name(name: str) -> str:
    return name if len(name) <= NAME_CHARS else f"…{name[1 - NAME_CHARS :]}"
