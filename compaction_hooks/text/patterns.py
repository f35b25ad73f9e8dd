"""Regular expressions that are compiled when they are first used: importing the package compiles none of its hundred and fifty."""

from __future__ import annotations

import re
from typing import cast


class _Pattern:
    """Becomes what `re.compile` returns, method by method, as each is first asked for."""

    def __init__(self, source: str, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> object:
        value = getattr(re.compile(self._source, self._flags), name)
        self.__dict__[name] = value
        return value


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression whose errors show, and whose cost is paid, when it is first used."""
    return cast("re.Pattern[str]", _Pattern(source, flags))  # has its attributes
