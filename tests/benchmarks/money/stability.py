"""Stability of request prefixes: all recorded conversations, call by call, compared byte for byte.

    python -m tests.benchmarks.money.stability [--window 200000 64000 16000]

Needs the recordings next to the checkout (`../shared/data`); no model, no network. A minute for each window.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from compaction_hooks import CompactionController, ContextOverflowError
from compaction_hooks.events import CompactionEvent, CompactionFinished
from tests.benchmarks.money.conversations import FORMAT, conversations
from tests.benchmarks.money.wire import Chat


@dataclass(slots=True)
class Stability:
    """Counts of requests over one or many conversations, the first request of each left out.

    Attributes:
        before, before_kept: Requests before any compaction, and those that begin with the whole previous request.
        after, after_kept: The same for requests after a compaction that made no compaction themselves.
        compactions: Requests with a compaction.
    """

    before: int = 0
    before_kept: int = 0
    after: int = 0
    after_kept: int = 0
    compactions: int = 0

    def add(self, other: Stability) -> None:
        """Add the counts of another conversation."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class _Dumps:
    """Messages as JSON, each object once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Chat, str]] = {}

    def __call__(self, messages: Iterable[Chat]) -> list[str]:
        return [self._one(message) for message in messages]

    def _one(self, message: Chat) -> str:
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            known = self._known[id(message)] = (message, json.dumps(message))
        return known[1]


def follow(messages: Sequence[Chat], calls: Iterable[int], window: int) -> Stability:
    """Return the counts of one conversation."""
    events: list[CompactionEvent] = []
    session = CompactionController(context_window=window, format=FORMAT, on_event=events.append).session("stability")
    dumps, found = _Dumps(), Stability()
    last: list[str] = []
    has_compacted = False
    for index in calls:
        events.clear()
        try:
            sent = session.transform_context_sync(list(messages[:index]))
        except ContextOverflowError:
            continue
        now = dumps(sent)
        is_made = any(isinstance(event, CompactionFinished) for event in events)
        if last:
            _compare(found, last, now, is_made=is_made, has_compacted=has_compacted)
        last, has_compacted = now, has_compacted or is_made
    return found


def _compare(found: Stability, last: list[str], now: list[str], *, is_made: bool, has_compacted: bool) -> None:
    is_kept = now[: len(last)] == last
    if is_made:
        found.compactions += 1
    elif has_compacted:
        found.after += 1
        found.after_kept += is_kept
    else:
        found.before += 1
        found.before_kept += is_kept


def main() -> None:
    """Print a row for each window."""
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--window", type=int, nargs="+", default=(200_000, 64_000, 16_000), help="context windows, in tokens"
    )
    windows: Sequence[int] = parser.parse_args().window
    recorded = list(conversations(0))
    print(f"| window | {' | '.join(each.name.replace('_', ' ') for each in fields(Stability))} |")
    print("|--:" * (len(fields(Stability)) + 1) + "|")
    for window in windows:
        total = Stability()
        for conversation in recorded:
            total.add(follow(conversation.messages, conversation.calls, window))
        print(f"| {window:,} | {' | '.join(f'{getattr(total, each.name):,}' for each in fields(total))} |", flush=True)


if __name__ == "__main__":
    main()
