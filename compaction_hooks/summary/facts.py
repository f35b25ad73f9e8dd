"""The facts that a summary must not lose: named to a model before it writes, and put back if its summary lacks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial

from compaction_hooks.files.operations import CallMade, read_calls, words_of_refusal
from compaction_hooks.messages import Message
from compaction_hooks.summary.extractive import Found, find_items
from compaction_hooks.summary.extractive.outline import OF_USER, Item, Section, as_data, parse, render, without_bullet
from compaction_hooks.summary.extractive.statements import (
    SHORT_CHARS,
    constraint_items,
    is_prose,
    request_texts,
)
from compaction_hooks.summary.extractive.steps import (
    Failures,
    is_reported,
    parse_step,
    tells_error,
    told_refusals,
)
from compaction_hooks.summary.extractive.tasks import task_items
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


class CoveredFacts:
    """The messages that a summary covers and those that stay next to it, and their facts: each is read once, when it is asked for.

    Attributes:
        messages: Those that are summarized, oldest first.
        previous_summary: The summary to update, or None.
        kept: Those that stay in the context: they close tasks and mend failures.
    """

    def __init__(self, messages: tuple[Message, ...], previous_summary: str | None, kept: tuple[Message, ...]) -> None:
        self.messages, self.previous_summary, self.kept = messages, previous_summary, kept

    @cached_property
    def calls(self) -> Sequence[CallMade]:
        """The tool calls of the messages, those written as XML too."""
        return read_calls(read_xml_calls(self.messages))

    @cached_property
    def kept_calls(self) -> Sequence[CallMade]:
        """The tool calls of the kept messages."""
        return read_calls(self.kept)

    @cached_property
    def earlier(self) -> Sequence[Item]:
        """The items of the previous summary."""
        return parse(self.previous_summary or "")

    @cached_property
    def failures(self) -> Failures:
        """The failures of all these calls and of the previous summary, and which of them were mended."""
        blocked = (parse_step(item.text) for item in self.earlier if item.section is Section.BLOCKED)
        earlier = Failures({step.signature: step for step in blocked if step.failed})
        return earlier.add([*self.calls, *self.kept_calls])

    @cached_property
    def tasks(self) -> Sequence[Item]:
        """The tasks that are still open."""
        begun = [item for item in self.earlier if item.section is Section.IN_PROGRESS]
        return task_items(self.messages, self.calls, begun, self.kept, self.kept_calls)

    @cached_property
    def constraints(self) -> Mapping[int, Sequence[Item]]:
        """The user's constraints in the messages, oldest first, by the identity of their message."""
        of_user = (message for message in self.messages if message.role == "user")
        return {id(message): constraint_items(request_texts([message]), ()) for message in of_user}

    @cached_property
    def found(self) -> Found:
        """The items of the default summary, but for goals in the words of a model."""
        return find_items(self.messages, self.previous_summary, self.kept, (Section.ASKED,))


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


def name_facts(facts: CoveredFacts, identifiers_tokens: int, max_tokens: int, size: Size) -> str:
    """Return the facts that a model's summary should have word for word, under its headings; empty if there are none.

    Args:
        identifiers_tokens: The most tokens of identifiers.
        max_tokens: The most the summary may hold.
        size: Size of a text in tokens.
    """
    found = facts.found.items if identifiers_tokens else ()
    identifiers = [item for item in found if item.section is Section.IDENTIFIERS]
    said = int(max_tokens * NAMED_RATIO)
    constraints = {item.text: item for found in facts.constraints.values() for item in found}
    items = [
        *newest_fitting([*constraints.values()], said, size),
        *newest_fitting(facts.failures.mended_items(), said // 2, size),
        *newest_fitting(facts.tasks, said // 2, size),
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
