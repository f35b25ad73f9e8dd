"""What is asked of an attempt to compact."""

from __future__ import annotations

from typing import NamedTuple

from compaction_hooks.triggers import Due
from compaction_hooks.view.record import CompactionReason


class Order(NamedTuple):
    """What is asked of an attempt.

    Attributes:
        keep: Recent tokens to keep; None: what the budget says for this reason, and the user's last turns if they are more.
        may_ask: Whether the summariser may be asked; not when another caller's attempt just failed.
        must_fit: Whether a list that cannot be made to fit is an error; otherwise it is handed out unchanged, loudly.
        only_media: Whether the request was too large in bytes: media are left out, and nothing else is done.
        limit_bytes: What the provider takes, as far as it says so; None: half of the media are left out, so that the next images
            change nothing in the part of the view that the provider has cached.
        due: The answer of the trigger, if one asked for this.
    """

    reason: CompactionReason
    keep: int | None = None
    may_ask: bool = True
    focus: str | None = None
    must_fit: bool = False
    only_media: bool = False
    limit_bytes: int | None = None
    due: Due | None = None
