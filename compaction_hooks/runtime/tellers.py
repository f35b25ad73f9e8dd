"""The host's functions that are asked for a compaction, guarded: a failure adds no answer, and an event tells the error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, cast

from compaction_hooks.events import CompactionEvent, HostFilesFailed
from compaction_hooks.files import FileOperations, merge
from compaction_hooks.foreign import describe_error
from compaction_hooks.telling import Told


class Tellers(NamedTuple):
    """The functions of a controller, or of one conversation; None: the host has no such function.

    Attributes:
        files: Returns the files that the host keeps track of.
    """

    files: Callable[[], FileOperations] | None = None

    @property
    def has_any(self) -> bool:
        """Whether the host has such a function."""
        return any(function is not None for function in self)

    def ask(self, told: Told, session_id: str) -> tuple[Told, list[CompactionEvent]]:
        """Return the answers so far with those of these functions, and an event for each function that failed."""
        failures: list[CompactionEvent] = []
        if self.files is not None:
            try:
                told = told.add_files(_read_files(self.files))
            except Exception as error:  # noqa: BLE001 - a host's function may raise anything
                failures.append(HostFilesFailed(session_id=session_id, error=describe_error(error)))
        return told, failures


def ask_all(all_tellers: Sequence[Tellers], session_id: str) -> tuple[Told, list[CompactionEvent]]:
    """Return the answers of all these functions together, and an event for each function that failed."""
    told, failures = Told(), list[CompactionEvent]()
    for tellers in all_tellers:
        told, failed = tellers.ask(told, session_id)
        failures += failed
    return told, failures


def _read_files(files: Callable[[], FileOperations]) -> FileOperations:
    """Return the files that a function of the host lists.

    Raises:
        TypeError: a path is no text.
    """
    listed = merge(FileOperations(), files())
    for path in cast("Iterable[object]", chain(*listed)):
        if not isinstance(path, str):
            raise TypeError(f"a path is {type(path).__name__}, not text: write str(path)")
    return listed
