"""Two checkouts play the same conversations: are their views, lists to store, records and sizes the same?

    python -m tests.benchmarks.differential BEFORE AFTER
    python -m tests.benchmarks.differential BEFORE AFTER --lives 20 --runs 10
    python -m tests.benchmarks.differential BEFORE AFTER --show life-12-gemini

For changes of structure, which change no behaviour. The conversations are those of `tests.rehearsal` in all dialects, of
`tests.sealed_runs` and of `tests.native_runs`. The columns count the runs whose sides differ in a view that is sent, in a list to
store, in a record apart from its sizes, in a size, or in a line of the log, which has the decisions; and those with a broken
promise, after which a life goes on, or with an error, which ends it. The command fails if something differs.

Both sides play the conversations of the checkout that this file is in, with the package of their own: so an older checkout may lack
a dialect, and a test that changed is no difference. If these tests cannot be played with the package of the other checkout, run
this file in that one.
"""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial, partialmethod
from hashlib import sha256
from itertools import zip_longest
from logging import DEBUG, Handler, LogRecord, getLogger
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, TypeAlias, get_args
from weakref import WeakKeyDictionary

from compaction_hooks import CompactionController, CompactionSession, CompactionSettings
from compaction_hooks.testing import BrokenPromise
from tests.benchmarks.tables import print_table
from tests.conversations import Clock
from tests.dialects import DIALECTS, Dialect
from tests.native_runs import KINDS, NativeRun
from tests.rehearsal import WINDOWS, Rehearsal
from tests.sealed_runs import BINDING, HIDDEN, Run

ROOT = Path(__file__).resolve().parents[2]
ACTIONS, SEALED_STEPS, NATIVE_STEPS = 70, 30, 24
"""Actions of a life, and steps of a run."""
NEAR = 300
"""Characters shown on either side of a difference."""

Kind: TypeAlias = Literal["view", "stored", "record", "size", "log"]
Note: TypeAlias = Callable[[Kind, object], None]


class Play(NamedTuple):
    """A conversation to play.

    Attributes:
        group: Its row of the table.
        play: Plays it; returns the broken promises.
    """

    group: str
    name: str
    play: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Played:
    """A conversation as one side played it.

    Attributes:
        entries: What was noted, in its order: the kind, and a text or its digest.
        faults: The broken promises and the error that ended it.
    """

    group: str
    name: str
    entries: Sequence[tuple[Kind, str]]
    faults: Sequence[str]

    def of(self, kind: Kind) -> list[str]:
        return [text for its_kind, text in self.entries if its_kind == kind]


# -- one side


def plays(lives: int, runs: int) -> Iterator[Play]:
    """Yield the conversations: so many lives, and so many runs of each model and kind."""
    for seed in range(lives):
        dialect = DIALECTS[seed % len(DIALECTS)]
        name = dialect.format.name
        yield Play(f"life {name}", f"life-{seed}-{name}", partial(live, seed, dialect))
    for model in (BINDING, HIDDEN):
        for seed in range(runs):
            yield Play(f"sealed {model}", f"sealed-{seed}-{model}", partial(run_sealed, seed, model))
    for kind in KINDS:
        for seed in range(runs):
            yield Play(f"native {kind.__name__}", f"native-{seed}-{kind.__name__}", partial(run_native, seed, kind))


def live(seed: int, dialect: Dialect) -> list[str]:
    """Play the life of a host that begins in a dialect; return the broken promises."""
    choose = Random(seed).randrange
    settings = CompactionSettings(
        clear_tool_results=choose(3) > 0,
        max_result_tokens=(None, None, 300)[choose(3)],
        merge_user_messages=choose(5) == 0,
        repair=choose(8) == 0,
    )
    host = Rehearsal(WINDOWS[choose(len(WINDOWS))], settings=settings, dialect=dialect)
    broken: list[str] = []
    for _ in range(ACTIONS):
        try:
            host.act(choose)
        except BrokenPromise as promise:
            broken.append(str(promise))
    return broken


def run_sealed(seed: int, model: str) -> list[str]:
    """Play an agent whose provider signs its reasoning."""
    run = Run(seed, model)
    run.steps(SEALED_STEPS)
    return []


def run_native(seed: int, kind: Callable[[int], NativeRun]) -> list[str]:
    """Play an agent whose provider compacts by itself; return the broken promises."""
    run = kind(seed)
    run.steps(NATIVE_STEPS)
    return run.faults


def watch_sessions(note: Note) -> None:
    """Let every session of this process note what its public methods return, and the records and sizes after them.

    Time stands still, so that no date in a record depends on the machine.
    """
    known = WeakKeyDictionary[CompactionSession[Any], set[str]]()
    transform, recover = CompactionSession.transform_context_sync, CompactionSession.recover_sync
    call, compact = CompactionSession.call_sync, CompactionSession.compact_sync

    def note_state(session: CompactionSession[Any]) -> None:
        for record in session.records:
            if record.id not in known.setdefault(session, set()):
                known[session].add(record.id)
                fields = record.to_dict()
                note("size", [fields.pop(name, None) for name in ("tokens_before", "tokens_after", "calibration")])
                note("record", fields)
        state = session.state()  # its sizes alone: a checkout may tell more than the other
        note("size", [state.context_tokens, state.context_window, state.trigger_tokens, state.compaction_count])

    def note_view(session: CompactionSession[Any], view: list[Any]) -> list[Any]:
        note("view", view)
        note("stored", session.to_store(view))
        note_state(session)
        return view

    def call_noted(session: CompactionSession[Any], messages: list[Any], send: Any, *rest: Any, **options: Any) -> Any:
        try:
            return call(session, messages, lambda view: send(note_view(session, view)), *rest, **options)
        finally:
            note_state(session)

    def compact_noted(session: CompactionSession[Any], *arguments: Any, **options: Any) -> Any:
        result = compact(session, *arguments, **options)
        note("stored", result.messages)
        note_state(session)
        return result

    patched: Any = CompactionSession
    patched.transform_context_sync = lambda self, *rest, **options: note_view(self, transform(self, *rest, **options))
    patched.recover_sync = lambda self, *rest, **options: note_view(self, recover(self, *rest, **options))
    patched.call_sync, patched.compact_sync = call_noted, compact_noted
    hooks: Any = CompactionController
    hooks.__init__ = partialmethod(hooks.__init__, clock=Clock())


class LogNotes(Handler):
    """Notes the lines of the package's log."""

    def __init__(self, note: Note) -> None:
        super().__init__()
        self._note = note
        logger = getLogger("compaction_hooks")
        logger.setLevel(DEBUG)
        logger.propagate = False
        logger.addHandler(self)

    def emit(self, record: LogRecord) -> None:
        self._note("log", record.getMessage())


def play_side(options: Namespace) -> None:
    """Play all conversations with the package of this process; print each as a line of JSON."""
    entries: list[tuple[Kind, str]] = []

    def note(kind: Kind, value: object) -> None:
        text = json.dumps(value, default=repr)
        entries.append((kind, text if options.show else sha256(text.encode()).hexdigest()[:16]))

    watch_sessions(note)
    LogNotes(note)
    for group, name, play in plays(options.lives, options.runs):
        if not any(fnmatchcase(name, pattern) for pattern in options.only):
            continue
        entries.clear()
        try:
            faults = play()
        except Exception as error:  # noqa: BLE001 - the package of a side may raise anything
            faults = [f"ended by {type(error).__name__}: {error}"]
        print(json.dumps([group, name, entries, faults]), flush=True)


# -- both sides


def play_checkout(checkout: Path, options: Namespace) -> list[Played]:
    """Play all conversations in a process with the package of a checkout."""
    with TemporaryDirectory() as folder:
        # The process finds the package in its folder, and the tests in this checkout.
        (Path(folder) / "compaction_hooks").symlink_to(checkout.resolve() / "compaction_hooks")
        command = [sys.executable, "-m", "tests.benchmarks.differential", "--play", *sys.argv[1:]]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=False
        )
    if done.returncode:
        sys.exit(f"{checkout}: the conversations could not be played, see above")
    return [Played(*json.loads(line)) for line in done.stdout.splitlines()]


def find_kinds(before: Played, after: Played) -> list[str]:
    """Return the kinds in which two sides of a run differ."""
    differing = [kind for kind in get_args(Kind) if before.of(kind) != after.of(kind)]
    return differing if before.faults == after.faults else [*differing, "fault"]


def compare(before: Sequence[Played], after: Sequence[Played]) -> Mapping[str, Sequence[str]]:
    """Print the table; return the kinds in which runs differ, by their names."""
    groups: dict[str, list[tuple[Played, Played, list[str]]]] = {}
    for one, other in zip(before, after, strict=True):
        groups.setdefault(one.group, []).append((one, other, find_kinds(one, other)))

    rows = []
    for group, pairs in groups.items():
        differing = [kinds for _, _, kinds in pairs if kinds]
        counts = [sum(kind in kinds for kinds in differing) for kind in get_args(Kind)]
        views = sum(len(one.of("view")) for one, _, _ in pairs)
        faulty = sum(bool(one.faults or other.faults) for one, other, _ in pairs)
        rows.append([group, len(pairs), views, len(pairs) - len(differing), *counts, faulty])

    columns = [
        "runs",
        "views",
        "equal",
        "views differ",
        "stored differ",
        "records differ",
        "sizes differ",
        "logs differ",
    ]
    total = ["all", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True))]
    print_table(["workload", *columns, "with faults"], [*rows, total])

    for one, other, _ in [pair for pairs in groups.values() for pair in pairs]:
        for fault in dict.fromkeys([*one.faults[:1], *other.faults[:1]]):  # later ones may follow from it
            print(f"{one.name}: {fault[:NEAR]}")
    return {one.name: kinds for pairs in groups.values() for one, _, kinds in pairs if kinds}


def show_difference(before: Played, after: Played) -> None:
    """Print the first entry in which two sides of a run differ, near the difference."""
    nothing = ("no entry", "")
    for number, (one, other) in enumerate(zip_longest(before.entries, after.entries, fillvalue=nothing)):
        if one != other:
            texts = one[1], other[1]
            at = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
            print(f"{before.name}: entry {number} of {len(before.entries)}, at character {at}")
            for side, (kind, text) in (("before", one), ("after", other)):
                print(f"  {side}, {kind}: ...{text[max(at - NEAR, 0) : at + NEAR]}...")
            return
    print(f"{before.name}: no difference in {len(before.entries)} entries; faults: {before.faults}, {after.faults}")


def main() -> None:
    parser = ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--lives", type=int, default=75, help="how many lives of a host (75)")
    parser.add_argument("--runs", type=int, default=60, help="how many runs of each model and kind (60)")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="only these; patterns as life-1?-*")
    parser.add_argument("--show", metavar="NAME", help="the first difference of this run")
    parser.add_argument("--play", action="store_true", help="play one side; for the command itself")
    options = parser.parse_args()
    if options.show:
        options.only = [options.show]
    if options.play:
        play_side(options)
        return

    with ThreadPoolExecutor(2) as sides:
        before, after = sides.map(lambda checkout: play_checkout(checkout, options), (options.before, options.after))
    if options.show:
        for one, other in zip(before, after, strict=True):
            show_difference(one, other)
        return

    differing = compare(before, after)
    for name, kinds in differing.items():
        print(f"{name} differs: {', '.join(kinds)}")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
