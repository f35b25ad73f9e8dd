"""Tables of cases: all in one test, which names every failed case, or a sample of them in the fast suite."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

import pytest

Test: TypeAlias = Callable[..., Any]


def sampled(values: Iterable[Any], fast: int) -> list[Any]:
    """Return the values for `parametrize`: all in the full suite, `fast` of them, evenly spread, in the fast one."""
    return [value if taken else pytest.param(value, marks=pytest.mark.full) for value, taken in _spread(values, fast)]


def sampled_rows(rows: Iterable[tuple[Any, ...]], fast: int) -> list[Any]:
    """Return the same of rows, for several names."""
    return [row if taken else pytest.param(*row, marks=pytest.mark.full) for row, taken in _spread(rows, fast)]


def _spread(values: Iterable[Any], fast: int) -> Iterator[tuple[Any, bool]]:
    """Yield each value, and whether it is one of so many that are evenly spread."""
    whole = list(values)
    taken = {index * len(whole) // fast for index in range(fast)}
    yield from ((value, index in taken) for index, value in enumerate(whole))


def crossed(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize by every combination of these values, the longest axis first.

    The fast suite takes each value of each axis at least once.
    """
    ordered = sorted(((name, list(axis)) for name, axis in axes.items()), key=lambda axis: -len(axis[1]))
    names, columns = [name for name, _ in ordered], [axis for _, axis in ordered]
    taken = [tuple(axis[turn % len(axis)] for axis in columns) for turn in range(len(columns[0]))]
    cases = [
        pytest.param(
            *case,
            id="-".join(getattr(value, "__name__", str(value)) for value in case),
            marks=() if case in taken else pytest.mark.full,
        )
        for case in itertools.product(*columns)
    ]
    return pytest.mark.parametrize(names, cases)


def folded(name: str, cases: Mapping[str, Any] | Iterable[Any]) -> Callable[[Test], Test]:
    """Decorate a test to run on all cases in one test; `parametrize` would make a test of each.

    The cases share the test's fixtures, so the test must not change them.

    Args:
        name: The test's parameter; several names separated by commas if each case is a tuple.
        cases: A mapping from names to cases, or the cases, which are then named by their `repr()`.

    Raises:
        ExceptionGroup: has the error of each failed case, with its name.
    """
    names = name.replace(" ", "").split(",")
    table = cases if isinstance(cases, Mapping) else {repr(case): case for case in cases}
    given = {key: dict(zip(names, case if len(names) > 1 else (case,), strict=True)) for key, case in table.items()}

    def fold(test: Test) -> Test:
        run = _run_all_async(test, given) if inspect.iscoroutinefunction(test) else _run_all(test, given)
        whole = inspect.signature(test)
        rest = [parameter for key, parameter in whole.parameters.items() if key not in names]
        run.__signature__ = whole.replace(parameters=rest)  # type: ignore[attr-defined]  # pytest reads the remaining parameters
        return run

    return fold


def _run_all(test: Test, cases: Mapping[str, Mapping[str, Any]]) -> Test:
    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        with _collected() as failing:
            for key, case in cases.items():
                with failing(key):
                    test(**fixtures, **case)

    return run


def _run_all_async(test: Test, cases: Mapping[str, Mapping[str, Any]]) -> Test:
    @functools.wraps(test)
    async def run(**fixtures: Any) -> None:
        with _collected() as failing:
            for key, case in cases.items():
                with failing(key):
                    await test(**fixtures, **case)

    return run


@contextmanager
def _collected() -> Iterator[Callable[[str], AbstractContextManager[None]]]:
    """Give a context for each case, which keeps its error; raise all of them at the end."""
    errors: list[Exception] = []

    @contextmanager
    def failing(case: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the other cases are checked after any error
            error.add_note(f"in the case {case}")
            errors.append(error)

    yield failing
    if errors:
        raise ExceptionGroup("cases failed", errors)
