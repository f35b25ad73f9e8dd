"""A folded test checks every case and names those that fail."""

import inspect
from pathlib import Path

import pytest

from tests.cases import folded


def test_each_case_that_fails_is_named_with_its_error(tmp_path: Path) -> None:
    seen: list[int] = []

    @folded("number", {"one": 1, "two": 2, "three": 3})
    def check(number: int, tmp_path: Path) -> None:
        seen.append(number)
        assert number % 2 == 0, "odd"

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    with pytest.raises(ExceptionGroup) as failed:
        check(tmp_path=tmp_path)
    assert [error.__notes__ for error in failed.value.exceptions] == [["in the case one"], ["in the case three"]]
    assert seen == [1, 2, 3]
