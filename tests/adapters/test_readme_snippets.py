"""The README's program for each framework, run as far as it goes without a model. Each runs where its framework is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"

SNIPPETS = {
    "LangGraph": ("langgraph", "langchain_openai"),
    "LangChain": ("langchain", "langchain_openai"),
    "pydantic-ai": ("pydantic_ai", "pydantic_ai.models.openai"),
    "LiteLLM": ("litellm",),
    "tinyagent": ("tinyagent",),
}
"""By heading: what must be installed."""


def snippet(heading: str) -> str:
    """The first program under a heading."""
    section = README.read_text(encoding="utf-8").partition(f"### {heading}\n")[2]
    return section.partition("```python\n")[2].partition("```")[0]


@pytest.mark.parametrize("heading", SNIPPETS)
def test_a_snippet_is_short(heading: str) -> None:
    assert 0 < len(snippet(heading).splitlines()) < 15


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
