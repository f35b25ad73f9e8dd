"""The facts that a summary must not lose: named to a model before it writes, and put back if its summary lacks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice

from compaction_hooks.files.operations import read_calls
from compaction_hooks.messages import Message
from compaction_hooks.summary.extractive.identifiers import collect_mentions, identifier_items
from compaction_hooks.summary.extractive.outline import OF_USER, Item, Section, as_data, parse, render, without_bullet
from compaction_hooks.summary.extractive.statements import SHORT_CHARS, constraint_items, is_prose, request_texts
from compaction_hooks.summary.extractive.steps import Failures, is_reported, tells_error
from compaction_hooks.summary.extractive.tasks import task_items
from compaction_hooks.summary.extractive.text import both_ends, sentences
from compaction_hooks.summary.xml_calls import read_xml_calls
from compaction_hooks.text.escaping import neutralize
from compaction_hooks.text.refusals import told_refusals, words_of_refusal

NAMED_RATIO = 0.25
"""The most of a summary's tokens that a prompt names of what the user said; of tasks and of mended failures half as much each."""
NEWEST_MESSAGES, SCAN_CHARS, MOST_NAMES = 40, 500, 100
"""The messages that are read for the identifiers needed next, the most characters at each end of one of their results, and the
most names. The next steps of 25 recorded conversations used as many of the names that these have as of those in all messages."""
MOST_REFUSAL_CHARS = 10_000
"""The most characters at each end of all words of refusals that a model's summary is searched for."""
LINE_TOKENS = 2
"""Estimate of a bullet and a line break."""

Size = Callable[[str], int]


def disown_refusals(text: str, messages: Sequence[Message], previous_summary: str) -> str:
    """Return a model's summary without the goals and constraints that quote the result of a refused call, and not the user.

    Args:
        messages: Those that the model summarized.
        previous_summary: The summary that it updated, or "".
    """
    results = (result.text for message in read_xml_calls(messages) for result in message.results)
    summaries = "\n".join((previous_summary, *(message.text for message in messages if message.role == "user")))
    words = "\n".join(filter(None, (*map(words_of_refusal, results), *told_refusals(summaries))))
    if not words:
        return text
    told = (item.text for item in parse(previous_summary) if item.section in OF_USER)
    own = "\n".join((*request_texts(messages), *told)).casefold()
    spoken = filter(partial(is_prose, least_chars=SHORT_CHARS), sentences(both_ends(words, MOST_REFUSAL_CHARS)))
    said = {sentence for sentence in (each.rstrip(".!").casefold() for each in spoken) if sentence not in own}
    found = (item.text for item in parse(text) if item.section in OF_USER)
    quoting = {line for line in found if any(sentence in line.casefold() for sentence in said)}
    return "\n".join([line for line in text.split("\n") if without_bullet(line) not in quoting])


def correct_failures(text: str, find_failures: Callable[[], Failures]) -> list[Item]:
    """Return the steps that a summary reports as failing although the same thing succeeded later, oldest first.

    Args:
        find_failures: Returns the failures in all messages. Most summaries report none, and finding them takes long.
    """
    told = [item for item in parse(text) if item.section is Section.BLOCKED or tells_error(item.text)]
    mended = find_failures().mended_items() if told else []
    return [item for item in mended if item.text not in text and any(is_reported(item, line.text) for line in told)]


def next_identifiers(messages: Sequence[Message], known: AbstractSet[str]) -> list[Item]:
    """Return the identifiers that are most likely needed next and not known otherwise, best first."""
    newest = messages[-NEWEST_MESSAGES:]
    mentions = collect_mentions(newest, read_calls(newest), (), scan_chars=SCAN_CHARS)
    return [*map(as_data, islice(identifier_items(mentions, known), MOST_NAMES))]


def name_facts(
    messages: Sequence[Message],
    previous_summary: str | None,
    kept: Sequence[Message],
    identifiers: Iterable[Item],
    max_tokens: int,
    size: Size,
) -> str:
    """Return the facts that a model's summary should have word for word, under its headings; empty if there are none.

    Args:
        kept: The messages that stay in the context: they close tasks and mend failures.
        identifiers: Those that fit what a summary may name, the best first.
        max_tokens: The most the summary may hold.
        size: Size of a text in tokens.
    """
    calls, kept_calls = read_calls(messages), read_calls(kept)
    begun = [item for item in parse(previous_summary or "") if item.section is Section.IN_PROGRESS]
    said = int(max_tokens * NAMED_RATIO)
    items = [
        *newest_fitting(constraint_items(request_texts(messages), ()), said, size),
        *newest_fitting(Failures().add([*calls, *kept_calls]).mended_items(), said // 2, size),
        *newest_fitting(task_items(messages, calls, begun, kept, kept_calls), said // 2, size),
        *identifiers,
    ]
    return neutralize(render([*map(as_data, items)]))


def newest_fitting(items: Sequence[Item], room: int, size: Size) -> list[Item]:
    """Return as many of the last items as fit into so many tokens."""
    return first_fitting(items[::-1], room, size)[::-1]


def first_fitting(items: Iterable[Item], room: int, size: Size) -> list[Item]:
    """Return as many of the first items as fit into so many tokens."""
    fitting: list[Item] = []
    for item in items:
        room -= item_tokens(item, size)
        if room < 0:
            break
        fitting.append(item)
    return fitting


def item_tokens(item: Item, size: Size) -> int:
    """Return the estimate of an item's line; of an identifier, with its key."""
    return size(f"{item.group}: {item.text}" if item.group else item.text) + LINE_TOKENS
