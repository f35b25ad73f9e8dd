"""The README's program runs as it is shown, and its two headings begin with one command line."""

import re
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks.replay import read_sessions, replay

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(heading: str, language: str = "") -> list[str]:
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def test_the_program_asks_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("openai", "starlette", "uvicorn"):
        pytest.importorskip(module)
    from tests.provider import Answer, LoopbackProvider

    with LoopbackProvider() as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        model = provider.conversation("none", answers=[Answer("It is ported.")])
        made: dict[str, Any] = {"__name__": "readme"}
        exec(compile(blocks("Use it", "python")[0], "README.md", "exec"), made)
        made["client"].close()
    assert made["answer"].choices[0].message.content == "It is ported."
    assert len(model.requests) == 1


def test_the_sentence_of_value_has_the_figures_of_the_replay_page() -> None:
    """They are what the command prints: a test compares that page with it."""
    printed = " ".join((ROOT / "docs" / "replay.md").read_text(encoding="utf-8").split())
    told = " ".join(README.partition("In this recorded session")[2].partition("\n\n")[0].split())
    calls, unfit, fewer = (re.findall(rf"(\d+) {words}", told)[0] for words in ("calls", "would have been", "% fewer"))
    assert (
        f"{calls} calls in a window of 16k, 6 compactions. Without them {unfit} calls would not have fitted. {fewer} %"
        in printed
    )
    bills = re.findall(r"\$([\d.]+) \(\$([\d.]+) without\)", printed.partition("Cost ")[2].partition("Sizes ")[0])
    saved = sorted(round(100 * (1 - float(ours) / float(without))) for ours, without in bills)
    assert f"falls by {saved[0]} to {saved[-1]} %" in told


def test_the_sentence_of_value_has_the_bill_with_summaries_by_the_model() -> None:
    (session,) = read_sessions(ROOT / "examples" / "session.jsonl")
    costs = replay(session, window=16_000).costs
    growth = [round(100 * ((cost.with_compaction + cost.summaries) / cost.without_compaction - 1)) for cost in costs]
    assert f"between {max(growth)} % higher and {-min(growth)} % lower" in " ".join(README.split())


def test_the_program_that_recalls_runs() -> None:
    made: dict[str, Any] = {}
    exec(compile(blocks("Nothing is out of reach", "python")[0], "README.md", "exec"), made)
    assert made["tool"](query="tables of the parser").startswith("Nothing is left out")
    assert made["passages"] == []


@pytest.mark.parametrize("heading", ["Try it", "Test it"])
def test_each_of_the_two_headings_begins_with_one_command_line(heading: str) -> None:
    assert len(blocks(heading)[0].strip().splitlines()) == 1
