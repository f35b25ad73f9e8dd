"""Regular expressions that are compiled when they are first used.

A compaction uses half of those that its modules have, and to compile the others would take a tenth of the first one's time.
"""

import re
from typing import Any, cast


class LazyPattern:
    """A pattern that is not compiled before one of its methods is asked for."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source, flags

    def __getattr__(self, name: str) -> Any:
        """Return a method of the compiled pattern, and keep it: from then on it is found without this function."""
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)
        return found


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use; otherwise as `re.compile`."""
    return cast("re.Pattern[str]", LazyPattern(source, flags))
