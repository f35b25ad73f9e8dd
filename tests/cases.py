"""Tables of cases: folded into one test, which checks all and names each that fails, or in the fast suite a sample of them."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

Test: TypeAlias = Callable[..., Any]


def sampled(values: Iterable[Any], fast: int) -> list[Any]:
    """Return the values for `parametrize`: the fast suite takes so many of them, spread over the whole, the full one all."""
    whole = list(values)
    taken = {index * len(whole) // fast for index in range(fast)}
    return [
        value if index in taken else pytest.param(value, marks=pytest.mark.full) for index, value in enumerate(whole)
    ]


def crossed(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize by every combination of these values, the longest axis first: the fast suite takes each of its values once.

    It gives them the combinations of the other axes in turn, each of them at least once.
    """
    values = {name: list(axis) for name, axis in axes.items()}
    (longest, rows), *rest = sorted(values.items(), key=lambda axis: -len(axis[1]))
    others = list(itertools.product(*(axis for _, axis in rest)))
    taken = {(turn % len(rows), turn % len(others)) for turn in range(max(len(rows), len(others)))}
    cases = [
        pytest.param(
            *(row, *other),
            id="-".join(getattr(value, "__name__", str(value)) for value in (row, *other)),
            marks=() if (first, second) in taken else pytest.mark.full,
        )
        for first, row in enumerate(rows)
        for second, other in enumerate(others)
    ]
    return pytest.mark.parametrize((longest, *(name for name, _ in rest)), cases)


def folded(name: str, cases: Mapping[str, Any] | Iterable[Any]) -> Callable[[Test], Test]:
    """Decorate a test that takes a case by this name: it runs on all of them, where `parametrize` would make a test of each.

    The cases share the test's fixtures, so it must leave nothing in them.

    Args:
        name: Of the test's parameter; several names, with commas between them, where each case is a tuple.
        cases: By their names; else each is named by its `repr()`.

    Raises:
        AssertionError: names the cases that failed, each with its error; raised from the first of them.
    """
    names = name.replace(" ", "").split(",")
    table = cases if isinstance(cases, Mapping) else {repr(case): case for case in cases}
    given = {key: dict(zip(names, case if len(names) > 1 else (case,), strict=True)) for key, case in table.items()}

    def fold(test: Test) -> Test:
        run = _folded_coroutine(test, given) if inspect.iscoroutinefunction(test) else _folded(test, given)
        whole = inspect.signature(test)
        rest = [parameter for key, parameter in whole.parameters.items() if key not in names]
        run.__signature__ = whole.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest asks for what is left
        return run

    return fold


def _folded(test: Test, cases: Mapping[str, Mapping[str, Any]]) -> Test:
    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        failures = _Failures(len(cases))
        for key, case in cases.items():
            with failures.noted(key):
                test(**fixtures, **case)
        failures.demand_none()

    return run


def _folded_coroutine(test: Test, cases: Mapping[str, Mapping[str, Any]]) -> Test:
    @functools.wraps(test)
    async def run(**fixtures: Any) -> None:
        failures = _Failures(len(cases))
        for key, case in cases.items():
            with failures.noted(key):
                await test(**fixtures, **case)
        failures.demand_none()

    return run


class _Failures:
    def __init__(self, cases: int) -> None:
        self._cases = cases
        self._errors: dict[str, Exception] = {}

    @contextmanager
    def noted(self, case: str) -> Any:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the other cases are checked too
            self._errors[case] = error

    def demand_none(self) -> None:
        if self._errors:
            told = "\n".join(f"- {case}: {type(error).__name__}: {error}" for case, error in self._errors.items())
            raise AssertionError(f"{len(self._errors)} of {self._cases} cases:\n{told}") from next(
                iter(self._errors.values())
            )
