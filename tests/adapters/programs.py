"""The programs of the pages on frameworks and of examples/, and a process that runs those of the frameworks that are installed."""

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.adapters.migrations import BEFORE
from tests.provider import Answer, LoopbackProvider

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"

PAGES = {
    "langgraph": (("langgraph", "langchain_openai"), 2),
    "langchain": (("langchain", "langchain_openai"), 1),
    "pydantic-ai": (("pydantic_ai", "pydantic_ai.models.openai"), 2),
    "litellm": (("litellm",), 1),
    "tinyagent": (("tinyagent", "tinyagent._alchemy"), 1),  # older wheels have no client of their own
    "openai-agents": (("agents",), 1),
    "migration#openai-agents-sdk": (("agents",), 2),  # directly after it: both use the SDK's own event loop
    "google-adk": (("google.adk", "anthropic"), 1),
    "strands": (("strands", "openai"), 1),
    "agent-framework": (("agent_framework_openai",), 1),
    "native": (("anthropic",), 1),
    "model-summaries": (("anthropic",), 2),
    "tracing": (("opentelemetry.trace",), 0),
    "migration#langchain": (("langchain", "langchain_openai"), 2),
    "migration#trim_messages": (("langgraph", "langchain_openai"), 2),
    "migration#deepagents": (("deepagents", "langchain_openai"), 2),
    "migration#pydantic-ai-harness": (("pydantic_ai_harness", "pydantic_ai.models.openai"), 2),
    # Older clients have no `context_management=`.
    "migration#the-providers-own-compaction": (("openai.types.responses.container_auto",), 2),
}
"""By page of docs/, or section of one: what must be installed, and how often its programs call a model."""

EXAMPLES = {
    "langchain_agent": ("langchain", "langchain_openai"),
    "langgraph_graph": ("langgraph", "langchain_openai"),
    "litellm_completion": ("litellm",),
    "pydantic_ai_agent": ("pydantic_ai.models.openai",),
    "tinyagent_agent": ("tinyagent._alchemy",),
    "openai_agents_agent": ("agents",),
    "google_adk_agent": ("google.adk", "anthropic"),
    "strands_agent": ("strands", "openai"),
    "agent_framework_agent": ("agent_framework_openai",),
}
"""By example: the modules that it imports and no other needs."""

RUNNER = """
import ast, asyncio, json, runpy, sys
told = json.load(sys.stdin)
for page, program in told["pages"].items():
    print("==", page)
    code = compile(program, f"docs/{page}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    coroutine = eval(code, {"__name__": "page"})
    if coroutine is not None:
        asyncio.run(coroutine)
for example, file in told["examples"].items():
    print("==", example)
    runpy.run_path(file, run_name="__main__")
"""
"""Runs programs of pages, which may await at their top level, and then examples."""


def programs(place: str) -> list[str]:
    """Return the programs of a page, or of one of its sections, behind the one with another library that it follows."""
    page, _, anchor = place.partition("#")
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```$", sections(text)[anchor] if anchor else text, re.DOTALL | re.MULTILINE)
    return [BEFORE[anchor], *shown] if shown and anchor else shown


def sections(text: str) -> dict[str, str]:
    """Return the sections of a page by the anchors of their headings."""
    _, *parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in parts[::2]]
    return dict(zip(anchors, parts[1::2], strict=True))


def check_programs(examples: Mapping[str, Sequence[str]]) -> None:
    """Run the pages and these examples in one process: importing the frameworks takes most of its time."""
    pages = {page: calls for page, (modules, calls) in PAGES.items() if all(map(_is_installed, modules))}
    shown = {name: str(FOLDER / f"{name}.py") for name, modules in examples.items() if all(map(_is_installed, modules))}
    told = json.dumps({"pages": {page: "\n".join(programs(page)) for page in pages}, "examples": shown})

    with LoopbackProvider() as provider:
        model = provider.conversation("none", answers=[Answer("It is ported.")] * sum(pages.values()))
        done = subprocess.run(
            [sys.executable, "-c", RUNNER],
            input=told,
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")]),
                "OPENAI_API_KEY": "none",
                "OPENAI_BASE_URL": provider.openai_url,
                "OPENAI_AGENTS_DISABLE_TRACING": "1",  # nothing is sent to OpenAI
                "ANTHROPIC_API_KEY": "none",
                "ANTHROPIC_BASE_URL": provider.anthropic_url,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # nothing is downloaded
            },
        )
    assert done.returncode == 0, done.stderr
    printed = dict(text.split("\n", 1) for text in done.stdout.split("== ")[1:])
    assert [page for page, calls in pages.items() if calls and "It is ported." not in printed[page]] == []
    assert [name for name in shown if not printed[name].strip()] == []
    assert len(model.requests) == sum(pages.values())
    assert model.rejections == []


def _is_installed(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True
