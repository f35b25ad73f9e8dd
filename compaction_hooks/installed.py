"""Where an installed package lies, without importing it."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def package_folder(name: str) -> Path | None:
    """Return the folder of a top-level package, or None when there is none. Nothing of it is run."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:
        # Imported already, but by something that left no trace of where it came from.
        return None
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None
