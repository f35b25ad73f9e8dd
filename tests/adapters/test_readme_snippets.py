"""The programs of README.md, run as far as they go without a model, and those of each framework's page, run against the loopback
provider. Each runs where its framework is installed.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.provider import Answer, LoopbackProvider, Side

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"

SNIPPETS = {
    "LangGraph": ("langgraph", "langchain_openai"),
    "LangChain": ("langchain", "langchain_openai"),
    "pydantic-ai": ("pydantic_ai", "pydantic_ai.models.openai"),
    "LiteLLM": ("litellm",),
    "tinyagent": ("tinyagent",),
}
"""By heading of README.md: what must be installed."""

PAGES = {
    "langgraph": (SNIPPETS["LangGraph"], 3),
    "langchain": (SNIPPETS["LangChain"], 2),
    "pydantic-ai": (SNIPPETS["pydantic-ai"], 2),
    "litellm": (SNIPPETS["LiteLLM"], 1),
    "tinyagent": (("tinyagent", "tinyagent._alchemy"), 1),  # older wheels have no client of their own
    "tracing": (("opentelemetry.trace",), 0),
}
"""By page of docs/: what must be installed, and how often its programs call a model."""


def snippet(heading: str) -> str:
    """The first program under a heading."""
    section = README.read_text(encoding="utf-8").partition(f"### {heading}\n")[2]
    return section.partition("```python\n")[2].partition("```")[0]


@pytest.mark.parametrize("heading", SNIPPETS)
def test_a_snippet_is_short(heading: str) -> None:
    assert 0 < len([line for line in snippet(heading).splitlines() if line]) < 15


@pytest.mark.parametrize("heading", SNIPPETS)
def test_a_snippet_runs(heading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in SNIPPETS[heading]:
        pytest.importorskip(module, exc_type=ImportError)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    made: dict[str, Any] = {"__name__": "readme"}
    exec(compile(snippet(heading), str(README), "exec"), made)
    assert "compaction_adapters" in snippet(heading)
    if "graph" in made:
        assert "compact" in made["graph"].compile().get_graph().nodes


# -- the pages

RUNNER = """
import ast, asyncio, sys
code = compile(sys.stdin.read(), sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
coroutine = eval(code, {"__name__": "page"})
if coroutine is not None:
    asyncio.run(coroutine)
"""
"""Runs a program that may await at its top level."""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Side]:
    """What OpenAI's clients reach instead of OpenAI."""
    for module in ("starlette", "uvicorn"):
        pytest.importorskip(module)
    with LoopbackProvider() as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # nothing is downloaded
        yield provider.conversation("none", answers=[Answer("It is ported.")] * 3)


def test_the_program_with_the_model_call_inside_runs(model: Side) -> None:
    pytest.importorskip("openai")
    program = README.read_text(encoding="utf-8").split("With the model call inside", 1)[1]
    made: dict[str, Any] = {"__name__": "readme"}
    exec(compile(program.partition("```python\n")[2].partition("```")[0], str(README), "exec"), made)

    async def asked() -> Any:
        async with made["client"]:
            return await made["ask"]([{"role": "user", "content": "Port the parser."}])

    answer = asyncio.run(asked())
    assert answer.choices[0].message.content == "It is ported."
    assert len(model.requests) == 1


def programs(page: str) -> list[str]:
    """The programs of a page, in their order."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_a_pages_programs_run(page: str, model: Side) -> None:
    """Each goes on where the one before it ended, as they are read; in a process of their own, as users have it."""
    modules, calls = PAGES[page]
    for module in modules:
        pytest.importorskip(module, exc_type=ImportError)
    command = [sys.executable, "-c", RUNNER, f"docs/{page}.md"]
    done = subprocess.run(command, input="\n".join(programs(page)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "It is ported." in done.stdout or not calls
    assert len(model.requests) == calls
    assert model.rejections == []


def test_every_page_that_shows_an_adapter_is_run() -> None:
    """The pages of stores and of adapters to be written have tests of their own."""
    shown = {
        page.stem for page in (ROOT / "docs").glob("*.md") if "compaction_adapters" in "".join(programs(page.stem))
    }
    assert shown - {"stores", "write-an-adapter"} == set(PAGES)
