"""In CI the same examples are generated each time; a run by hand, and the soak, look for new ones. None is timed."""

from __future__ import annotations

import importlib.util
import os

if importlib.util.find_spec("hypothesis") is not None:
    from hypothesis import settings

    settings.register_profile("untimed", deadline=None, derandomize=bool(os.environ.get("CI")))
    settings.load_profile("untimed")
