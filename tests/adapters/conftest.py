"""The provider that adapters' tests talk to, and the stage of the tests of LangChain and LangGraph, if these are installed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.adapters.langchain_core_stage import Stage
    from tests.provider import LoopbackProvider

MODELS = ("langchain_openai", "langchain_anthropic", "starlette", "uvicorn")
NEEDS = {
    "test_langchain_core": (*MODELS, "langgraph"),
    "test_langchain": (*MODELS, "langchain"),
    "test_langgraph": (*MODELS, "langgraph"),
}
"""By the beginning of a file's name: the modules without which it is not collected."""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    needs = next((needs for start, needs in NEEDS.items() if collection_path.name.startswith(start)), ())
    return None if all(map(find_spec, needs)) else True


@pytest.fixture(scope="module")
def provider() -> Iterator[LoopbackProvider]:
    from tests.provider import LoopbackProvider

    with LoopbackProvider() as running:
        yield running


@pytest.fixture
async def stage(provider: LoopbackProvider, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    from tests.adapters.langchain_core_stage import Stage

    made = Stage(provider, request.node.name.encode("ascii", "replace").decode())
    yield made
    await made.close()
