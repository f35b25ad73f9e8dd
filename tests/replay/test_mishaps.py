"""Mishaps of the command: paths, numbers, the output, Ctrl-C. Each gives one line and an exit code, never a traceback."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("rich", reason="needs the extra cli")

import compaction_hooks
from compaction_hooks.command import batch
from compaction_hooks.command.__main__ import main
from compaction_hooks.replay import ReplayError, read_sessions
from tests.cases import folded, sampled, sampled_rows
from tests.replay.samples import long_conversation, short_conversation, write, write_sessions

Capture = pytest.CaptureFixture[str]
FULL_DISK = Path("/dev/full")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_sessions(tmp_path / "session.jsonl", short_conversation())


def command(*arguments: object, output: Path | None = None) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "compaction_hooks.command", "replay", *map(str, arguments)]
    if output is None:
        return subprocess.run(line, capture_output=True, text=True, check=False)
    with output.open("w") as stream:
        return subprocess.run(line, stdout=stream, stderr=subprocess.PIPE, text=True, check=False)


# -- paths and numbers


@folded("name", {"a name": "a" * 300, "a path": "a/" * 3_000})
def test_a_name_too_long_for_the_system_is_told(name: str, capsys: Capture) -> None:
    assert main(["replay", name]) == 2
    shown = f"<path of {len(str(Path(name))):,} characters>"
    assert capsys.readouterr().err == f"error: {shown}: cannot be read (File name too long); " + (
        "check the path and its permissions\n"
    )


@pytest.mark.parametrize("inside", [False, True], ids=["itself", "a file in it"])
def test_a_folder_one_may_not_enter_is_told(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Root may enter any folder, so the system's refusal is simulated."""
    path = tmp_path / "closed" / ("session.jsonl" if inside else "")

    def refuse(self: Path, **_: object) -> object:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", refuse)
    assert main(["replay", str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path}: cannot be read (Permission denied); " + (
        "check the path and its permissions\n"
    )


@folded("digits", ["9" * 400, "9" * 5_000, "9" * 13, f"1.{'9' * 400}e5"])
def test_a_window_of_hundreds_of_digits_is_refused_in_a_short_line(digits: str, capsys: Capture) -> None:
    assert main(["replay", "session.jsonl", "--window", digits]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: Invalid value for '--window': '{digits[:40]}' is no number of tokens")
    assert len(said) < 200


HUGE = 10**400


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@folded(
    "model, counts, note",
    {
        "more read from the cache than sent": (
            "gpt-5.5",
            {"prompt_tokens": 100, "cache_read_tokens": 500},
            ["1 token count with more cached than input: left out"],
        ),
        "more written to the cache than sent": (
            "claude-sonnet-5",
            {"prompt_tokens": 100, "cache_read_tokens": 60, "cache_write_tokens": 60},
            ["1 token count with more cached than input: left out"],
        ),
        "hundreds of digits": ("gpt-5.5", {"prompt_tokens": HUGE, "completion_tokens": HUGE}, []),
        "hundreds of digits in an answer": ("m1", {"prompt_tokens": 9_000, "completion_tokens": HUGE}, []),
    },
)
def test_counts_of_a_file_that_cannot_be_true_are_left_out(
    model: str, counts: dict[str, int], note: list[str], tmp_path: Path, capsys: Capture
) -> None:
    recorded = {"usage": [{"index": 2, **counts}], "compactions": [{"index": 2, "trigger": "auto", "pre_tokens": HUGE}]}
    file = write_sessions(tmp_path / "s.jsonl", short_conversation(), model=model, **recorded)
    write_sessions(tmp_path / "t.jsonl", short_conversation(), model=model)
    for options in (["check", "--max-cents", "40", "--allow-unmeasured"], ["replay", "--usage"]):
        assert main([*options, str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["replay", "--json", str(file)]) == 0
    (found,) = json.loads(capsys.readouterr().out, parse_constant=refuse_constant)["sessions"]
    assert found["notes"] == note
    assert found["costs"][0]["with_compaction"] < 1


LINES = 1_000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param(json.dumps({"level": "info", "text": "served"}), "not a session of a kind", id="objects"),
        pytest.param("served at 12:00", "not JSON; give a session file", id="text"),
        pytest.param("17", "a number instead of an object", id="numbers"),
    ],
)
def test_a_long_log_that_is_no_session_is_refused_at_once(line: str, problem: str, tmp_path: Path) -> None:
    """The limit is 300 functions a line; reading each line anew for the lines after it would call thousands."""
    log = tmp_path / "service.log"
    log.write_text(f"{line}\n" * LINES, encoding="utf-8")
    called = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with pytest.raises(ReplayError, match=re.escape(problem)):
            list(read_sessions(log))
    finally:
        sys.setprofile(before)
    assert called < 300 * LINES


# -- the output


@pytest.mark.skipif(not FULL_DISK.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", sampled([[], ["--json"], ["--help"]], 1))
def test_a_full_disk_is_told(options: list[str], file: Path) -> None:
    done = command(file, *options, output=FULL_DISK)
    assert done.stderr == "error: the output cannot be written (No space left on device)\n"
    assert done.returncode == 1


def test_the_bar_fits_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(batch, "PROGRESS_AFTER_SECONDS", -1.0)
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    file = write_sessions(tmp_path / f"{'long-name-' * 20}.jsonl", short_conversation())
    assert main(["replay", str(file)]) == 0
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", capsys.readouterr().err))
    shown = [line for line in lines if line]
    assert shown
    assert max(map(len, shown)) <= 80
    assert all(line.startswith("…") and ".jsonl " in line and line.endswith("/2 calls") for line in shown)


# -- Ctrl-C


class InterruptAt:
    def __init__(self, calls: int) -> None:
        self._left = calls

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt


def run_and_interrupt(arguments: Sequence[str], calls: int) -> int:
    before = sys.getprofile()
    gc.disable()  # it calls functions of hypothesis, and Python drops an error in those
    sys.setprofile(InterruptAt(calls))
    try:
        return main(arguments)
    finally:
        sys.setprofile(before)
        gc.enable()


@folded("calls", [2, 20, 200, 1_000, 3_000, 7_000, 20_000, 40_000, 60_000])
def test_ctrl_c_at_any_moment_costs_one_line(calls: int, tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "session.jsonl", long_conversation())
    assert run_and_interrupt(["replay", str(file), "--window", "8k"], calls) == 130
    assert capsys.readouterr().err == "interrupted\n"


SCRIPT = "import sys\nfrom compaction_hooks.command.__main__ import main\nsys.exit(main())\n"
"""As installers write it to the file `compaction-hooks`."""


def interrupt_at_import(started: Sequence[str], module: str, nth: int = 1) -> tuple[int, list[str]]:
    """Start a command, press Ctrl-C as soon as a module is imported for the nth time in any of its processes; return the exit code
    and what it wrote to standard error.
    """
    running = subprocess.Popen(
        [sys.executable, "-X", "importtime", *started],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A suite that runs in the background of a script ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert running.stderr is not None
    with running:
        for told in running.stderr:
            nth -= told.rpartition("|")[2].strip() == module
            if nth == 0:
                os.killpg(running.pid, signal.SIGINT)  # as a terminal does, to all processes
                break
        said = [told for told in running.stderr if not told.startswith("import time:")]
    return running.returncode, said


@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
@pytest.mark.parametrize(
    ("started", "module"),
    sampled_rows(
        [
            (["compaction-hooks"], "compaction_hooks.errors"),
            (["compaction-hooks"], "genai_prices.data"),
            (["-m", "compaction_hooks"], "typer"),
            (["-m", "compaction_hooks"], "compaction_hooks.errors"),
            (["-m", "compaction_hooks.command"], "compaction_hooks"),
        ],
        2,
    ),
)
def test_ctrl_c_in_the_middle_of_the_imports_costs_one_line(
    started: list[str], module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_sessions(tmp_path / "session.jsonl", long_conversation(60))
    write(tmp_path / "compaction-hooks", SCRIPT)
    monkeypatch.chdir(tmp_path)
    assert interrupt_at_import([*started, "replay", str(file), "--window", "8k"], module) == (130, ["interrupted\n"])


def test_other_programs_keep_their_ctrl_c() -> None:
    program = (
        "import signal; before = signal.getsignal(2); import compaction_hooks; print(signal.getsignal(2) is before)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "True\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
@pytest.mark.skipif(os.cpu_count() == 1, reason="needs two processors")
def test_ctrl_c_while_other_processes_begin_costs_one_line(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        write_sessions(tmp_path / name, *[long_conversation(60)] * 8)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) > batch.PARALLEL_BYTES
    started = ["-m", "compaction_hooks", "replay", str(tmp_path), "--window", "8k"]
    assert interrupt_at_import(started, "compaction_hooks.errors", nth=2) == (130, ["interrupted\n"])


# -- the version, the help, the ways to start it


def test_the_version_is_that_of_the_package_however_it_is_started(capsys: Capture) -> None:
    version = f"compaction-hooks {compaction_hooks.__version__}\n"
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == version
    started = subprocess.run([sys.executable, "-m", "compaction_hooks", "--version"], capture_output=True, text=True)
    assert (started.stdout, started.stderr, started.returncode) == (version, "", 0)


# -- without the extra


@pytest.mark.parametrize("package", ["rich", "typer"])
def test_without_the_extra_it_says_how_to_install_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "compaction_hooks.command.app", raising=False)
    monkeypatch.delitem(sys.modules, "compaction_hooks.command.terminal", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["replay", "session.jsonl"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: compaction-hooks needs rich and typer: pip install 'compaction-hooks[cli]'\n"


def test_a_module_of_our_own_that_is_missing_is_not_blamed_on_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compaction_hooks.command.app", None)
    with pytest.raises(ModuleNotFoundError, match=r"command\.app"):
        main(["replay", "session.jsonl"])
