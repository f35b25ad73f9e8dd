"""The files that the host itself keeps track of."""

from __future__ import annotations

import logging
from collections.abc import Callable

from compaction_hooks.errors import described
from compaction_hooks.files.operations import FileOperations, merge

logger = logging.getLogger("compaction_hooks")


def ask_host_files(*lists: Callable[[], FileOperations] | None) -> FileOperations:
    """Return the files that the host itself keeps track of; a list that fails is left out."""
    found = FileOperations()
    for files in filter(None, lists):
        try:
            found = merge(found, files())
        except Exception as error:  # noqa: BLE001 - a failing helper never fails the agent
            logger.warning("the host's file list could not be had (%s)", described(error))
    return found
