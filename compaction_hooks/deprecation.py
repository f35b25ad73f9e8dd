"""Warnings of names and arguments that will go. Each works in at least two minor versions that warn.

Call them as `deprecation.warn(...)` and `deprecation.renamed_argument(...)`, with literals: a test reads them in the source, and
fails when a name should be gone.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from compaction_hooks import arguments


def warn(name: str, *, since: str, gone_in: str, instead: str) -> None:
    """Warn the caller of the function in which this is called: a function, a method, a property, a module's `__getattr__`.

    Args:
        name: The deprecated name, without its module: "CompactionSession.load"; an argument: "CompactionSession.compact(focus)".
        since: The first version that warns, such as "0.3.0".
        gone_in: The first version without the name, such as "0.5.0".
        instead: The name or the words to use instead.
    """
    text = f"{name} is deprecated since {since} and will be gone in {gone_in}: use {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def renamed_argument(old: str, new: str, *, since: str, gone_in: str) -> Callable[[arguments.C], arguments.C]:
    """Return a decorator that lets a class or function take a keyword by its old name too, with a warning.

    It goes above all other decorators. For `since` and `gone_in` see `warn`.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*positional: Any, **named: Any) -> Any:
            if old not in named:
                return function(*positional, **named)
            name = function.__qualname__.removesuffix(".__init__")
            warn(f"{name}({old})", since=since, gone_in=gone_in, instead=new)
            return function(*positional, **{new: named.pop(old)}, **named)

        return call

    return arguments.decorator_of(wrap)
