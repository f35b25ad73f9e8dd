"""Tables of cases that one test goes through: it checks all of them, and names each that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

Case = TypeVar("Case")


def folded(name: str, cases: Mapping[str, Case] | Iterable[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test that takes a case by this name: it runs on all of them, where `parametrize` would make a test of each.

    Fixtures are shared by the cases, so the test must leave nothing in them.

    Args:
        cases: By their names; else each is named by its `str()`.

    Raises:
        AssertionError: names the cases that failed, each with its error; raised from the first of them.
    """
    table = dict(cases) if isinstance(cases, Mapping) else {str(case): case for case in cases}

    def fold(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**given: Any) -> None:
            failed = {key: error for key, case in table.items() if (error := _error(test, {**given, name: case}))}
            if failed:
                told = "\n".join(f"- {key}: {type(error).__name__}: {error}" for key, error in failed.items())
                raise AssertionError(f"{len(failed)} of {len(table)} cases:\n{told}") from next(iter(failed.values()))

        whole = inspect.signature(test)
        rest = [parameter for key, parameter in whole.parameters.items() if key != name]
        run.__signature__ = whole.replace(parameters=rest)  # type: ignore[attr-defined] - pytest asks for what is left
        return run

    return fold


def _error(test: Callable[..., None], given: Mapping[str, Any]) -> Exception | None:
    try:
        test(**given)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other cases are checked too
        return error
    return None
