"""The session in examples/ is what its script records, and a valid conversation that is long enough to be worth replaying."""

import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.validity import problems

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SESSION = EXAMPLES / "session.jsonl"

ENOUGH_CHARACTERS = 120_000
"""At three characters a token, 40k tokens: a 16k window (compacted above 12.3k, to at most 7.4k) fills up more than three times."""

RECORD: dict[str, Any] = json.loads(SESSION.read_text(encoding="utf-8"))
MESSAGES: list[dict[str, Any]] = RECORD["messages"]


@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("tinyagent") is None, reason="needs tinyagent")
def test_recording_again_gives_the_same_bytes(tmp_path: Path) -> None:
    again = tmp_path / "session.jsonl"
    subprocess.run([sys.executable, str(EXAMPLES / "record_session.py"), str(again)], check=True, capture_output=True)
    assert again.read_bytes() == SESSION.read_bytes()


def test_is_one_record_on_one_line() -> None:
    assert SESSION.read_text(encoding="utf-8").count("\n") == 1
    assert {"id", "model", "domain", "harness", "license", "messages", "tools", "probes"} == set(RECORD)


def test_the_conversation_is_valid_for_every_provider() -> None:
    pieces = [piece for message in MESSAGES for piece in OpenAIChatFormat().read(message)]
    assert problems(pieces) == []
    assert [piece.role for piece in pieces].index("system") == 0
    assert sum(len(piece.calls) for piece in pieces) > 100


def test_is_long_enough_to_be_compacted_three_times_in_a_16k_window() -> None:
    characters = sum(
        len(message["content"]) + sum(len(call["function"]["arguments"]) for call in message.get("tool_calls", ()))
        for message in MESSAGES
    )
    assert characters > ENOUGH_CHARACTERS


def test_has_parallel_calls_errors_and_interruptions_by_the_user() -> None:
    assert max(len(message.get("tool_calls", ())) for message in MESSAGES) >= 3
    assert sum(message.get("is_error", False) for message in MESSAGES) >= 5
    outcomes = [message["content"].rsplit("\n", 1)[-1] for message in MESSAGES if message.get("name") == "run_tests"]
    assert outcomes.count("exit code 1") >= 5
    assert outcomes[-1] == "exit code 0"
    assert any(before["role"] == "tool" and after["role"] == "user" for before, after in itertools.pairwise(MESSAGES))


def test_evidence_of_every_probe_holds_its_answer() -> None:
    for probe in RECORD["probes"]:
        told = "".join(json.dumps(MESSAGES[index], ensure_ascii=False) for index in probe["evidence"]).casefold()
        answers = probe["answer"] if isinstance(probe["answer"], list) else [probe["answer"]]
        for answer in answers:
            assert json.dumps(answer.removeprefix("/project/"), ensure_ascii=False)[1:-1].casefold() in told
    kinds = [probe["kind"] for probe in RECORD["probes"]]
    assert {"first_request", "last_request", "files_modified", "constraint", "entity"} <= set(kinds)


def test_names_no_machine_and_no_temporary_folder() -> None:
    text = SESSION.read_text(encoding="utf-8")
    for trace in ("/tmp", "/home/", "/Users/", "site-packages", "0x"):
        assert trace not in text
