"""The folder of an installed package, found without an import."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def package_folder(name: str) -> Path | None:
    """Return the folder of a top-level package, or None if it is not installed. No code of the package runs."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:
        # It is imported already, and the module has no spec, such as a stub.
        return None
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None
