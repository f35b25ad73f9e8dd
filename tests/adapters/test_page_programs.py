"""The programs of the pages on frameworks, run against the loopback provider. Each runs if its framework is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.provider import Answer, LoopbackProvider, Side

ROOT = Path(__file__).resolve().parents[2]

PAGES = {
    "langgraph": (("langgraph", "langchain_openai"), 3),
    "langchain": (("langchain", "langchain_openai"), 2),
    "pydantic-ai": (("pydantic_ai", "pydantic_ai.models.openai"), 2),
    "litellm": (("litellm",), 1),
    "tinyagent": (("tinyagent", "tinyagent._alchemy"), 1),  # older wheels have no client of their own
    "tracing": (("opentelemetry.trace",), 0),
}
"""By page of docs/: what must be installed, and how often its programs call a model."""


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
