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


def row(begins: str) -> list[str]:
    """Return the cells behind the first of the row of the first table that begins so."""
    (line,) = re.findall(rf"^\| {begins}.*? \| (.*) \|$", README, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def test_the_table_of_value_has_the_figures_of_the_replay_page() -> None:
    """They are what the command prints: a test compares that page with it."""
    printed = " ".join((ROOT / "docs" / "figures" / "replay.md").read_text(encoding="utf-8").split())
    (calls,) = re.findall(r"A recorded session of (\d+) calls in a window of 16k, with 6 compactions", README)
    unfit, fit = row("calls that are too long")
    without, ours = row("tokens sent")
    ((tokens, fewer),) = re.findall(r"^(\S+), (\d+) % fewer$", ours)
    assert (
        f"{calls} calls in a window of 16k, 6 compactions. Without them {unfit} calls would not have fitted. {fewer} %"
        in printed
    )
    assert fit == "0"
    assert f"{tokens} in all calls, {without} without compaction" in printed

    bills = re.findall(r"\$([\d.]+) \(\$([\d.]+) without\)", printed.partition("Cost ")[2].partition("Sizes ")[0])
    saved = sorted(round(100 * (1 - float(with_ours) / float(list_price))) for with_ours, list_price in bills)
    ours_of, list_of = (sorted((pair[at] for pair in bills), key=float) for at in (0, 1))
    assert row("bill, of four models") == [
        f"${list_of[0]} to ${list_of[-1]}",
        f"${ours_of[0]} to ${ours_of[-1]}, {saved[0]} to {saved[-1]} % lower",
    ]

    names, kept = row("names still in the view")
    assert f"of {names} names" in printed
    assert f"had, {kept.split()[0]} stayed in the summary" in printed


def test_the_table_of_value_has_the_bill_with_summaries_by_the_model() -> None:
    (session,) = read_sessions(ROOT / "examples" / "session.jsonl")
    costs = replay(session, window=16_000).costs
    growth = [round(100 * ((cost.with_compaction + cost.summaries) / cost.without_compaction - 1)) for cost in costs]
    assert row("the same, if the model") == ["", f"{max(growth)} % higher to {-min(growth)} % lower"]


def test_the_table_of_value_has_the_shares_of_json_dumps() -> None:
    page = (ROOT / "docs" / "figures" / "benchmarks.md").read_text(encoding="utf-8")
    shares = re.findall(r"^\| \d of [\d,]+ messages \| [\d,]+ \| \d+ \| ([\d.]+) \|", page, re.MULTILINE)
    (halved,) = re.findall(r"([\d.]+ and [\d.]+) of `json\.dumps`", page)
    at_default = halved.replace("and", "to")
    assert row(r"\[own time\]") == ["", f"{shares[0]} to {shares[-1]}; {at_default} with the default threshold"]


@pytest.mark.parametrize("page", ["README.md", "docs/README.md"])
def test_the_first_program_gives_the_list_to_send(page: str) -> None:
    program = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )[0]
    made: dict[str, Any] = {"messages": [{"role": "user", "content": "Port the parser."}]}
    exec(compile(program, page, "exec"), made)
    assert made["view"] is made["messages"]


@pytest.mark.parametrize("heading", ["Try it", "Test it"])
def test_each_of_the_two_headings_begins_with_one_command_line(heading: str) -> None:
    assert len(blocks(heading)[0].strip().splitlines()) == 1
