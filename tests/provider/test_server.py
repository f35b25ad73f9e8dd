"""The loopback server starts at once and stops completely; the examples use it as their model."""

import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import httpx

from compaction_hooks.testing import Call
from tests.provider import LoopbackProvider

HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def ask(base_url: str, api_key: str) -> httpx.Response:
    return httpx.post(f"{base_url}/chat/completions", headers={"Authorization": f"Bearer {api_key}"}, json=HELLO)


def test_several_providers_run_beside_one_another_and_stop() -> None:
    with LoopbackProvider() as one, LoopbackProvider() as other:
        one.conversation("key")
        assert one.openai_url != other.openai_url
        assert (ask(one.openai_url, "key").status_code, ask(other.openai_url, "key").status_code) == (200, 401)
        url = one.openai_url
    assert "loopback-provider" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(httpx.ConnectError):
        ask(url, "key")


@pytest.fixture
def endpoint_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import examples/model_endpoint.py; restore `sys.path` afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("MODEL", "API_KEY", "BASE_URL"):
        monkeypatch.delenv(f"COMPACTION_EXAMPLE_{name}", raising=False)
    path = Path(__file__).resolve().parents[2] / "examples" / "model_endpoint.py"
    spec = importlib.util.spec_from_file_location("model_endpoint", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "model_endpoint", module)
    spec.loader.exec_module(module)
    return module


def test_examples_are_offline_by_default(endpoint_module: ModuleType) -> None:
    with endpoint_module.model_endpoint(Call("read_file", {"path": "a"}), "I have read it.") as endpoint:
        assert endpoint.is_offline
        first, second = (ask(endpoint.base_url, endpoint.api_key).json()["choices"][0]["message"] for _ in range(2))
    assert first["tool_calls"][0]["function"] == {"name": "read_file", "arguments": '{"path": "a"}'}
    assert second["content"] == "I have read it."


def test_examples_use_the_model_that_the_environment_names(
    endpoint_module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPACTION_EXAMPLE_MODEL", "local-model")
    monkeypatch.setenv("COMPACTION_EXAMPLE_API_KEY", "secret")
    with endpoint_module.model_endpoint("unused") as endpoint:
        assert endpoint == endpoint_module.ModelEndpoint(
            "https://api.openai.com/v1", "secret", "local-model", is_offline=False
        )
    monkeypatch.setenv("COMPACTION_EXAMPLE_BASE_URL", "http://127.0.0.1:1/v1")
    with endpoint_module.model_endpoint() as endpoint:
        assert endpoint.base_url == "http://127.0.0.1:1/v1"
