"""Ctrl-C while the command is imported: one line and exit code 130, as later.

The package imports this module first, because most imports come before any code of the command. In other programs it does nothing.
"""

import os
import sys

INTERRUPTED = 130
"""The exit code: 128 and the number of SIGINT, as shells report it."""
LINE = "interrupted\n"


def _is_command() -> bool:
    """Return whether this process was started as `compaction-hooks` or `python -m compaction_hooks`."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    if name == "-m":  # the module to run is being imported; its name is in the original arguments only
        _, _, module = " ".join(sys.orig_argv).partition(" -m ")
        return f"{module} ".startswith(("compaction_hooks ", "compaction_hooks."))
    return name.partition(".")[0].removesuffix("-script") == "compaction-hooks"


def _end(*_: object) -> None:
    """End the process at once: a KeyboardInterrupt in the middle of an import prints a traceback, or is lost."""
    os.write(2, LINE.encode())
    os._exit(INTERRUPTED)


def finish_imports() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on."""
    import signal

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command():
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have Ctrl-C ignored
            signal.signal(signal.SIGINT, _end)
    except KeyboardInterrupt:
        _end()
