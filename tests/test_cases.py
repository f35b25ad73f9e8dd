"""A folded test checks every case and names those that fail."""

import inspect
import re
from pathlib import Path

import pytest

from tests.cases import crossed, folded


def test_each_case_that_fails_is_named_with_its_error(tmp_path: Path) -> None:
    seen: list[int] = []

    @folded("number", {"one": 1, "two": 2, "three": 3})
    def check(number: int, tmp_path: Path) -> None:
        seen.append(number)
        assert number % 2 == 0, "odd"

    assert list(inspect.signature(check).parameters) == ["tmp_path"]
    with pytest.raises(AssertionError, match=re.escape("2 of 3 cases:\n- one: AssertionError: odd")) as failed:
        check(tmp_path=tmp_path)
    assert "- three: AssertionError: odd" in str(failed.value)
    assert seen == [1, 2, 3]


async def test_a_coroutine_function_stays_one() -> None:
    seen: list[tuple[str, int]] = []

    @folded("name, number", [("a", 1), ("b", 2)])
    async def check(name: str, number: int) -> None:
        seen.append((name, number))

    await check()
    assert seen == [("a", 1), ("b", 2)]


def test_the_fast_suite_takes_each_value_of_crossed_axes_and_the_full_one_each_combination() -> None:
    axes: dict[str, list[object]] = {
        "kind": [True, False],
        "fault": ["raises", "hangs", "lies"],
        "side": ["async", "sync"],
    }
    mark = crossed(**axes)
    names, cases = mark.args
    fast = [case.values for case in cases if not case.marks]
    assert len({case.values for case in cases}) == len(cases) == 12
    assert len(fast) == 4
    assert {name: {*values} for name, values in zip(names, zip(*fast, strict=True), strict=True)} == {
        name: {*values} for name, values in axes.items()
    }
