"""Entry points: the command `compaction-hooks`, and `python -m compaction_hooks.command`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compaction_hooks.errors import MissingExtraError
from compaction_hooks.interrupts import INTERRUPTED, LINE

MISSING_EXTRA = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `compaction-hooks` and return its exit code: 130 after Ctrl-C; without the extra, say how to install it.

    Args:
        arguments: Without the program's name; None: those of this process.
    """
    try:
        from compaction_hooks.command.app import run

        code = run(arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("rich", "typer"):
            raise
        sys.stderr.write(f"error: {MissingExtraError('compaction-hooks', 'rich and typer', 'cli')}\n")
        return MISSING_EXTRA
    if code == INTERRUPTED:
        sys.stderr.write(LINE)
    return code


if __name__ == "__main__":
    sys.exit(main())
