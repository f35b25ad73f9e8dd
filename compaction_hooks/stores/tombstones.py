"""Tombstones: the entries of a store that tell its workers that a conversation was forgotten.

A tombstone lies among the records of its conversation, under an id of its own, and holds that id and a time.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Final, NamedTuple

TOMBSTONE_PREFIX: Final = "forgotten-"
"""The beginning of a tombstone's id. No record's id begins so."""
_START: Final = f'{{"id": "{TOMBSTONE_PREFIX}'
"""The beginning of a tombstone's text: a store keeps texts word for word."""


class Tombstone(NamedTuple):
    """The entry of a forgotten conversation.

    Attributes:
        id: Another one for each time that a conversation is forgotten.
        forgotten_at: In UTC, as `format_time` writes it.
    """

    id: str
    forgotten_at: str

    def to_json(self) -> str:
        """Return the tombstone as JSON text."""
        return json.dumps(self._asdict())


def make_tombstone(now: datetime) -> Tombstone:
    """Return the tombstone of a conversation that is forgotten now."""
    return Tombstone(f"{TOMBSTONE_PREFIX}{os.urandom(12).hex()}", format_time(now))


def read_tombstone(stored: object) -> Tombstone | None:
    """Return a stored text as a tombstone, or None if it is none."""
    if not isinstance(stored, str) or not stored.startswith(_START):
        return None
    try:
        fields = json.loads(stored)
        return Tombstone(str(fields["id"]), str(fields["forgotten_at"]))
    except (ValueError, LookupError, RecursionError):
        return None


def is_tombstone(stored: str, /) -> bool:
    """Whether a stored text is no record, but tells that its session was forgotten.

    For programs that read the texts of a store themselves, and for the `session_ids` of a store of your own.
    """
    return read_tombstone(stored) is not None


def format_time(utc: datetime) -> str:
    """Return a time as text; of two texts the later one is the greater one."""
    return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
