import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("rich", reason="needs the extra cli")

from compaction_hooks import CompactionSettings, Summary, SummaryRequest
from compaction_hooks.command import app, batch
from compaction_hooks.replay import Limits, RecordedSession, judge, read_sessions, replay
from tests.cases import folded, sampled_rows
from tests.conversations import assistant, prose, system, user
from tests.damaged_summaries import PRICED, WINDOW, WISH, needy_conversation, without_names
from tests.replay.samples import KINDS, OLD_FILE, OLD_ORDER, long_conversation, short_conversation, write_sessions

Capture = pytest.CaptureFixture[str]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
DAMAGES = "tests.damaged_summaries"
LIMITS = ("--min-kept", 0.6, "--max-lost-constraints", 0)
no_function = "text"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_sessions(tmp_path / "needy.jsonl", needy_conversation(), model=PRICED)


def run(*arguments: object) -> int:
    return app.run(["check", *map(str, arguments)])


def cents_of_the_default_summary(file: Path) -> float:
    (session,) = read_sessions(file)
    _, finding = judge(replay(session, window=WINDOW), Limits(max_cents=0))
    assert finding.measured is not None
    return finding.measured


# -- sessions


def test_the_default_summary_passes(file: Path, capsys: Capture) -> None:
    most = 1.0005 * cents_of_the_default_summary(file)
    assert run(file, "--window", WINDOW, *LIMITS, "--max-cents", most) == 0
    assert capsys.readouterr().out == "1 session, 2 compactions: 1 passed, 0 failed\n"


@folded(
    "damage, limit, words",
    {
        "names are lost": (
            "without_names --max-cents 99",
            "min-kept",
            f"kept 0 of 2 names .*; lost at call 22: {OLD_ORDER}, {OLD_FILE}",
        ),
        "the user's words are lost": (
            "without_wishes --keep 5k --max-cents 99",  # then nothing of the target is left for the user's older messages
            "max-lost-constraints",
            f"lost 1 of 1 .*; lost at call 15: '{WISH}'",
        ),
        "too much of the conversation": (
            "talkative",
            "max-cents",
            f"by {PRICED}'s prices, .* \\(27 calls, 2 compactions",
        ),
        "longer than allowed": ("ten_times_as_long", "summarizer", "3 failures; the first at call 15: .* 1000 tokens"),
        "a part is missing": (
            "down_after_its_first_part",
            "summarizer",
            "failures?; the first at call 15: ConnectionError",
        ),
    },
)
def test_a_damaged_summary_fails_and_the_loss_is_named(
    damage: str, limit: str, words: str, file: Path, capsys: Capture
) -> None:
    most = 1.0005 * cents_of_the_default_summary(file)
    name, *more = damage.split()
    options = (*LIMITS, "--max-cents", most, "--allow-unmeasured", "--summarizer", f"{DAMAGES}:{name}", *more)
    assert run(file, "--window", WINDOW, *options) == 1
    failure, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(f"{re.escape(str(file))}, session s1: {limit} failed: .*{words}.*", failure)
    assert "0 passed, 1 failed" in last


def test_a_call_that_does_not_fit_fails_under_any_limit(tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "s.jsonl", [system(), user(prose(9_500)), assistant("Too long.")])
    assert run(file, "--window", "8k", "--max-lost-constraints", 99) == 1
    assert "session s1: fits failed: 1 call could not be made to fit the window of 8k" in capsys.readouterr().out


def test_a_limit_that_is_not_measured_fails_unless_that_is_allowed(tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "s.jsonl", short_conversation())
    assert run(file, "--max-cents", 40) == 1
    assert "max-cents not measured: no price of the recorded model is known" in capsys.readouterr().out
    assert run(file, "--max-cents", 40, "--allow-unmeasured") == 0
    assert capsys.readouterr().out == (
        "1 session, 0 compactions: 1 passed, 0 failed; 1 limit not measured; "
        "nothing was compacted, a smaller --window shows more\n"
    )


@pytest.mark.parametrize(
    ("options", "settings"),
    sampled_rows(
        [
            (["--trigger", "3k"], CompactionSettings(trigger_tokens=3_000)),
            (["--trigger", "50%"], CompactionSettings(trigger_ratio=0.5)),
            (["--keep", "4k"], CompactionSettings(keep_recent_tokens=4_000)),
            (["--reserve", "100"], CompactionSettings(reserve_tokens=100)),
        ],
        2,
    ),
)
def test_options_become_settings(
    options: list[str], settings: CompactionSettings, tmp_path: Path, capsys: Capture
) -> None:
    file = write_sessions(tmp_path / "s.jsonl", [*long_conversation(15), *needy_conversation()])
    (session,) = read_sessions(file)
    plain, changed = (len(replay(session, window=8_000, settings=each).compactions) for each in (None, settings))
    assert plain != changed
    run(file, "--max-lost-constraints", 0, "--window", "8k", *options)
    assert f"1 session, {changed} compactions: " in capsys.readouterr().out


def test_the_window_is_that_of_the_recorded_model(tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "s.jsonl", needy_conversation(), model="gpt-4")  # 8,192 tokens
    run(file, "--max-lost-constraints", 0)
    assert "1 session, 3 compactions: " in capsys.readouterr().out


# -- files


def test_all_files_of_a_folder_are_checked_and_a_bad_one_outweighs_a_failure(file: Path, capsys: Capture) -> None:
    large = [system(prose(12_000)), user("Hello?"), assistant("Hello.")]
    write_sessions(file.with_name("a.jsonl"), large, short_conversation())
    file.with_name("bad.jsonl").write_text("bad")
    damage = ("--summarizer", f"{DAMAGES}:without_names")
    assert run(file.parent, file.parent / "missing", "--window", WINDOW, *LIMITS, *damage) == 2
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "2 sessions, 2 compactions: 1 passed, 1 failed; 3 errors"
    first, *others = said.err.splitlines()
    assert re.fullmatch(r"error: \S+a\.jsonl: session s1: the system prompt takes .*; use a larger --window", first)
    assert [line.split(":")[1].rpartition("/")[2] for line in others] == ["bad.jsonl, line 1", "missing"]


def test_a_folder_without_sessions_is_no_success(tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, *LIMITS) == 2
    said = capsys.readouterr()
    assert said.out == "0 sessions, 0 compactions: 0 passed, 0 failed; 1 error\n"
    assert said.err == f"error: {tmp_path}: no session in it; name the folder of your agent's sessions\n"


SESSION = json.dumps({"id": "s1", "messages": short_conversation()})
CLAUDE_CODE = next(kind for kind in KINDS if kind.name == "claude-code")
LOG = CLAUDE_CODE.text(CLAUDE_CODE.records(3))
NO_SESSION = {"id": "s2", "turns": short_conversation()}
ASKED = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Hello?"}]}
ANSWERED = {"kind": "response", "parts": [{"part_kind": "text", "content": "Hello."}]}
DUMPED = [{"type": kind, "data": {"content": "Hello."}} for kind in ("human", "ai")]
UNREAD: dict[str, tuple[str | bytes, str]] = {
    "broken.jsonl": (LOG.replace("\n", '\n{"type": "assi\n', 1), "not read whole: line 2: not JSON: "),
    "bytes.jsonl": (
        SESSION.encode().replace(b"folder", b"f\xfflder"),
        "not read whole: line 1: bytes that are not UTF-8",
    ),
    "cut.json": (json.dumps(json.loads(SESSION), indent=1)[:-99], "not read whole: line 29: not JSON from"),
    "cut.jsonl": (LOG[:-60], "not read whole: line 12: cut off: "),
    "cut.jsonl.gz": (gzip.compress(LOG.encode())[:-40], "not read whole: the gzip file is cut off: "),
    "message.jsonl": (
        json.dumps({"messages": [*short_conversation(), {"role": "assistant", "content": 17}]}),
        "not read whole: line 1, message 5: ",
    ),
    "list_of_lists.jsonl": (
        json.dumps({"messages": [DUMPED, None]}),
        "not read whole: 1 session in which no model answers;",
    ),
    "null_block.json": (
        json.dumps([*short_conversation(), {"role": "assistant", "content": [None]}]),
        "not read whole: line 1, message 5: an entry of no kind;",
    ),
    "null_call.json": (
        json.dumps(
            {
                "sessionId": "s1",
                "projectHash": "p",
                "messages": [{"type": "gemini", "content": "a", "toolCalls": [None]}],
            }
        ),
        "not read whole: message 0: an entry of no kind;",
    ),
    "null_parts.json": (
        json.dumps({"messages": [{"kind": "request", "parts": None}, ANSWERED]}),
        "not read whole: message 0: an entry of no kind;",
    ),
    "null_turn.jsonl": (
        f'{{"messages": [{json.dumps(ANSWERED)}]}}\n{{"messages": [{json.dumps(ASKED)}, null]}}\n',
        "not read whole: 1 session in which no model answers;",
    ),
    "one_of_two.JSONL": (f"{SESSION}\n{json.dumps(NO_SESSION)}\n", "not read whole: line 2: an object without "),
    "other.ndjson": (json.dumps(NO_SESSION), ", line 1: not a session of a kind this command knows; "),
    "unanswered.jsonl": (json.dumps({"messages": [user("Hello?")]}), "no model has answered in it ("),
}
"""By file name, a content that a viewer is lenient with, and what a gate says of it."""
UNREAD_SESSIONS = len(UNREAD) - 2
"""The last two have none; the others have one each."""


def test_a_file_that_is_not_read_whole_is_an_error_of_a_check_and_a_line_of_the_viewers(
    tmp_path: Path, capsys: Capture
) -> None:
    folder, report = tmp_path / "sessions", tmp_path / "report.xml"
    folder.mkdir()
    folder.joinpath("a.jsonl").write_text(SESSION)
    for name, (content, _) in UNREAD.items():
        folder.joinpath(name).write_bytes(content if isinstance(content, bytes) else content.encode())

    assert run(folder, *LIMITS, "--allow-unmeasured", "--junit", report) == 2
    said = capsys.readouterr()
    all_read = UNREAD_SESSIONS + 1
    assert f"{all_read} sessions, 0 compactions: {all_read} passed, 0 failed; {len(UNREAD)} errors" in said.out
    lines = said.err.splitlines()
    for line, (name, (_, reason)) in zip(lines, sorted(UNREAD.items()), strict=True):
        assert line.startswith(f"error: {folder / name}")
        assert reason in line
    errors = [str(each.get("message")) for each in ElementTree.parse(report).iter("error")]
    assert [f"error: {error}" for error in errors] == lines
    files = [Path(case.get("file", "")).name for case in ElementTree.parse(report).iter("testcase") if len(case)]
    assert files == sorted(UNREAD)

    gaps = (
        "2 files left out, without a session or an answer of a model: other.ndjson, unanswered.jsonl",
        f"{UNREAD_SESSIONS} files not read whole (see the notes): broken.jsonl, bytes.jsonl, cut.json, ...",
    )
    assert app.run(["replay", str(folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(gap in shown for gap in gaps)
    assert app.run(["report", str(folder), "-o", str(tmp_path / "report.html")]) == 0
    assert capsys.readouterr().err.splitlines() == list(gaps)
    assert app.run(["replay", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Path(name).name for name in found["ignored"]] == ["other.ndjson", "unanswered.jsonl"]
    assert sum(bool(session["unread"]) for session in found["sessions"]) == UNREAD_SESSIONS


def test_a_mistake_of_a_reader_is_the_error_of_its_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def read(path: Path) -> Iterator[RecordedSession]:
        if "bad" in path.name:
            raise IndexError("list index out of range")
        return read_sessions(path)

    monkeypatch.setattr(batch, "read_sessions", read)
    for name in ("a", "bad", "bad folder/inner", "c"):
        tmp_path.joinpath(name).parent.mkdir(exist_ok=True)
        write_sessions(tmp_path / f"{name}.jsonl", short_conversation())
    assert run(tmp_path, *LIMITS, "--allow-unmeasured") == 2
    said = capsys.readouterr()
    assert "2 sessions, 0 compactions: 2 passed, 0 failed; 2 errors" in said.out
    assert said.err.splitlines() == [
        f"error: {tmp_path / name}: its reader broke off with IndexError; take it out, and please report this"
        for name in ("bad folder", "bad.jsonl")
    ]


# -- JUnit


def test_junit_has_a_case_for_each_limit_of_each_session(file: Path, capsys: Capture) -> None:
    write_sessions(file.with_name("bad\x1b.jsonl"), short_conversation(), id="\x07 \ud800 1")
    file.with_name("broken.jsonl").write_text("bad")
    report = file.parent / "new" / "report.xml"
    options = ("--window", WINDOW, "--min-kept", 0.6, "--max-cents", 1, "--junit", report)
    assert run(file, file.with_name("bad\x1b.jsonl"), file.with_name("broken.jsonl"), *options) == 2
    (suite,) = ElementTree.parse(report).getroot()
    counts = {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")}
    assert counts == {
        "name": "compaction-hooks check",
        "tests": "7",
        "failures": "2",
        "errors": "1",
        "skipped": "0",
    }
    cases = [(Path(case.get("classname", "")).name, case.get("name"), [each.tag for each in case]) for case in suite]
    assert cases == [
        ("needy.jsonl", "s1: fits", []),
        ("needy.jsonl", "s1: min_kept", []),
        ("needy.jsonl", "s1: max_cents", ["failure"]),
        ("bad?.jsonl", "? ? 1: fits", []),
        ("bad?.jsonl", "? ? 1: min_kept", []),
        ("bad?.jsonl", "? ? 1: max_cents", ["failure"]),
        ("broken.jsonl", "replay", ["error"]),
    ]
    failures = [(each.get("type"), each.get("message"), each.text) for each in suite.iter("failure")]
    assert [kind for kind, _, _ in failures] == ["failed", "not measured"]
    assert all(message == text and text for _, message, text in failures)
    assert str(failures[0][2]) in capsys.readouterr().out


def test_junit_skips_what_may_stay_unmeasured(tmp_path: Path) -> None:
    file, report = write_sessions(tmp_path / "s.jsonl", short_conversation()), tmp_path / "report.xml"
    assert run(file, "--max-cents", 1, "--allow-unmeasured", "--junit", report) == 0
    (suite,) = ElementTree.parse(report).getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    assert [case.get("name") for case in suite if case.find("skipped") is not None] == ["s1: max_cents"]


def test_a_report_that_cannot_be_written_is_told(file: Path, capsys: Capture) -> None:
    assert run(file, *LIMITS, "--junit", file / "report.xml") == 2
    said = capsys.readouterr()
    assert said.out.startswith("1 session, ")
    assert said.err.startswith(f"error: {file / 'report.xml'} cannot be written (")


# -- options


@folded(
    "options, problem",
    {
        "no limit": ([], "Invalid value: no limit is given; give --min-kept, --max-cents or --max-lost-constraints"),
        "a share above one": (["--min-kept", "60"], "Invalid value for '--min-kept': "),
        "window": (
            [*LIMITS, "--window", "much"],
            "Invalid value for '--window': 'much' is no number of tokens above zero",
        ),
        "small window": (
            [*LIMITS, "--window", "9"],
            "Invalid value for '--window': '9' is below the smallest window of",
        ),
        "trigger": (
            [*LIMITS, "--trigger", "101%"],
            "Invalid value for '--trigger': '101%' is no part of the window; write 60%",
        ),
        "keep above the trigger": (
            [*LIMITS, "--trigger", "2k", "--keep", "3k"],
            "Invalid value: keep_recent_tokens=3000 is above trigger_tokens=2000",
        ),
        "two windows": (
            [*LIMITS, "--window", "8k,16k"],
            "Invalid value: this takes one --window, --trigger and --keep; compare several with replay",
        ),
        "no module": (
            [*LIMITS, "--summarizer", "nowhere:f"],
            "Invalid value: --summarizer nowhere:f cannot be imported (ModuleNotFoundError: No module named 'nowhere')",
        ),
        "no name": (
            [*LIMITS, "--summarizer", DAMAGES],
            f"Invalid value: --summarizer {DAMAGES} cannot be imported (AttributeError",
        ),
        "no function": (
            [*LIMITS, "--summarizer", f"{__name__}:no_function"],
            f"Invalid value: --summarizer {__name__}:no_function is no function",
        ),
    },
)
def test_bad_options_get_one_line_and_exit_code_2(
    options: list[object], problem: str, file: Path, capsys: Capture
) -> None:
    assert run(file, *options) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: {problem}")
    assert said.err.endswith("(see compaction-hooks check --help)\n")


def test_a_summarizer_is_found_in_the_present_folder(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file.with_name("my_summaries.py").write_text("def summarize(request):\n    raise RuntimeError('no credit\\a')\n")
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr("sys.path", [*sys.path])
    own, report = ("--summarizer", "my_summaries:summarize"), file.with_name("report.xml")
    assert run(file, "--window", WINDOW, *LIMITS, "--allow-unmeasured", *own, "--junit", report) == 1
    assert "summarizer failed: 3 failures; the first at call 15: RuntimeError: no credit" in capsys.readouterr().out
    (failure,) = ElementTree.parse(report).iter("failure")
    assert failure.text == "3 failures; the first at call 15: RuntimeError: no credit?"


def test_a_module_that_exits_is_no_success(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    file.with_name("my_script.py").write_text("import sys\n\nsys.exit(0)\n")
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr("sys.path", [*sys.path])
    assert run(file, *LIMITS, "--summarizer", "my_script:summarize") == 2
    assert "--summarizer my_script:summarize cannot be imported (SystemExit: 0)" in capsys.readouterr().err


class Uncopied:
    """A summarizer that can be written for another process, and not read there."""

    def __call__(self, request: SummaryRequest) -> Summary:
        return without_names(request)

    def __getstate__(self) -> dict[str, int]:
        return {"connection": 3}

    def __setstate__(self, state: dict[str, int]) -> None:
        raise OSError("bad file descriptor")


uncopied = Uncopied()


def test_a_summarizer_that_no_other_process_can_get_is_asked_in_this_one(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(batch, "PARALLEL_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    write_sessions(file.with_name("other.jsonl"), needy_conversation())
    assert run(file.parent, "--window", WINDOW, "--min-kept", 0.6, "--summarizer", f"{__name__}:uncopied") == 1
    assert "2 sessions, 4 compactions: 0 passed, 2 failed" in capsys.readouterr().out


# -- the page


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = re.findall(r"^(?: *- (?:run: )?)?compaction-hooks check (sessions/ .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    Path("sessions").mkdir()
    write_sessions(Path("sessions", "s.jsonl"), needy_conversation(), model=PRICED)
    assert [run(*command.split()) for command in commands] == [0, 0, 0]
    assert Path("report.xml").is_file()


@pytest.mark.full
def test_the_page_shows_the_output_of_its_command(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    found = re.search(r"`compaction-hooks check (examples/[^`]*)` prints .*?```\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    monkeypatch.chdir(ROOT)
    assert run(*found[1].split()) == 1
    assert capsys.readouterr().out.split() == found[2].split()
