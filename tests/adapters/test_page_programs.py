"""The programs of the pages on frameworks, run against the loopback provider. Each runs if its framework is installed."""

import importlib
import json
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
    "openai-agents": (("agents",), 1),
    "migration#openai-agents-sdk": (("agents",), 2),  # directly after it: both use the SDK's own event loop
    "google-adk": (("google.adk", "anthropic"), 1),
    "strands": (("strands", "openai"), 1),
    "agent-framework": (("agent_framework_openai",), 1),
    "native": (("anthropic", "openai"), 2),
    "tracing": (("opentelemetry.trace",), 0),
    "migration#langchain": (("langchain", "langchain_openai"), 2),
    "migration#trim_messages": (("langgraph", "langchain_openai"), 2),
    "migration#deepagents": (("deepagents", "langchain_openai"), 2),
    "migration#pydantic-ai-harness": (("pydantic_ai_harness", "pydantic_ai.models.openai"), 2),
    # Older clients have no `context_management=`.
    "migration#the-providers-own-compaction": (("openai.types.responses.container_auto",), 2),
}
"""By page of docs/, or section of one: what must be installed, and how often its programs call a model."""


RUNNER = """
import ast, asyncio, json, sys
for page, program in json.load(sys.stdin).items():
    print("==", page)
    code = compile(program, f"docs/{page}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    coroutine = eval(code, {"__name__": "page"})
    if coroutine is not None:
        asyncio.run(coroutine)
"""
"""Runs programs that may await at their top level."""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Side]:
    """What the clients of OpenAI and Anthropic reach instead."""
    for module in ("starlette", "uvicorn"):
        pytest.importorskip(module)
    with LoopbackProvider() as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")  # nothing is sent to OpenAI
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.anthropic_url)
        monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # nothing is downloaded
        most = sum(calls for _, calls in PAGES.values())
        yield provider.conversation("none", answers=[Answer("It is ported.")] * most)


def programs(place: str) -> list[str]:
    """Return the programs of a page, or of one of its sections."""
    page, _, anchor = place.partition("#")
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", sections(text)[anchor] if anchor else text, re.DOTALL | re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Return the sections of a page by the anchors of their headings."""
    _, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in parts[::2]]
    return dict(zip(anchors, parts[1::2], strict=True))


def test_the_programs_of_the_pages_run(model: Side) -> None:
    here = {page: calls for page, (modules, calls) in PAGES.items() if all(map(_is_installed, modules))}
    told = json.dumps({page: "\n".join(programs(page)) for page in here})
    done = subprocess.run([sys.executable, "-c", RUNNER], input=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = dict(text.split("\n", 1) for text in done.stdout.split("== ")[1:])
    assert [page for page, calls in here.items() if calls and "It is ported." not in printed[page]] == []
    assert len(model.requests) == sum(here.values())
    assert model.rejections == []


def _is_installed(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def test_every_page_that_shows_an_adapter_is_run() -> None:
    shown = {
        page.stem for page in (ROOT / "docs").glob("*.md") if "compaction_adapters" in "".join(programs(page.stem))
    }
    assert shown - {"recipes", "recipes-services", "stores", "write-an-adapter"} == {
        place.partition("#")[0] for place in PAGES
    }


def test_every_section_of_the_page_on_migration_that_has_programs_is_run() -> None:
    named = sections((ROOT / "docs" / "migration.md").read_text(encoding="utf-8"))
    assert {f"migration#{anchor}" for anchor in named if programs(f"migration#{anchor}")} == {
        place for place in PAGES if place.startswith("migration#")
    }
