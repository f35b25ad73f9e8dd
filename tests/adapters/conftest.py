"""The modules that each framework's tests need, and the stage of a test: its side of the provider, with models that talk to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.provider import LoopbackProvider

LANGCHAIN = ("langchain_openai", "langchain_anthropic", "starlette", "uvicorn")
NEEDS = {
    "test_langchain_core": (*LANGCHAIN, "langgraph"),
    "test_langchain": (*LANGCHAIN, "langchain"),
    "test_langgraph": (*LANGCHAIN, "langgraph"),
    "test_litellm": ("litellm", "tokenizers", "starlette", "uvicorn"),  # its wheel alone is there for its rank files
    "test_pydantic_ai": ("pydantic_ai", "openai", "anthropic", "starlette", "uvicorn"),
    "test_tinyagent": ("tinyagent", "starlette", "uvicorn"),
    "test_openai_agents": ("agents", "starlette", "uvicorn"),
    "test_google_adk": ("google.adk", "starlette", "uvicorn"),
    "test_strands": ("strands", "anthropic", "google.genai", "openai", "starlette", "uvicorn"),
    "test_agent_framework": ("agent_framework", "agent_framework_openai", "starlette", "uvicorn"),
    "test_anthropic": ("anthropic", "starlette", "uvicorn"),
    "test_openai.py": ("openai", "starlette", "uvicorn"),
    "test_otel": ("opentelemetry", "opentelemetry.sdk"),
    "test_postgres": ("psycopg", "psycopg_pool"),
    "test_recipes": ("starlette", "uvicorn"),
    "test_redis": ("redis",),
    "test_overflow_clients": ("openai", "anthropic", "starlette", "uvicorn"),
}
"""By the beginning of a file's name: the modules without which it is not collected."""
STAGES = {
    "test_litellm": "litellm_stage",
    "test_pydantic_ai": "pydantic_ai_stage",
    "test_tinyagent": "tinyagent_stage",
    "test_openai_agents": "openai_agents_stage",
    "test_google_adk": "google_adk_stage",
    "test_strands": "strands_stage",
    "test_agent_framework": "agent_framework_stage",
}
"""By the beginning of a file's name: the module of its stage."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    needs = next((needs for start, needs in NEEDS.items() if collection_path.name.startswith(start)), ())
    return None if all(map(_is_installed, needs)) else True


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


@pytest.fixture
async def stage(provider: LoopbackProvider, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    name = next(
        (stage for start, stage in STAGES.items() if request.path.name.startswith(start)), "langchain_core_stage"
    )
    module: Any = import_module(f"tests.adapters.{name}")
    made = module.Stage(provider, request.node.name.encode("ascii", "replace").decode())
    yield made
    await made.close()
