"""The default summarizer: deterministic, no model, no network. Its findings, their shares of a summary, and the choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import is_
from typing import NamedTuple

from compaction_hooks.files import remove_file_tags
from compaction_hooks.files.operations import find_touched_files, read_calls
from compaction_hooks.messages import Message, Opaque, Part, Text, ToolCall, ToolResult, Usage, Value
from compaction_hooks.summary.extractive.causes import cause_items
from compaction_hooks.summary.extractive.identifiers import collect_mentions, find_names, identifier_items
from compaction_hooks.summary.extractive.outline import (
    BULLETS,
    CLOSE_REQUEST,
    OF_USER,
    OPEN_REQUEST,
    PARENTS,
    REQUESTS,
    Item,
    Section,
    as_data,
    parse,
    render,
)
from compaction_hooks.summary.extractive.statements import (
    constraint_items,
    foreign_items,
    request_items,
    request_texts,
)
from compaction_hooks.summary.extractive.steps import make_omitted_line, read_steps, step_items
from compaction_hooks.summary.extractive.tasks import state_items, task_items
from compaction_hooks.summary.extractive.text import ASCII_CHARS_PER_TOKEN, both_ends, size
from compaction_hooks.summary.extractive.told import fact_items, names_item, note_items
from compaction_hooks.summary.harness import is_summary_message, read_xml_calls, strip_harness
from compaction_hooks.summary.request import Summary, SummaryRequest
from compaction_hooks.text.escaping import neutralize, remove_noise
from compaction_hooks.tokens.estimator import CharacterEstimator, TokenEstimator

REQUESTS_SHARE = 0.36
"""The part of a summary that the first and the newest request may take together."""
WORK_SHARES: Mapping[Section, float] = {
    Section.GOAL: 0.6,
    Section.CONSTRAINTS: 0.08,
    Section.DONE: 0.24,
    Section.IN_PROGRESS: 0.07,
    Section.BLOCKED: 0.07,
    Section.STATE: 0.08,
    Section.USER_FACTS: 0.05,
    Section.ASSISTANT_FACTS: 0.03,
    Section.IDENTIFIERS: 0.14,
    Section.NOTES: 0.06,
}
"""The part of a summary that each section may take in the first round, for work with tools. They overlap on purpose."""
CHAT_SHARES: Mapping[Section, float] = {
    **WORK_SHARES,
    Section.GOAL: 0.10,
    Section.USER_FACTS: 0.50,
    Section.ASSISTANT_FACTS: 0.30,
}
"""The same for a conversation without tools, in which facts are all that can be asked for."""
RESERVED: Mapping[Section, float] = {Section.CAUSES: 0.095}
"""The part of a summary that a section has, before others have theirs, and no more: without it, what was found out is left out
as soon as there are many steps. `size` counts more than an estimator does: these are at most 8 % of the tokens."""
OMITTED_SHARE = 0.4
"""The most of a summary that the line takes that counts the steps left out."""
FOCUS_FACTOR = 4.0
"""Factor for an item that mentions the caller's focus."""
FULL = 0.85
"""A summary that takes this part of its allowance is full: a smaller one is made anew, with more of the requests."""
MAX_TEXT_CHARS = 100_000
"""The most characters of one text that are read, half from each end: a larger text was pasted, and a pattern that runs over
it stops every thread."""
LINE_TOKENS = 4
"""About the tokens of a line's bullet, or of the comma between two names."""
TRIES, MOST_TRIES = 6, 20
"""Choices after which each leaves a fifth less room, and the most choices: the line of the steps left out grows as others go."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExtractiveSummarizer(Value):
    """A summarizer that chooses and does not write: the same messages give the same summary, without a model or a network.

    It keeps the user's requests and constraints word for word, each step with its outcome, open tasks and failures, and the
    identifiers that later steps are likely to need. Its own earlier summary is read back, merged, and aged out item by item; one
    by a model or by hand is kept line by line, its identifiers first.

    Attributes:
        estimator: Measures the summary against `max_tokens`.
    """

    estimator: TokenEstimator = field(default_factory=CharacterEstimator)

    def __call__(self, request: SummaryRequest, /) -> Summary:
        """Return a summary of at most `request.max_tokens` tokens; empty when there is nothing to say or no room to say it."""
        text = _summarize(request, self.estimator)
        return Summary(text=text, usage=Usage(input_tokens=0, output_tokens=0), finish_reason="stop", is_by_rule=True)


def summarize_by_rule(
    messages: Sequence[Message],
    previous_summary: str | None,
    max_tokens: int,
    kept: tuple[Message, ...] = (),
) -> str:
    """Return a summary made without a model, which replaces the previous one."""
    request = SummaryRequest(
        system="",
        prompt="",
        transcript="",
        previous_summary=previous_summary,
        focus=None,
        kind="update" if previous_summary else "history",
        max_tokens=max_tokens,
        messages=tuple(messages),
        kept_messages=kept,
    )
    return _summarize(request, CharacterEstimator())


class Found(NamedTuple):
    """The items of messages and of an earlier summary.

    Attributes:
        asked: The user's requests, word for word, oldest first.
        items: All other items, in the order of the text's sections, identifiers last.
        earlier: Those of the earlier summary, and of summaries by other systems in the messages.
        is_chat: Whether the conversation has no tools.
        is_present: Whether the newest of `asked` is the user's present request: no kept message has one.
    """

    asked: list[str]
    items: Sequence[Item]
    earlier: Sequence[Item]
    is_chat: bool
    is_present: bool

    @property
    def shares(self) -> Mapping[Section, float]:
        """The part of a summary that each section may take in the first round."""
        return CHAT_SHARES if self.is_chat else WORK_SHARES

    def list_items(self, max_tokens: int) -> list[Item]:
        """Return all items for a summary of this size: requests are cut to their share, or to the room that nothing else needs."""
        asked = self.asked[:1] + self.asked[1:][-1:] if self.is_chat else self.asked  # the others are facts
        request_all = partial(request_items, asked, max_tokens * REQUESTS_SHARE, is_present=self.is_present)
        requests = request_all()
        needed = (item for item in (*self.items, *requests) if item.value > 0)
        spare = FULL * max_tokens - sum(size(item.text) + LINE_TOKENS for item in needed)
        return [*(request_all(spare) if spare > 0 else requests), *self.items]


def find_items(
    messages: Sequence[Message],
    previous_summary: str | None,
    kept: Sequence[Message],
    asked_under: Sequence[Section] = (Section.GOAL, Section.ASKED),
) -> Found:
    """Return the items of these messages and of the summary before them.

    Args:
        asked_under: The sections of that summary whose items are requests of the user, word for word.
        kept: The messages that stay next to the summary: they close tasks and mend failures, and need not be repeated.
    """
    messages = [_prepare(message) for message in read_xml_calls(messages) if message.role != "system"]
    earlier = parse(remove_file_tags(previous_summary or "")) + foreign_items(messages)

    # Without calls, facts are all there is; an earlier summary with steps says that there were some.
    has_steps = any(message.calls or message.results for message in messages)
    is_chat = not has_steps and not _items_under(earlier, Section.DONE, Section.IDENTIFIERS)
    return _collect_items(messages, earlier, kept, asked_under, is_chat=is_chat)


def _summarize(request: SummaryRequest, estimator: TokenEstimator) -> str:
    found = find_items(request.messages, request.previous_summary, request.kept_messages)
    previous = remove_file_tags(request.previous_summary or "")
    names = names_item(previous, parse(previous), request.max_tokens)
    items = [as_data(item) for item in names + found.list_items(request.max_tokens)]
    if request.focus:
        items = _weigh_by_focus(items, request.focus)
    text = _write(items, found, request, estimator)
    if not text and request.kept_messages:  # an empty summary is refused: rather repeat kept messages
        shown = replace(request, prompt="", transcript="", omitted_items=0, kept_messages=())
        return _summarize(shown, estimator)
    return text


def _write(
    items: Sequence[Item],
    found: Found,
    request: SummaryRequest,
    estimator: TokenEstimator,
) -> str:
    """Return the items that fit, as text."""
    best, line = "", ""
    room = float(request.max_tokens)
    for attempt in range(MOST_TRIES):
        chosen = select(items, room - size(line), found.shares)
        kept = {id(item) for item in chosen}
        dropped = [item for item in _items_under(items, Section.DONE, Section.BLOCKED) if id(item) not in kept]
        line = make_omitted_line(dropped, _items_under(found.earlier, Section.DONE), request.max_tokens * OMITTED_SHARE)
        if line:
            chosen.insert(0, Item(section=Section.DONE, text=line))
        text = neutralize(render(chosen))

        tokens = estimator.estimate_tokens(text)
        if tokens <= request.max_tokens:
            best = max(best, text, key=len)
            if attempt or tokens > FULL * request.max_tokens:
                break

        # `size` is rough: scale the room by the error of the last try.
        factor = 0.98 * request.max_tokens / max(tokens, 1)
        room *= factor if attempt + 1 < TRIES else min(factor, 0.8)
    return best


def _prepare(message: Message) -> Message:
    """Return a message to read; most are read as they are."""
    parts = [*map(_prepare_part, message.parts)]
    return message if all(map(is_, parts, message.parts)) else replace(message, parts=tuple(parts))


def _prepare_part(part: Part) -> Part:
    """Return a part to read: the two ends of its text, without the harness's blocks or noise; a provider's tool as a call."""
    if isinstance(part, Opaque) and part.content:
        return ToolCall("", part.name or part.kind, part.content)
    if not isinstance(part, Text | ToolResult):
        return part
    clean = strip_harness if isinstance(part, Text) else remove_noise
    text = clean(both_ends(part.text, MAX_TEXT_CHARS // 2))
    return part if text == part.text else replace(part, text=text)


def _collect_items(
    messages: Sequence[Message],
    earlier: Sequence[Item],
    kept: Sequence[Message],
    asked_under: Sequence[Section],
    *,
    is_chat: bool,
) -> Found:
    calls = read_calls(messages)
    kept_calls = read_calls(kept)
    shown = request_texts([message for message in kept if not is_summary_message(message)])
    goals = _items_under(earlier, *asked_under)
    asked = request_texts(messages, [item.text for item in goals])
    asked = [text for text in asked if text not in shown]
    messages = [message for message in messages if not message.is_summary]
    facts = _items_under(earlier, Section.USER_FACTS, Section.ASSISTANT_FACTS)
    if is_chat:
        facts = goals + facts

    limits = [
        item for item in _items_under(earlier, Section.CONSTRAINTS) if not any(item.text in text for text in shown)
    ]
    items = [
        *constraint_items(asked, limits),
        *step_items(_items_under(earlier, Section.DONE, Section.BLOCKED), read_steps(calls), read_steps(kept_calls)),
        *task_items(messages, calls, _items_under(earlier, Section.IN_PROGRESS), kept, kept_calls),
        *cause_items(() if is_chat else messages, _items_under(earlier, Section.CAUSES), kept),
        *fact_items(messages if is_chat else (), facts),
        *note_items(_items_under(earlier, Section.NOTES)),
    ]
    if not is_chat:
        items += state_items(messages, _items_under(earlier, Section.STATE))
        # Names that are not elsewhere in the context: the file lists have modified paths.
        mentions = collect_mentions(messages, calls, earlier)
        items += identifier_items(mentions, find_names(kept, mentions).union(find_touched_files(calls).modified))
    return Found(asked, items, earlier, is_chat, is_present=not shown)


def _items_under(items: Iterable[Item], *sections: Section) -> list[Item]:
    return [item for item in items if item.section in sections]


def _weigh_by_focus(items: Iterable[Item], focus: str) -> list[Item]:
    """Return the items, with a higher value for those that share a longer word with the focus."""
    words = [word for word in focus.casefold().split() if len(word) > 3 or not word.isascii()]
    return [
        item._replace(value=item.value * FOCUS_FACTOR) if any(word in item.text.casefold() for word in words) else item
        for item in items
    ]


# -- the choice


def select(items: Sequence[Item], max_size: float, shares: Mapping[Section, float]) -> list[Item]:
    """Return the items that fit, in the order of `items`.

    First those that must be chosen and those of reserved sections, then the most valuable of each section within its share, then
    the most valuable others, and identifiers as far as their share reaches. An item whose text is part of a chosen one is not
    repeated, except requests; words of the user are only left out for other words of the user.

    Args:
        items: Identifiers last, best first. Those without value are not chosen, even if there is room.
        max_size: For the whole text, headings included, as `text.size` measures.
        shares: The part that a section may take in the first round of the room that identifiers leave.
    """
    names = next((at for at, item in enumerate(items) if item.section is Section.IDENTIFIERS), len(items))
    share = min(sum(len(item.text) + 2 for item in items[names:]) / ASCII_CHARS_PER_TOKEN, max_size * NAMES_SHARE)
    others = max_size - share
    budget = _Budget(max_size)
    worth = (index for index in range(names) if items[index].value > 0)
    order = sorted(worth, key=lambda index: (-items[index].value, -index))
    for index in order:
        budget.take(index, items[index], max_size * RESERVED.get(items[index].section, items[index].must))
    budget.room -= share
    for index in order:
        budget.take(index, items[index], others * shares.get(items[index].section, 0.0))
    for index in order:
        budget.take(index, items[index], others * RESERVED.get(items[index].section, 1.0))
    budget.room += share
    for index in range(names, len(items)):
        budget.take(index, items[index], max_size * (1.0 if items[index].value >= SURE_VALUE else NAMES_SHARE))
    return [items[index] for index in sorted(budget.chosen)]


NAMES_SHARE = 0.3
"""The part of a summary that is for identifiers. With a fifth less at 64,000 tokens, recorded summaries had 67 % of the names that
the next steps needed, for 81."""
SURE_VALUE = 1.7
"""Identifiers of this value, which the user named just now, take any room that is left."""


class _Budget:
    """The items chosen so far, and their cost."""

    def __init__(self, max_size: float) -> None:
        self.chosen: set[int] = set()
        self.room = max_size
        self._spent: dict[Section, float] = {}
        self._groups: set[tuple[Section, str]] = set()
        self._text: str = ""
        self._text_of_user: str = ""

    def take(self, index: int, item: Item, section_limit: float) -> None:
        """Choose an item if it fits and says something new."""
        if index in self.chosen or len(item.text) > self.room * ASCII_CHARS_PER_TOKEN:
            return
        cost = self._cost(item)
        spent = self._spent.get(item.section, 0.0)
        if cost > self.room or spent + cost > section_limit:
            return
        # A request is always an item of its own, even one as short as "yes".
        is_users = item.section in OF_USER
        if item.section not in REQUESTS and item.text in (self._text_of_user if is_users else self._text):
            return
        self.chosen.add(index)
        self.room -= cost
        self._spent[item.section] = spent + cost
        self._groups.add((item.section, item.group))
        self._text += item.text + "\n"
        self._text_of_user += item.text + "\n" if is_users else ""

    def _cost(self, item: Item) -> float:
        """Return the size of an item with the bullet, the key and the headings that it adds."""
        if item.group and (item.section, item.group) in self._groups:
            return size(", " + item.text)
        lead = BULLETS.get(item.section, "- ") + "\n"
        if item.section is Section.IDENTIFIERS:
            lead += item.group + ": "
        if "\n" in item.text:
            lead = OPEN_REQUEST + CLOSE_REQUEST + "\n"
        if item.section not in self._spent:
            parent = PARENTS.get(item.section)
            is_above = parent is None or parent in map(PARENTS.get, self._spent)
            lead += item.section.value + "\n" + ("" if is_above else f"{parent}\n")
        return size(lead + item.text)
