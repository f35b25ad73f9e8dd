"""Import litellm without the network.

`import litellm` takes seconds and downloads a table of prices and windows, unless LITELLM_LOCAL_MODEL_COST_MAP is set; then it uses
the table in its wheel. Where the user's program has imported litellm already, nothing happens here.
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
    """While this lasts, an `import litellm` uses the table in its wheel. A user's own setting is left alone."""
    if "litellm" in sys.modules or LOCAL_TABLE in os.environ:
        yield
        return
    os.environ[LOCAL_TABLE] = "True"
    try:
        yield
    finally:
        os.environ.pop(LOCAL_TABLE, None)  # processes started later would inherit it


def imported() -> Any:
    """Return litellm, imported without the network; untyped, because checking all of it takes a type checker long."""
    with local_table():
        return import_module("litellm")
