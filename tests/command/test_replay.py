import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="needs the extra cli")
pytest.importorskip("rich", reason="needs the extra cli")

from typer.testing import CliRunner

from compaction_hooks import CompactionSettings
from compaction_hooks.command import app, batch
from compaction_hooks.command.terminal import clean
from compaction_hooks.replay import read_sessions, replay
from compaction_hooks.replay.numbers import short
from tests.cases import folded, sampled
from tests.conversations import above_threshold, assistant, prose, steps, system, talk, user
from tests.data import DATA, needs_data
from tests.replay.samples import (
    KINDS,
    OLD_ORDER,
    Kind,
    forgetful_conversation,
    long_conversation,
    short_conversation,
    write,
    write_sessions,
)

Capture = pytest.CaptureFixture[str]

PROBE = {"kind": "entity", "question": "Which order?", "answer": OLD_ORDER, "evidence": [3]}
SHAPE_OF_JSON = Path(__file__).resolve().parents[1] / "fixtures" / "replay_json.json"
BETWEEN = [*steps(2, 100), *talk(24, 250)]
TOO_LARGE = [system(prose(9_500)), user("Hello?"), assistant("Hello.")]


@pytest.fixture(autouse=True)
def terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "130")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a session that is compacted several times at 8k."""
    return write_sessions(
        tmp_path / "session.jsonl", forgetful_conversation(between=BETWEEN), probes=[PROBE], model="m1"
    )


def run(*arguments: object) -> int:
    return app.run(["replay", *map(str, arguments)])


# -- printed report


def test_the_first_lines_tell_the_outcome_then_plot_table_and_findings_follow(file: Path, capsys: Capture) -> None:
    assert run(file, "--window", "8k") == 0
    said = capsys.readouterr().out
    (done,) = (replay(session, window=8_000) for session in read_sessions(file))
    saving = f"{done.totals.saving * 100:.0f} %"
    assert said.splitlines()[1].startswith(f"Compaction makes {done.overflows_without} calls fit")
    assert (
        f"29 calls in a window of 8k, {len(done.compactions)} compactions. "
        f"Without them {done.overflows_without} calls would not have fitted. {saving} fewer tokens sent."
    ) in said
    for expected in (
        "window 8k",
        "trigger 6k",
        "context sent",
        "kept word",
        "Tokens sent",
        "1 of 1 probes can be answered",
        "s1 (OpenAI chat messages, m1, 60 messages)",
        "estimates",
    ):
        assert expected in said
    rows = [line.split()[:5] for line in said.splitlines() if " threshold " in line]
    assert rows == [
        [
            str(each.call),
            "threshold",
            short(each.tokens_before),
            short(each.tokens_after),
            str(each.summarized_messages),
        ]
        for each in done.compactions
    ]


def test_compactions_inside_the_window_are_told_as_such(tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "s.jsonl", [*above_threshold(), user("Well?"), assistant("Done.")])
    run(file, "--window", "8192")
    assert "1 compaction. Without it every call would have fitted too." in capsys.readouterr().out


def test_a_session_that_fits_says_so_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    run(write_sessions(tmp_path / "s.jsonl", short_conversation()))
    said = capsys.readouterr().out
    assert "Compaction saves nothing here: no call came near the window." in said
    assert "2 calls, the largest with" in said
    assert "in a window of 200k." in said
    assert "trigger" not in said


def test_calls_that_do_not_fit_are_named(tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "s.jsonl", [system(), user(prose(9_500)), assistant("Too long.")])
    assert run(file, "--window", "8k") == 0
    said = capsys.readouterr().out
    assert "1 call in a window of 8k, 0 compactions. 1 call could not be made to fit." in said
    assert "first call 1: the conversation cannot be made to fit 8,000 tokens" in said


def test_summaries_are_shown_on_request_only_and_a_pipe_gets_no_colours(file: Path, capsys: Capture) -> None:
    run(file, "--window", "8k")
    assert "## " not in capsys.readouterr().out
    run(file, "--window", "8k", "--summary")
    said = capsys.readouterr()
    assert "[Conversation summary]" in said.out
    assert "\x1b" not in said.out
    assert said.err == ""


def test_many_sessions_begin_with_the_outcome_and_a_table_with_sums(tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "s.jsonl", forgetful_conversation(), short_conversation(), probes=[PROBE])
    run(file, file, "--window", "8k")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("All 4 sessions ---")
    assert said[1].startswith("Compaction makes ")
    rows = [line.split() for line in said if line.startswith(("s1 ", "s2 ", "all "))]
    assert [row[:2] for row in rows] == [["s1", "15"], ["s1", "15"], ["s2", "2"], ["s2", "2"], ["all", "34"]]
    assert int(rows[-1][2]) == 2 * int(rows[0][2])
    assert not [line for line in said if "┤" in line], "the reports of single sessions are shown on demand"
    run(file, file, "--window", "8k", "--details")
    assert "┤" in capsys.readouterr().out


@pytest.mark.parametrize("columns", sampled([80, 140], 1))
def test_settings_are_compared_in_one_table_with_advice(
    columns: int, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    run(file, "--window", "6k,8k,auto", "--keep", "1k,2k")
    said = capsys.readouterr().out
    rows = [" ".join(line.split()[:2]) for line in said.splitlines() if re.match(r"(?:6k|8k|auto), ", line)]
    assert rows == [f"{window}, {keep}" for window in ("6k", "8k", "auto") for keep in ("1k", "2k")]
    assert "\nwindow, keep " in said
    assert "no compaction" in said
    assert re.search(r"^Safest(?: and cheapest)?: window ", said, re.MULTILINE)
    assert "compac-" in said


def test_the_same_session_again_is_no_record_that_was_lost(
    file: Path, tmp_path: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    again = tmp_path / "again.jsonl"
    again.write_bytes(file.read_bytes())
    assert run(file, again, "--window", "8k,12k") == 0
    assert "once more" not in caplog.text


def test_settings_that_a_session_cannot_have_are_left_out(tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "s.jsonl", forgetful_conversation(), system=prose(7_000))
    assert run(file, "--window", "6k,16k,32k", "--json") == 2
    said = capsys.readouterr()
    assert [each["setting"] for each in json.loads(said.out)["settings"]] == ["window 16k", "window 32k"]
    assert "session s1: window 6k: the system prompt takes about" in said.err
    other = write_sessions(tmp_path / "t.jsonl", forgetful_conversation())
    assert run(file, other, "--window", "6k,16k,32k", "--json") == 2
    found = json.loads(capsys.readouterr().out)
    assert [each["total"]["sessions"] for each in found["settings"]] == [1, 1, 1], "compared on the same sessions"


def test_a_trigger_is_a_part_of_the_window_or_a_number_of_tokens(file: Path, capsys: Capture) -> None:
    run(file, "--window", "8k", "--trigger", "50%,3k", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [session["trigger"] for session in found["sessions"]] == [4_000, 3_000]
    assert [each["setting"] for each in found["settings"]] == ["trigger 50%", "trigger 3k"]
    assert [line.partition(" ")[0] for line in found["advice"].splitlines()] in (["Safest"], ["Safest:", "Cheapest:"])


@folded(
    "options",
    {
        "one setting": ["--window", "1M"],
        "several settings": ["--window", "500k,1M"],
        "another option": ["--window", "1M", "--reserve", "100k"],
    },
)
def test_where_nothing_is_compacted_a_command_is_told_that_shows_something(
    options: list[str], file: Path, capsys: Capture
) -> None:
    write_sessions(file.with_name("it's short.jsonl"), short_conversation())
    write_sessions(file.with_name("it's long.jsonl"), *[long_conversation(30)] * 2)
    run(file.parent, *options)
    said = capsys.readouterr().out
    told = re.search(r"^To see compactions: compaction-hooks replay (.+)$", said, re.MULTILINE)
    assert told is not None
    is_shown = re.search(
        r"^Nothing is compacted\. In a window of [\d.]+k, 60 % of the largest call:$", said, re.MULTILINE
    )
    assert bool(is_shown) is ("--reserve" not in options)  # sizes for one window say nothing about another
    run(*shlex.split(told[1]), "--json")
    found = json.loads(capsys.readouterr().out)
    assert [Path(session["file"]).name for session in found["sessions"]] == ["it's long.jsonl"] * 2
    assert all(session["compactions"] for session in found["sessions"])


def test_no_command_is_told_for_sessions_that_no_window_is_too_small_for(tmp_path: Path, capsys: Capture) -> None:
    run(write_sessions(tmp_path / "s.jsonl", short_conversation()))
    assert "To see compactions" not in capsys.readouterr().out


@folded(
    "model, window, why",
    {
        "a known model": ("claude-opus-4-5-20251101", 200_000, "200k, that of claude-opus-4-5-20251101"),
        "a small one": ("gpt-4o", 128_000, "128k, that of gpt-4o"),
        "an unknown one": ("m1", 200_000, "200k, since that of m1 is unknown"),
        "none": (None, 200_000, "200k, since the recording names no model"),
    },
)
def test_the_window_is_that_of_the_recorded_model(
    model: str | None, window: int, why: str, tmp_path: Path, capsys: Capture
) -> None:
    file = write_sessions(tmp_path / "s.jsonl", short_conversation(), **({"model": model} if model else {}))
    run(file)
    assert why in " ".join(capsys.readouterr().out.split())
    run(file, "--json")
    assert json.loads(capsys.readouterr().out)["sessions"][0]["window"] == window


def test_of_many_sessions_the_largest_are_shown(tmp_path: Path, capsys: Capture) -> None:
    file = write_sessions(tmp_path / "s.jsonl", *[short_conversation()] * 24, forgetful_conversation())
    run(file)
    said = capsys.readouterr().out
    assert "in windows of 200k, since no recorded model is known." in said
    rows = [line.split()[0] for line in said.splitlines() if re.match(r"s\d+ ", line)]
    assert (rows[0], len(rows)) == ("s25", 20)
    assert "... 5 smaller ones" in said
    run(file, "--details")
    assert len([line for line in capsys.readouterr().out.splitlines() if re.match(r"s\d+ ", line)]) == 25


# -- folders and standard input


def test_a_folder_is_searched_for_sessions(tmp_path: Path, capsys: Capture) -> None:
    for folder in (tmp_path / "a", tmp_path / "b" / "c"):
        folder.mkdir(parents=True)
    write_sessions(tmp_path / "a" / "s.jsonl", short_conversation())
    write_sessions(tmp_path / "b" / "c" / "s.jsonl", forgetful_conversation())
    write_sessions(tmp_path / "b" / "c" / "events.jsonl", short_conversation())
    write(tmp_path / "b" / "package.json", '{"name": "other"}')
    write(tmp_path / "b" / "notes.txt", "no session")
    write_sessions(tmp_path / "empty.jsonl", [user("Hello?")])
    assert run(tmp_path, "--window", "8k") == 0
    said = capsys.readouterr().out
    assert "All 3 sessions" in said
    assert "2 files left out, without a session or an answer of a model: package.json, empty.jsonl" in said.replace(
        "\n", " "
    )


def test_a_folder_without_sessions_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    write(tmp_path / "package.json", '{"name": "other"}')
    assert run(tmp_path) == 2
    assert "no session in it (1 other file); name the folder of your agent's sessions" in capsys.readouterr().err


def test_a_session_is_read_from_standard_input(file: Path) -> None:
    command = [sys.executable, "-m", "compaction_hooks.command", "replay", "-"]
    shown = subprocess.run(command, input=file.read_bytes(), capture_output=True, check=True).stdout.decode()
    assert "s1 (OpenAI chat messages, m1, 60 messages)" in shown
    assert "To see compactions: compaction-hooks replay - --window " in shown


def test_many_files_are_replayed_in_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for number in range(3):
        write_sessions(tmp_path / f"{number}.jsonl", forgetful_conversation(), id=f"session {number}")
    write(tmp_path / "3.jsonl", *['{"messages": []}'])
    assert run(tmp_path, tmp_path / "missing", "--window", "8k", "--json") == 2
    alone = capsys.readouterr()
    monkeypatch.setattr(batch, "PARALLEL_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert run(tmp_path, tmp_path / "missing", "--window", "8k", "--json") == 2
    assert capsys.readouterr() == alone


@pytest.mark.parametrize("columns", sampled([60, 80, 120], 1))
def test_no_line_is_wider_than_the_terminal(
    columns: int, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    run(file, file, "--window", "8k", "--summary")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= columns


def test_nothing_from_a_file_steers_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\ud83d"
    conversation = [system(), user(evil), *long_conversation()[2:]]
    file = write_sessions(tmp_path / "s.jsonl", conversation, model=evil, probes=[{**PROBE, "kind": evil}])
    assert run(file, "--window", "8k", "--summary") == 0
    assert "\x1b" not in capsys.readouterr().out
    assert clean(f"a\tb\n{evil}") == "a\tb\n?[2J?]0;owned??"
    named = write_sessions(tmp_path / "named.jsonl", short_conversation(), id="[trimmed] :bug:")
    run(named, named)
    assert capsys.readouterr().out.count("[trimmed] :bug:") == 2


def test_help_names_the_options() -> None:
    shown = CliRunner().invoke(app.app, ["replay", "--help"], env={"COLUMNS": "100"}).stdout
    for option in (
        "--window",
        "--trigger",
        "--keep",
        "--reserve",
        "--details",
        "--summary",
        "--usage",
        "--json",
        "FILE",
    ):
        assert option in shown
    assert "FILE...}" not in shown, "the files are named once"


# -- settings


@folded(
    "options, settings",
    {
        "keep": (["--keep", "1k"], CompactionSettings(keep_recent_tokens=1_000)),
        "reserve": (["--reserve", "500"], CompactionSettings(reserve_tokens=500)),
        "defaults": ([], CompactionSettings()),
    },
)
def test_options_become_settings(options: list[str], settings: CompactionSettings, file: Path, capsys: Capture) -> None:
    run(file, "--window", "8k", "--json", *options)
    (session,) = read_sessions(file)
    found = json.loads(capsys.readouterr().out)["sessions"][0]
    done = replay(session, window=8_000, settings=settings)
    assert (found["trigger"], [call["tokens_sent"] for call in found["calls"]]) == (
        done.trigger,
        [call.tokens_sent for call in done.calls],
    )


def test_recorded_usage_is_used_on_request(tmp_path: Path, capsys: Capture) -> None:
    usage = [{"index": 2, "prompt_tokens": 5_000, "completion_tokens": 5}]
    file = write_sessions(tmp_path / "s.jsonl", forgetful_conversation(), usage=usage)
    run(file, "--window", "8k")
    assert "the controller's own estimates" in capsys.readouterr().out
    run(file, "--window", "8k", "--usage")
    assert "what the provider counted up to the first compaction" in capsys.readouterr().out


# -- JSON


def shape(value: object) -> object:
    """Return the types in a JSON value; the first element of a list represents all."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_json_keeps_its_fields(tmp_path: Path, capsys: Capture) -> None:
    """Programs read it, so fields may be added but not renamed."""
    conversation = [*forgetful_conversation(between=BETWEEN), user(prose(9_500)), assistant("Too long.")]
    file = write_sessions(
        tmp_path / "s.jsonl",
        conversation,
        model="m1",
        probes=[PROBE],
        compactions=[{"index": 5, "pre_tokens": 3_000, "trigger": "auto"}],
    )
    file.write_text(file.read_text() + "broken\n")
    run(file, tmp_path / "missing", "--window", "8k", "--json", "--keep", "1k")
    found = json.loads(capsys.readouterr().out)
    assert shape(found) == json.loads(SHAPE_OF_JSON.read_text())


# -- sessions of every kind


def test_skipped_lines_of_another_agents_session_are_named(tmp_path: Path, capsys: Capture) -> None:
    """A broken line, and two results without tool calls."""
    (kind,) = (kind for kind in KINDS if kind.name == "codex")
    lines = kind.text(kind.records(3)).splitlines()
    orphan = {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c9", "output": "?"}}
    lines[5:5] = [json.dumps(orphan), '{"type": "response_it', json.dumps(orphan)]
    rollout = write(tmp_path / "rollout.jsonl", *lines)
    notes = ['line 7: not JSON: \'{"type": "response_it\'', "lines 6, 8: a result without its call"]
    assert run(rollout) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "s (Codex rollout, 12 messages)" in said
    assert f"Notes {'; '.join(notes)}" in said
    assert run(rollout, "--json") == 0
    (session,) = json.loads(capsys.readouterr().out)["sessions"]
    assert (session["format"], session["messages"], session["notes"]) == ("Codex rollout", 12, notes)


@pytest.mark.parametrize("kind", sampled(KINDS, 2), ids=lambda kind: kind.name)
def test_a_session_of_every_kind_is_compacted(kind: Kind, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "session"
    path.write_text(kind.text(kind.records(28)))
    assert run(path, "--window", "2k", "--json") == 0
    (session,) = json.loads(capsys.readouterr().out)["sessions"]
    assert session["compactions"]
    assert session["unfit"] == []
    assert all(call["tokens_sent"] <= 2_000 for call in session["calls"])


# -- errors


@folded(
    "arguments, problem",
    {
        "missing": (["nowhere.jsonl"], "nowhere.jsonl: there is no such file; check the path"),
        "system prompt too large": (
            ["large", "--window", "8k"],
            "large: session s1: the system prompt takes about N of 8,000 tokens; use a larger --window",
        ),
    },
)
def test_a_bad_file_gets_one_line_and_exit_code_2(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    write_sessions(Path("large"), TOO_LARGE)
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.sub(r"about [\d,]+", "about N", said.err) == f"error: {problem}\n"


@folded(
    "arguments, problem",
    {
        "words": (["--window", "much"], "Invalid value for '--window': 'much' is no number of tokens above zero"),
        "zero": (["--window", "0"], "Invalid value for '--window': '0' is no number of tokens above zero; write 16k"),
        "negative": (["--window", "-5"], "Invalid value for '--window': '-5' is no number of tokens"),
        "tiny": (["--window", "1000"], "Invalid value for '--window': '1000' is below the smallest window of"),
        "keep": (["--keep", "x"], "Invalid value for '--keep': 'x' is no number of tokens"),
        "keep above the window": (
            ["--window", "8k,16k", "--keep", "10k"],
            "Invalid value for '--keep': 10k is above the window of 8k; keep less",
        ),
        "trigger": (["--trigger", "150%"], "Invalid value for '--trigger': '150%' is no part of the window; write 60%"),
        "trigger without a sign": (
            ["--trigger", "60"],
            "Invalid value for '--trigger': '60' is below 1,024 tokens; write 100k, or 60% for a part",
        ),
        "trigger above the window": (
            ["--window", "8k", "--trigger", "9k"],
            "Invalid value for '--trigger': 9k is above the window of 8k; lower it",
        ),
        "trigger in words": (["--trigger", "most%"], "Invalid value for '--trigger': 'most%' is no part of the window"),
        "nothing behind a comma": (["--window", "8k,"], "Invalid value for '--window': nothing is no number of tokens"),
        "reserve": (["--reserve", "k"], "Invalid value for '--reserve': 'k' is no number of tokens"),
        "unknown option": (["--windows", "5"], "No such option"),
        "no value": (["--window"], "Option '--window' requires an argument"),
        "no file": ([], "Missing argument 'FILE'"),
    },
)
def test_bad_options_get_one_line_and_exit_code_2(arguments: list[str], problem: str, capsys: Capture) -> None:
    assert run(*(["session.jsonl"] if arguments else []), *arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: {problem}")
    assert said.err.endswith("(see compaction-hooks replay --help)\n")
    assert said.err.count("\n") == 1


def test_the_other_files_are_replayed_all_the_same(tmp_path: Path, file: Path, capsys: Capture) -> None:
    mixed = write_sessions(tmp_path / "mixed.jsonl", TOO_LARGE, short_conversation())
    assert run("nowhere", mixed, file, "--window", "8k") == 2
    said = capsys.readouterr()
    assert "31 calls in windows of 8k." in said.out
    assert [line.split(":")[1].strip() for line in said.err.splitlines()] == ["nowhere", str(mixed)]


@pytest.mark.parametrize("options", [[], pytest.param(["--json"], marks=pytest.mark.full)])
def test_a_reader_that_goes_away_ends_it_quietly(options: list[str], tmp_path: Path) -> None:
    file = write_sessions(tmp_path / "s.jsonl", short_conversation())
    command = [sys.executable, "-m", "compaction_hooks.command", "replay", str(file), *options]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_characters_that_the_terminal_lacks_and_log_lines_disturb_nothing(tmp_path: Path) -> None:
    file = write_sessions(tmp_path / "s.jsonl", [user(prose(9_500)), assistant("Too long.")], model="模型")
    command = [sys.executable, "-m", "compaction_hooks.command", "replay", str(file), "--window", "8k"]
    ascii_terminal = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=ascii_terminal, check=True)
    assert "1 call could not be made to fit" in done.stdout
    assert "s1 (OpenAI chat messages, ??, 2 messages)" in done.stdout
    assert done.stderr == ""


# -- the bar


def test_long_work_on_a_terminal_shows_a_bar_that_goes_away(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(batch, "PROGRESS_AFTER_SECONDS", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    run(file, "--json")
    said = capsys.readouterr()
    assert "29 calls" in re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", said.err)
    assert said.err.endswith("\x1b[?25h\r\x1b[1A\x1b[2K"), "the cursor is back and the bar's line is empty"
    json.loads(said.out)


# -- real files


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("kind", ["claude_code", "pi"])
def test_real_session_files_are_replayed(kind: str, capsys: Capture) -> None:
    files = sorted((DATA / "native" / kind).glob("*.jsonl"))
    assert run(*files, "--window", "128k") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert re.search(r"^All \d+ sessions -", said.out, re.MULTILINE)
