"""The examples find their model in a checkout with what their docstrings name, and nothing of the tests' own tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_model_of_the_examples_needs_no_pytest() -> None:
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
