"""The programs of the pages on frameworks run, against the loopback provider: each where its framework is installed."""

import pytest

from tests.adapters.programs import check_programs

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def test_the_programs_of_the_pages_run() -> None:
    check_programs({})
