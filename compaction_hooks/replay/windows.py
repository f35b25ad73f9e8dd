"""The window that a recorded session is replayed in, if none is given."""

from __future__ import annotations

from typing import Final, NamedTuple

from compaction_hooks.replay.numbers import short
from compaction_hooks.replay.recorded import RecordedSession
from compaction_hooks.tokens import find_window

DEFAULT_WINDOW: Final = 200_000
"""In tokens: the window if the recorded model is not named, or unknown."""
USUAL_WINDOWS: Final = (32_000, 64_000, 128_000, 200_000, 400_000, 1_000_000)
"""In tokens. An agent that compacts by itself does so near the end of its window, which may be smaller than its model's."""


class SessionWindow(NamedTuple):
    """The window of a recorded session.

    Attributes:
        tokens: Its size.
        why: Where the number is from, as the end of a sentence.
        is_known: Whether it is more than the default.
    """

    tokens: int
    why: str
    is_known: bool = True


def window_of(session: RecordedSession) -> SessionWindow:
    """Return the window that the recording names or shows; else that of the recorded model; else `DEFAULT_WINDOW`."""
    if session.window is not None:
        return SessionWindow(session.window, "as the recording says")

    found = find_window(session.model) if session.model else None
    compacted = max((each.tokens_before or 0 for each in session.compactions if each.trigger == "auto"), default=0)
    shown = next((window for window in USUAL_WINDOWS if window > compacted), None) if compacted else None

    if shown is not None and (found is None or shown < found.tokens):
        return SessionWindow(shown, f"since the recorded agent compacted by itself at {short(compacted)}")
    if found is not None:
        return SessionWindow(found.tokens, f"that of {session.model}")
    if session.model is None:
        return SessionWindow(DEFAULT_WINDOW, "since the recording names no model", is_known=False)
    return SessionWindow(DEFAULT_WINDOW, f"since that of {session.model} is unknown", is_known=False)
