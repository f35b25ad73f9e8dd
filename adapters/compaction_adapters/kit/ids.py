"""The id of a conversation that has several parts."""

from __future__ import annotations

import re
from typing import Final

SEPARATOR: Final = "%/"
"""Between the parts of an id. A "/" alone is a host's own, as in "user-7/thread-1"."""
_IN_A_PART: Final = re.compile("%(?=(?:25)*/)")
"""The beginning of a separator inside a part, or of one that was written in another way already."""


def join_id(*parts: str) -> str:
    """Return the id of the conversation that these parts name; other parts never have the same id.

    Empty parts at the end are left out. A separator inside a part is written "%25/".

    >>> join_id("alice", "notes/1"), join_id("alice/notes", "1")
    ('alice%/notes/1', 'alice/notes%/1')
    """
    written = SEPARATOR.join(_IN_A_PART.sub("%25", part) for part in parts)
    while written.endswith(SEPARATOR):
        written = written.removesuffix(SEPARATOR)
    return written


def inner_prefix(conversation_id: str) -> str:
    """Return the beginning of the ids of other lists under one id: an empty part tells them from named parts."""
    return f"{conversation_id}{SEPARATOR}{SEPARATOR}"
