"""User messages in a row, merged for servers that refuse them."""

from __future__ import annotations

from typing import cast

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.messages import M, MergingFormat, MessageFormat


def merge_user_messages(view: list[M], format: MessageFormat[M]) -> list[M]:
    """Return a view in which no user message follows another; the very list if none does. No message is changed.

    Args:
        format: One that `check_merging` took.
    """
    return cast("MergingFormat[M]", format).merge(view)


def check_merging(format: MessageFormat[M] | None) -> None:
    """Check that a format can merge messages; None is one of the core's formats, which all can.

    Raises:
        ConfigurationError: it has no `merge`.
    """
    if format is not None and not isinstance(format, MergingFormat):
        raise ConfigurationError(
            f"merge_user_messages=True: the format {format.name!r} has no merge(view); leave the setting out, or "
            "give a format that has one"
        )
