"""The programs in examples/ run offline, each where its framework is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NEEDS = {
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


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_runs(name: str) -> None:
    for module in NEEDS[name]:
        pytest.importorskip(module, exc_type=ImportError)
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_every_example_of_an_adapter_is_run() -> None:
    found = {path.stem for path in EXAMPLES.glob("*.py") if "compaction_adapters" in path.read_text(encoding="utf-8")}
    assert found - {"record_session"} == set(NEEDS)
