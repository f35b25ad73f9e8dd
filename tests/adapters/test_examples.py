"""The programs of the pages on frameworks and those in examples/ run offline: each where its framework is installed."""

import pytest

from tests.adapters.programs import EXAMPLES, check_programs

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def test_the_programs_of_the_pages_and_the_examples_run() -> None:
    check_programs(EXAMPLES)
