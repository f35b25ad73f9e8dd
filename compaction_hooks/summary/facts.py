"""The facts that a summary must not lose: named to a model before it writes, and put back if its summary lacks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from compaction_hooks.files.operations import words_of_refusal
from compaction_hooks.messages import Message
from compaction_hooks.summary.extractive.findings import Findings, items_under
from compaction_hooks.summary.extractive.outline import OF_USER, Item, Section, as_data, parse, render, without_bullet
from compaction_hooks.summary.extractive.statements import SHORT_CHARS, is_prose, request_texts
from compaction_hooks.summary.extractive.steps import Failures, is_reported, tells_error, told_refusals
from compaction_hooks.summary.extractive.text import both_ends, sentences
from compaction_hooks.summary.harness import read_xml_calls
from compaction_hooks.text.escaping import neutralize

NAMED_RATIO = 0.25
"""The most of a summary's tokens that a prompt names of what the user said; of tasks and of mended failures half as much each."""
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

    earlier = (item.text for item in parse(previous_summary) if item.section in OF_USER)
    own = "\n".join((*request_texts(messages), *earlier)).casefold()
    spoken = filter(partial(is_prose, least_chars=SHORT_CHARS), sentences(both_ends(words, MOST_REFUSAL_CHARS)))
    refusals = {sentence for sentence in (each.rstrip(".!").casefold() for each in spoken) if sentence not in own}

    lines = (item.text for item in parse(text) if item.section in OF_USER)
    quoting = {line for line in lines if any(sentence in line.casefold() for sentence in refusals)}
    return "\n".join([line for line in text.split("\n") if without_bullet(line) not in quoting])


def correct_failures(text: str, find_failures: Callable[[], Failures]) -> list[Item]:
    """Return the steps that a summary reports as failing although the same thing succeeded later, oldest first.

    Args:
        find_failures: Returns the failures in all messages. Most summaries report none, and finding them takes long.
    """
    lines = [item for item in parse(text) if item.section is Section.BLOCKED or tells_error(item.text)]
    mended = find_failures().mended_items() if lines else []
    return [item for item in mended if item.text not in text and any(is_reported(item, line.text) for line in lines)]


def name_facts(facts: Findings, identifiers_tokens: int, max_tokens: int, size: Size) -> str:
    """Return the facts that a model's summary should have word for word, under its headings; empty if there are none.

    Args:
        identifiers_tokens: The most tokens of identifiers.
        max_tokens: The most the summary may hold.
        size: Size of a text in tokens.
    """
    identifiers = items_under(facts.items if identifiers_tokens else (), Section.IDENTIFIERS)
    most = int(max_tokens * NAMED_RATIO)
    known = {item.text for item in facts.earlier}

    items = [
        *newest_fitting([item for item in facts.constraints if item.text not in known], most, size),
        *newest_fitting(facts.failures.mended_items(), most // 2, size),
        *newest_fitting(facts.tasks, most // 2, size),
        *first_fitting(identifiers, identifiers_tokens, size),
    ]
    return neutralize(render([*map(as_data, items)]))


def newest_fitting(items: Sequence[Item], room: int, size: Size) -> list[Item]:
    """Return as many of the last items as fit into so many tokens."""
    return first_fitting(items[::-1], room, size)[::-1]


def first_fitting(items: Iterable[Item], room: int, size: Size) -> list[Item]:
    """Return as many of the first items as fit into so many tokens."""
    fitting: list[Item] = []
    for item in items:
        line = f"{item.group}: {item.text}" if item.group else item.text
        room -= size(line) + LINE_TOKENS
        if room < 0:
            break
        fitting.append(item)
    return fitting
