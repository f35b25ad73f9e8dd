from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from compaction_hooks.tokens import windows
from compaction_hooks.tokens.windows import ModelWindow, find_window
from tests.cases import folded

LITELLM = {
    "sample_spec": {"mode": "one of: chat, embedding", "max_input_tokens": "max input tokens, if specified"},
    "gpt-5": {"mode": "chat", "max_input_tokens": 272_000, "max_output_tokens": 128_000},
    "gpt-5.4": {"mode": "chat", "max_input_tokens": 1_050_000, "max_output_tokens": 128_000},
    "gpt-4.1-2025-04-14": {"mode": "chat", "max_input_tokens": 1_047_576},
    "gpt-4o": {"mode": "chat", "max_input_tokens": 128_000},
    "azure/gpt-4o": {"mode": "chat", "max_input_tokens": 64_000},
    "claude-sonnet-4-5": {"mode": "chat", "max_input_tokens": 200_000},
    "Mistral/Large": {"mode": "chat", "max_input_tokens": 131_072},
    "text-embedding-3-small": {"mode": "embedding", "max_input_tokens": 8_191},
    "no-limit": {"mode": "chat", "max_input_tokens": None},
    "words": {"mode": "chat", "max_input_tokens": "32000"},
    "zero": {"mode": "chat", "max_input_tokens": 0},
    "negative": {"mode": "chat", "max_input_tokens": -1},
    "broken": "not an entry",
}
GENAI_PRICES = """
class Model:
    def __init__(self, context_window): self.context_window = context_window
class Snapshot:
    windows = {
        (None, "gpt-5"): 400_000,
        (None, "gpt-4o"): 128_000,
        ("azure", "gpt-4o"): 64_000,
        (None, "claude-sonnet-4-5"): 1_000_000,
        (None, "gemini-2.5-pro"): None,
    }
    def find_provider_model(self, model_ref, provider, provider_id, provider_api_url):
        return provider_id, Model(self.windows[provider_id, model_ref])
def get_snapshot(): return Snapshot()
"""


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder to install packages in; those really installed are out of sight, and so is the table of this package."""
    monkeypatch.setattr(windows, "_known_windows", dict)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(folder for folder in sys.path if "site-packages" not in folder)])
    hidden = {name: sys.modules.pop(name) for name in _table_modules()}
    _forget()
    yield tmp_path
    for name in _table_modules():
        del sys.modules[name]
    sys.modules.update(hidden)
    _forget()


def _table_modules() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in ("litellm", "genai_prices")]


def _forget() -> None:
    importlib.invalidate_caches()
    for table in (windows._litellm_tokens, windows._genai_prices, find_window):
        table.cache_clear()


@pytest.fixture
def litellm(site: Path) -> Path:
    folder = site / "litellm"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('litellm was imported')")
    table = folder / "model_prices_and_context_window_backup.json"
    table.write_text(json.dumps(LITELLM))
    return table


@pytest.fixture
def genai_prices(site: Path) -> Path:
    folder = site / "genai_prices"
    folder.mkdir()
    (folder / "__init__.py").touch()
    module = folder / "data_snapshot.py"
    module.write_text(GENAI_PRICES)
    return module


def test_without_any_table_every_window_is_unknown() -> None:
    assert find_window("gpt-5") is None


@pytest.mark.usefixtures("litellm")
@folded(
    "model, expected",
    {
        "plain": ("gpt-4o", 128_000),
        "upper case": ("GPT-4o ", 128_000),
        "upper case in the table": ("mistral/large", 131_072),
        "the provider has its own limit": ("azure/gpt-4o", 64_000),
        "provider in front": ("openai/gpt-4o", 128_000),
        "two in front": ("litellm_proxy/openai/gpt-4o", 128_000),
        "provider and date": ("azure/gpt-4o-2024-11-20", 128_000),
        "date without dashes": ("claude-sonnet-4-5-20250929", 200_000),
        "date of Vertex": ("vertex_ai/claude-sonnet-4-5@20250929", 200_000),
        "latest": ("claude-sonnet-4-5-latest", 200_000),
        "Bedrock": ("anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        "Bedrock with region": ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        "variant of OpenRouter": ("openrouter/anthropic/claude-sonnet-4-5:free", 200_000),
        "fine-tuned": ("ft:gpt-4.1-2025-04-14:organisation:name:id", 1_047_576),
    },
)
def test_a_model_is_found_under_the_names_people_write(model: str, expected: int) -> None:
    assert find_window(model) == ModelWindow(expected, False, "litellm")


@pytest.mark.usefixtures("litellm", "genai_prices")
@pytest.mark.parametrize(
    "model",
    [
        "my-gpt-4o",
        "gpt-4o-mini",
        "sample_spec",
        "text-embedding-3-small",
        "no-limit",
        "words",
        "zero",
        "negative",
        "broken",
        "",
        "/",
        "gemini-2.5-pro",
    ],
)
def test_a_model_in_no_table_stays_unknown(model: str) -> None:
    assert find_window(model) is None


@pytest.mark.usefixtures("litellm")
@pytest.mark.parametrize(
    ("model", "tokens"), [("gpt-5", 272_000), ("openai/gpt-5.4", 922_000), ("ft:gpt-5:organisation", 272_000)]
)
def test_tokens_that_only_the_answer_may_use_are_not_in_the_window(model: str, tokens: int) -> None:
    """OpenAI rejects more input than that with 128,000 tokens of the named window left."""
    assert find_window(model) == ModelWindow(tokens, True, "litellm")


@pytest.mark.usefixtures("genai_prices")
def test_a_window_of_input_and_output_together_is_cut_to_the_input() -> None:
    assert find_window("openai/gpt-5") == ModelWindow(272_000, True, "genai-prices")
    assert find_window("gpt-4o") == ModelWindow(128_000, False, "genai-prices")


@pytest.mark.usefixtures("litellm", "genai_prices")
def test_where_the_tables_differ_the_smaller_window_counts() -> None:
    assert find_window("claude-sonnet-4-5") == ModelWindow(200_000, False, "litellm")


@pytest.mark.usefixtures("genai_prices")
def test_a_provider_with_a_limit_of_its_own_is_asked_first() -> None:
    """One model may have another window at another provider."""
    assert find_window("azure/gpt-4o") == ModelWindow(64_000, False, "genai-prices")


@pytest.mark.usefixtures("genai_prices")
def test_a_provider_the_table_does_not_know_is_left_out() -> None:
    assert find_window("litellm_proxy/claude-sonnet-4-5") == ModelWindow(1_000_000, False, "genai-prices")


@pytest.mark.parametrize("text", ["", "{", "[1, 2]"], ids=["empty", "cut off", "of another shape"])
def test_a_damaged_table_is_no_table(litellm: Path, text: str) -> None:
    litellm.write_text(text)
    assert find_window("gpt-4o") is None


def test_a_table_that_moved_is_no_table(litellm: Path) -> None:
    litellm.unlink()
    assert find_window("gpt-4o") is None


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="no snapshot"),
        pytest.param("def get_snapshot(): return object()", id="no look-up"),
        pytest.param(GENAI_PRICES.replace("provider, provider_id, provider_api_url", "provider"), id="other arguments"),
        pytest.param(GENAI_PRICES.replace("self.context_window =", "self.window ="), id="other fields"),
    ],
)
def test_a_table_whose_interface_changed_does_not_fail_an_agent(genai_prices: Path, source: str) -> None:
    genai_prices.write_text(source)
    assert find_window("gpt-4o") is None


def test_a_module_without_files_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a module has no origin to look for files at."""
    monkeypatch.setitem(sys.modules, "litellm", ModuleType("litellm"))
    assert find_window("gpt-4o") is None
