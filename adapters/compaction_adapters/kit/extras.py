"""The check that an adapter's framework is installed."""

from __future__ import annotations

import importlib.util

from compaction_hooks.errors import MissingExtraError


def require(adapter: str, package: str, title: str, extra: str) -> None:
    """Check that the package of an adapter is installed, without importing it.

    Args:
        adapter: The adapter's `__name__`.
        package: The package's name in imports.
        title: The package's name in prose.
        extra: The extra that installs it.

    Raises:
        MissingExtraError: the package is not installed.
        ModuleNotFoundError: the package is installed, and one of its own dependencies is not.
    """
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError as error:
        if error.name != package.partition(".")[0]:
            raise
        found = None
    if found is None:
        raise MissingExtraError(adapter, title, extra)
