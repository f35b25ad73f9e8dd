"""Stability of request prefixes: all recorded conversations, call by call, compared byte for byte.

    python -m tests.benchmarks.money.stability [--window 200000 64000 16000] [--data FOLDER | --public]

No model, no network. A minute for each window.
"""

import argparse
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from compaction_hooks import CompactionController, ContextOverflowError
from tests.benchmarks.money.conversations import FORMAT, conversations
from tests.benchmarks.money.wire import Chat
from tests.benchmarks.tables import print_table
from tests.data import add_data_options

BEFORE, AFTER, COMPACTIONS = "before any compaction", "between compactions", "compactions"
KEPT = "with the beginning of the one before"


def follow(messages: Sequence[Chat], calls: Iterable[int], window: int) -> Iterator[tuple[str, bool]]:
    """Yield the kind of each request but the first, and whether it begins with the whole request before."""
    session = CompactionController(context_window=window, format=FORMAT).session("stability")
    texts: dict[int, str] = {}
    kept: list[Chat] = []
    last: list[str] = []
    compactions = 0
    for index in calls:
        try:
            sent = session.transform_context_sync(list(messages[:index]))
        except ContextOverflowError:
            continue
        new = [message for message in sent if id(message) not in texts]
        kept += new  # so that no id is used again
        texts |= {id(message): json.dumps(message) for message in new}
        now = [texts[id(message)] for message in sent]
        made = session.state().compaction_count - compactions
        compactions += made
        if last:
            yield COMPACTIONS if made else AFTER if compactions else BEFORE, now[: len(last)] == last
        last = now


def main() -> None:
    """Print a row for each window."""
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--window", type=int, nargs="+", default=(200_000, 64_000, 16_000), help="in tokens")
    add_data_options(parser)
    chosen = parser.parse_args()
    windows: Sequence[int] = chosen.window
    recorded = list(conversations(chosen.data, 0))

    def rows() -> Iterator[tuple[str, ...]]:
        for window in windows:
            kinds: Counter[str] = Counter()
            for conversation in recorded:
                for kind, is_kept in follow(conversation.messages, conversation.calls, window):
                    kinds.update((kind, kind + KEPT) if is_kept else (kind,))
            counts = (kinds[kind] for kind in (BEFORE, BEFORE + KEPT, AFTER, AFTER + KEPT, COMPACTIONS))
            yield f"{window:,}", *(f"{count:,}" for count in counts)

    print_table(("window", BEFORE, KEPT, AFTER, KEPT, COMPACTIONS), rows())


if __name__ == "__main__":
    main()
