"""The examples, and those in docstrings, run."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import compaction_hooks
from tests.cases import folded

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_model_of_the_examples_needs_no_pytest() -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    program = """
import sys
for tool in ("pytest", "hypothesis", "httpx", "tiktoken"):
    sys.modules[tool] = None
from model_endpoint import model_endpoint
with model_endpoint("Done.") as endpoint:
    print(endpoint.is_offline)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_an_agent_recalls_a_result_that_its_view_has_not() -> None:
    command = [sys.executable, "-S", str(EXAMPLES / "recall.py")]  # without any installed package
    done = subprocess.run(
        command, cwd=EXAMPLES.parent, env={"PYTHONPATH": "."}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 'recall({"query": "code vault"}): ' in done.stdout
    assert "~ tool: Page 1 The code of the vault is TX-48213." in done.stdout
    assert done.stdout.endswith("It is TX-48213.\n")


PACKAGE = Path(compaction_hooks.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@folded("module", MODULES)
def test_examples_in_docstrings_are_true(module: str) -> None:
    try:
        imported = importlib.import_module(module)
    except ImportError:  # an extra is not installed
        return
    assert doctest.testmod(imported).failed == 0


def test_there_are_examples() -> None:
    assert len(MODULES) > 10
