"""The cache mark of a message that is summarized: the summary gets it, so that the host's prompt caching goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple

from compaction_hooks.history import History
from compaction_hooks.messages import Format, M


class MovedMark(NamedTuple, Generic[M]):
    """A cache mark that a summary has from a message that it covers.

    Attributes:
        host: Index of that message.
        mark: The mark.
        find: Returns the mark of a message, to see whether the host has moved it since.
        marked, unmarked: The summary with the mark and without it.
    """

    host: int
    mark: object
    find: Callable[[M], object]
    marked: M
    unmarked: M


def move_mark(history: History[M], format: Format[M], summary: M, hosts: Iterable[int]) -> MovedMark[M] | None:
    """Return a summary with the first mark found in host messages; None without a mark, or if the format has none."""
    for host in hosts:
        mark = format.cache_mark(history.host(host))
        if mark is not None:
            return MovedMark(host, mark, format.cache_mark, format.with_cache_mark(summary, mark), summary)
    return None
