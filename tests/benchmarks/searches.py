"""Whether one search of the recall tool finds the identifiers that an agent needs and no longer sees: a table of docs/probes.md.

    python -m tests.benchmarks.searches [FOLDER] [--windows 16000 32000 64000 128000 200000] [--half "kept aside"]

Replays every recorded conversation call by call, with the recall tool. Of the five steps after each compaction, it collects the
identifiers that an answer uses and that the view, its summary included, does not have. Each is searched for by one call of the
tool, with the words of the answer that uses it: its text and the arguments of its calls, once with and once without the
identifier itself.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from compaction_hooks import CompactionController, CompactionFinished, ContextOverflowError
from compaction_hooks.recall import Covered, RecallTool
from tests.benchmarks.identifiers import HARD, find_identifiers, is_in
from tests.benchmarks.recall import ESTIMATOR, NEVER_DUE, NEXT_STEPS, Chat, conversations, make_parser, message_text
from tests.benchmarks.tables import print_table

WAYS = ("with it", "without it")


class Search(NamedTuple):
    """A search for one identifier.

    Attributes:
        query: The words of the answer that uses it; without the identifier itself, if `way` says so.
        is_recallable: Whether a covered part has the identifier.
        is_found: Whether the tool's answer has it.
    """

    way: str
    name: str
    kind: str
    query: str
    is_recallable: bool
    is_found: bool
    answer_bytes: int


def search_needs(messages: list[Chat], window: int) -> Iterator[Search]:
    """Yield the searches of one conversation."""
    for needed in needs(messages, window):
        covered, recall = needed.covered, needed.recall
        texts = [f"{part.source}\n{part.text}" for part in covered]
        answers: dict[str, str] = {}
        for name, kind in needed.names.items():
            is_recallable = any(_has(text, name) for text in texts)
            for way, query in zip(WAYS, (needed.text, without(name, needed.text)), strict=True):
                if query not in answers:
                    answers[query] = recall(query)
                answer = answers[query]
                yield Search(way, name, kind, query, is_recallable, _has(answer, name), len(answer.encode()))


def _has(text: str, name: str) -> bool:
    """Return whether a text has an identifier, also behind a line break that JSON escapes."""
    return is_in(name, text) or is_in(name, text.replace("\\n", "\n").replace("\\t", "\t"))


class Needs(NamedTuple):
    """The identifiers that one answer uses and that its view does not have."""

    text: str
    names: Mapping[str, str]
    covered: Covered
    recall: RecallTool


def needs(messages: list[Chat], window: int) -> Iterator[Needs]:
    """Yield the needs of the steps after each compaction."""
    compactions: list[object] = []

    def count_compaction(event: object) -> None:
        if isinstance(event, CompactionFinished):
            compactions.append(event)

    session = CompactionController(context_window=window, on_event=count_compaction).session("searches")
    listed: list[Chat] = []
    recall = session.recall_tool(lambda: listed)
    texts = [message_text(message) for message in messages]
    steps_left = known = 0
    for index in range(1, len(messages)):
        if messages[index]["role"] != "assistant":
            continue
        listed = messages[:index]
        view = session.transform_context_sync(listed)
        if len(compactions) > known:
            known, steps_left = len(compactions), NEXT_STEPS
        if steps_left:
            steps_left -= 1
            shown = "\n".join(map(message_text, view))
            said = "\n".join(text for message, text in zip(listed, texts, strict=False) if message["role"] != "system")
            used = dict(find_identifiers(texts[index]))
            names = {name: kind for name, kind in used.items() if not is_in(name, shown) and is_in(name, said)}
            if names:
                yield Needs(texts[index], names, session.covered(listed), recall)


def without(name: str, text: str) -> str:
    """Return a text without an identifier."""
    return text.replace(name, " ")


# -- the table


def wilson(found: int, total: int) -> str:
    """Return a share in percent with its 95 % interval by Wilson, and the number of trials."""
    if not total:
        return "-"
    z, share = 1.96, found / total
    middle, half = share + z * z / 2 / total, z * math.sqrt(share * (1 - share) / total + (z / 2 / total) ** 2)
    low, high = ((middle + sign * half) / (1 + z * z / total) for sign in (-1, 1))
    return f"{share:.1%} ({max(low, 0):.1%} to {min(high, 1):.1%}), n = {total:,}"


def print_searches(results: Mapping[str, Sequence[Search]]) -> None:
    """Print one column for each window."""

    def row(title: str, chosen: Iterable[Sequence[Search]], field: str = "is_found") -> list[str]:
        return [title, *(wilson(sum(getattr(each, field) for each in searches), len(searches)) for searches in chosen)]

    def of(way: str, kinds: frozenset[str] | None = None) -> list[list[Search]]:
        return [
            [each for each in searches if each.way == way and (kinds is None or each.kind in kinds)]
            for searches in results.values()
        ]

    rows = [row("recallable", of(WAYS[0]), "is_recallable")]
    for way in WAYS:
        rows += [row(f"found {way}", of(way)), row(f"found {way}, hard ones", of(way, HARD))]
        kinds = Counter(each.kind for searches in of(way) for each in searches)
        rows += [row(f"found {way}, {kind}", of(way, frozenset((kind,)))) for kind in sorted(kinds)]
    sizes = [sorted(each.answer_bytes for each in searches) or [0] for searches in results.values()]
    rows += [["bytes of an answer, median", *(f"{median(each):,.0f}" for each in sizes)]]
    rows += [["bytes of an answer, 95 % at most", *(f"{each[int(0.95 * (len(each) - 1))]:,}" for each in sizes)]]
    print_table(("", *results), rows)


def main() -> None:
    logging.getLogger("compaction_hooks").setLevel(logging.CRITICAL)
    chosen = make_parser(__doc__ or "").parse_args()
    results: dict[str, list[Search]] = defaultdict(list)
    for _, messages in conversations(chosen.folder, chosen.half):
        tokens = sum(ESTIMATOR.estimate_tokens(message_text(message)) for message in messages)
        for window in chosen.windows:
            if tokens < NEVER_DUE * window:
                continue
            found = results[f"{window:,}"]
            try:
                found.extend(search_needs(messages, window))
            except ContextOverflowError:
                continue
    ordered = {f"{window:,}": results[f"{window:,}"] for window in chosen.windows}
    print_searches({**ordered, "all": [each for column in ordered.values() for each in column]})


if __name__ == "__main__":
    main()
