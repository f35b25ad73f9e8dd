"""Messages of one speaker in a row, for a provider that refuses them: written as one, and read apart again."""

from __future__ import annotations

from collections.abc import Sequence

from compaction_hooks.history.digests import message_digest, text_digest
from compaction_hooks.history.history import Known
from compaction_hooks.messages import Format, M, Message, Text, can
from compaction_hooks.view.summary_message import SUMMARY_MARKER


def join_rows(view: list[M], format: Format[M]) -> list[M]:
    """Return a view as the format's provider takes it: the very list if the provider takes messages in a row."""
    from compaction_hooks.validity import needs_merging  # its rules are needed only after a compaction

    return format.merge(view) if needs_merging(format) else view


def part_row(message: M, format: Format[M], known: Known) -> list[M]:
    """Return our summary, its pins and the words behind them, which `join_rows` wrote as one message; else that message alone.

    Only by itself is a summary recognized, and the message behind it the user's request.
    """
    first, *later = format.read(message)
    if later or first.role != "user" or len(first.parts) < 2 or not can(format, "drop"):
        return [message]
    summary = first.parts[0]
    if not isinstance(summary, Text) or not summary.text.startswith(SUMMARY_MARKER):
        return [message]
    from compaction_hooks.validity import needs_merging  # its rules are needed only after a compaction

    if not needs_merging(format):
        return [message]
    origin = known.origins.get(text_digest(summary.text))
    starts = [0, 1, *_pin_ends(first, origin.pins if origin else ())]
    spans = [
        range(start, end) for start, end in zip(starts, [*starts[1:], len(first.parts)], strict=True) if start < end
    ]
    addresses = [(0, index) for index in range(len(first.parts))]
    return [format.drop(message, [one for one in addresses if one[1] not in span]) for span in spans]


def _pin_ends(message: Message, pins: Sequence[str]) -> list[int]:
    """Return for each pin that follows the summary the index of the first part behind it."""
    parts, ends = message.parts, [1]
    for pin in pins:
        tries = range(ends[-1] + 1, len(parts) + 1)
        pinned = (end for end in tries if pin == message_digest(Message(role="user", parts=parts[ends[-1] : end])))
        end = next(pinned, None)
        if end is None:
            break
        ends.append(end)
    return ends[1:]
