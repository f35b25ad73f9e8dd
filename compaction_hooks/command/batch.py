"""Finding the sessions of a command line, and replaying them: many files in parallel, with a progress bar."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from compaction_hooks import ConfigurationError, ContextOverflowError, Summarizer
from compaction_hooks.command.done import Batch, Done
from compaction_hooks.command.terminal import clean
from compaction_hooks.interrupts import finish_imports
from compaction_hooks.replay.compare import Setting
from compaction_hooks.replay.errors import NothingToReplayError, ReplayError
from compaction_hooks.replay.numbers import pluralize
from compaction_hooks.replay.prices import find_prices
from compaction_hooks.replay.readers import read_sessions
from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.replay.replayed import Replay
from compaction_hooks.replay.run import call_indexes, replay
from compaction_hooks.replay.windows import SessionWindow, window_of

STDIN: Final = Path("-")
SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".traj", ".json.gz", ".jsonl.gz", ".ndjson.gz")
"""Of the files that are searched for in a folder; in capitals too."""
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
        is_strict: Whether it is an error if a file is not read whole: it is damaged, or holds no session that is known.
    """

    settings: tuple[Setting, ...] = (Setting(options={"window": "auto"}),)
    uses_recorded_usage: bool = False
    details: bool = False
    is_strict: bool = False
    summarizer: Summarizer | None = None


def replay_files(paths: Sequence[Path], job: Job) -> Batch:
    """Replay the sessions of files, folders and standard input; report bad ones on standard error."""
    find_prices(None)  # the last import that takes long
    finish_imports()
    with _save_stdin(paths) as saved:
        files = [found for path in saved for found in _find_files(path)]
        read = [*_in_parallel(files, job)] if _is_parallel(files, job) else [*_one_by_one(files, job)]

    errors = [line for each in read for line in each.errors]
    ignored = tuple(each.ignored for each in read if each.ignored)
    numbers, played = _choose_settings([one for each in read for one in each.played], len(job.settings))
    if not errors and not played:
        problem = f"no session in it ({pluralize(len(ignored), 'other file')})" if ignored else "no session in it"
        errors.append(str(ReplayError(paths[0], problem, "name the folder of your agent's sessions")))

    lines = tuple(" ".join(clean(line).split()) for line in errors)
    for line in lines:
        sys.stderr.write(f"error: {line}\n")

    done = tuple(_pick(each, numbers) for each in played)
    return Batch(settings=tuple(job.settings[number] for number in numbers), done=done, errors=lines, ignored=ignored)


# -- files


@contextmanager
def _save_stdin(paths: Sequence[Path]) -> Generator[list[Path]]:
    """Save standard input to a file if `-` is among the paths, since a session is read by its whole file."""
    if STDIN not in paths:
        yield [*paths]
        return
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder, "standard input")
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
        if inner.name.lower().endswith(SUFFIXES) or os.path.isdir(inner):
            yield from _find_files(inner, is_named=False)


def _is_session(folder: Path) -> bool:
    """Return whether a folder is itself the session of an agent that writes many files."""
    try:
        return any(True for _ in read_sessions(folder))
    except ReplayError:
        return False
    except Exception:  # noqa: BLE001 - told where the folder is read
        return True


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


def _one_by_one(files: Sequence[_Found], job: Job) -> Iterator[_File]:
    for file in files:
        with _Bar(str(file.path), "calls") as bar:
            yield _replay_file(job, file, bar)


def _in_parallel(files: Sequence[_Found], job: Job) -> Iterator[_File]:
    """Replay each file in one of several processes."""
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    with (
        _Bar("sessions", "files", len(files)) as bar,
        ProcessPoolExecutor(mp_context=context, initializer=_ignore_interrupts) as pool,
    ):
        try:
            with _block_interrupts():
                futures = [pool.submit(_replay_file, job, file) for file in files]
            for future in futures:
                yield future.result()
                bar.advance()
        except BaseException:  # Ctrl-C: do not wait for the sessions that are being replayed
            # The pool fails its futures in a thread, which prints a traceback if they are cancelled, as map() does.
            for process in multiprocessing.active_children():
                process.terminate()
            raise


@contextmanager
def _block_interrupts() -> Generator[None]:
    """Hold back Ctrl-C while processes begin. They inherit it, and so do not print tracebacks from the middle of their imports."""
    if sys.platform == "win32":
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Played(NamedTuple):
    """A session, and its replays by the numbers of the settings that it can be replayed with."""

    file: str
    session: RecordedSession
    messages: int
    window: SessionWindow | None
    replays: Mapping[int, Replay]


class _File(NamedTuple):
    """The sessions of one file and its errors; its name if it is no session and nobody said so."""

    played: Sequence[_Played] = ()
    errors: Sequence[str] = ()
    ignored: str = ""


def _choose_settings(played: Sequence[_Played], count: int) -> tuple[list[int], list[_Played]]:
    """Return the settings to compare, and the sessions to compare them on: all settings on the sessions that can be replayed with
    each; if there is no such session, the settings that all sessions can be replayed with.
    """
    whole = [each for each in played if len(each.replays) == count]
    if whole:
        return [*range(count)], whole
    numbers = [number for number in range(count) if all(number in each.replays for each in played)]
    return numbers, [*played] if numbers else []


def _pick(played: _Played, numbers: Sequence[int]) -> Done:
    return Done(
        file=played.file,
        session=played.session,
        messages=played.messages,
        window=played.window,
        replays=tuple(played.replays[number] for number in numbers),
    )


def _replay_file(job: Job, found: _Found, bar: _Bar | None = None) -> _File:
    """Replay the sessions of one file. Those read before an error are replayed too."""
    sessions: list[RecordedSession] = []
    errors: list[str] = []
    broke_off: list[str] = []
    file = found.path
    try:
        for session in read_sessions(file):
            sessions.append(session)  # noqa: PERF402 - sessions read before an error are replayed too
    except NothingToReplayError as error:
        if not found.is_named and not job.is_strict:
            return _File(ignored=str(found.path))
        errors.append(str(error))
    except ReplayError as error:
        errors.append(str(error))
    except Exception as error:  # noqa: BLE001 - a reader's mistake must not hide the other files
        broke_off = [f"{file}: its reader broke off with {type(error).__name__}; take it out, and please report this"]

    unread = [note for session in sessions for note in session.unread]
    if job.is_strict and unread:  # a reader's own error is among these notes
        errors = [f"{file}: not read whole: {'; '.join(unread)}; mend the file or take it out"]
    errors += broke_off

    if bar is not None:
        bar.set_total(sum(len(call_indexes(session)) for session in sessions) * len(job.settings))

    played: list[_Played] = []
    for session in sessions:
        replays: dict[int, Replay] = {}
        for number, setting in enumerate(job.settings):
            replayed = _replay_session(job, setting, session, bar)
            if isinstance(replayed, str):
                errors.append(f"{file}: session {session.id}: {replayed}")
            else:
                replays[number] = replayed

        if replays:
            kept = session if job.details else replace(session, messages=(), tools=(), calls=(), system=None)
            window = window_of(session) if job.settings[0].window is None else None
            played.append(_Played(str(file), kept, len(session.messages), window, replays))
    return _File(played=played, errors=errors)


def _replay_session(job: Job, setting: Setting, session: RecordedSession, bar: _Bar | None) -> Replay | str:
    """Return the replay of a session with one setting, or the reason why there is none, with the fix."""
    where = "" if len(job.settings) == 1 else f"{setting.name}: "
    try:
        return replay(
            session,
            window=setting.window or window_of(session).tokens,
            settings=setting.settings,
            summarizer=job.summarizer,
            uses_recorded_usage=job.uses_recorded_usage,
            details=job.details,
            on_call=bar.advance if bar is not None else None,
        )
    except ContextOverflowError as error:
        return f"{where}{error}; use a larger --window"
    except ConfigurationError as error:
        return f"{where}{error}; change the options"


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
