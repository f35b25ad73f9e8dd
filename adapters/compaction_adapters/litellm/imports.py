"""Import litellm without the network.

`import litellm` takes seconds and downloads a table of prices and windows, unless LITELLM_LOCAL_MODEL_COST_MAP is set; then it uses
the table in its wheel. If the user's program has imported litellm already, nothing is changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

LOCAL_TABLE = "LITELLM_LOCAL_MODEL_COST_MAP"


@contextmanager
def local_table() -> Generator[None]:
    """Let `import litellm` use the table in its wheel inside this context. A user's own setting is left alone."""
    if "litellm" in sys.modules or LOCAL_TABLE in os.environ:
        yield
        return
    os.environ[LOCAL_TABLE] = "True"
    try:
        yield
    finally:
        os.environ.pop(LOCAL_TABLE, None)  # processes started later would inherit it


def import_litellm() -> Any:
    """Import litellm without the network; untyped, because type checkers need long for all of it."""
    with local_table():
        return import_module("litellm")
