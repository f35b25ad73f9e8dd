"""Frameworks that are not installed."""

from __future__ import annotations

import importlib.util

from compaction_hooks.errors import MissingExtraError


def require(adapter: str, package: str, title: str, extra: str) -> None:
    """Check that the package of an adapter is installed, without importing it.

    Args:
        adapter: The module that needs it, `__name__`.
        package: As it is imported.
        title: As people call it.
        extra: The extra that installs it.

    Raises:
        MissingExtraError: it is not installed.
        ModuleNotFoundError: it is, and lacks something itself.
    """
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError as error:
        if error.name != package.partition(".")[0]:
            raise
        found = None
    if found is None:
        raise MissingExtraError(adapter, title, extra)
