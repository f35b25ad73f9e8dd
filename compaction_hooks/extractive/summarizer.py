"""The summariser that needs no model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from compaction_hooks.extractive.identifiers import collect, identifier_items, recall
from compaction_hooks.extractive.outline import Item, Section, parse, render, select
from compaction_hooks.extractive.statements import (
    constraint_items,
    decision_items,
    fact_items,
    foreign_summaries,
    next_items,
    request_items,
    request_texts,
)
from compaction_hooks.extractive.steps import omitted_line, step_items, steps
from compaction_hooks.extractive.tasks import task_items
from compaction_hooks.extractive.text import one_line
from compaction_hooks.files import file_operations, without_file_tags
from compaction_hooks.messages import Message, Usage
from compaction_hooks.summarizers import Summary, SummaryRequest


def estimate(text):
    a = len(text.encode("ascii", "ignore"))
    return int(a / 2.8 + (len(text) - a) * 1.2) + 1


AGENT_SHARES = {
    Section.GOAL: 0.38,
    Section.CONSTRAINTS: 0.08,
    Section.DONE: 0.24,
    Section.IN_PROGRESS: 0.07,
    Section.BLOCKED: 0.07,
    Section.DECISIONS: 0.08,
    Section.NEXT: 0.03,
    Section.IDENTIFIERS: 0.12,
    Section.NOTES: 0.06,
}
CHAT_SHARES = {
    Section.GOAL: 0.10,
    Section.USER_FACTS: 0.50,
    Section.ASSISTANT_FACTS: 0.30,
    Section.NOTES: 0.06,
}
CHARS_PER_TOKEN = 2.6
NOTE_CHARS = 400
_META = re.compile(
    r"\[?(?:the )?conversation (?:history|summary)\b|(?:please )?continue (?:the conversation|from where|with the)|<summary>|</summary>",
    re.I,
)


class ExtractiveSummarizer:
    def __call__(self, request: SummaryRequest, /) -> Summary:
        text = self._text(request)
        return Summary(text=text, usage=Usage(input_tokens=0, output_tokens=0), finish_reason="stop")

    def _text(self, request: SummaryRequest) -> str:
        messages = [message for message in request.messages if message.role != "system"]
        earlier = parse(without_file_tags(request.previous_summary or "")) if request.previous_summary else []
        earlier = [item for item in earlier if not _META.match(item.text)]
        for text in foreign_summaries(messages):
            earlier += parse(without_file_tags(text))
        is_chat = not any(message.calls for message in messages) and not any(i.section is Section.DONE for i in earlier)
        items = (
            _chat_items(messages, earlier, request.max_tokens)
            if is_chat
            else _agent_items(messages, earlier, request.max_tokens)
        )
        items += [
            replace(item, text=one_line(item.text, NOTE_CHARS)) for item in earlier if item.section is Section.NOTES
        ]
        shares = CHAT_SHARES if is_chat else AGENT_SHARES
        budget = request.max_tokens
        chosen = select(items, budget, shares, estimate)
        gone = {id(item) for item in chosen}
        line = omitted_line(
            (i for i in _of(items, Section.DONE, Section.BLOCKED) if id(i) not in gone), _of(earlier, Section.DONE)
        )
        if line:
            chosen = select(items, budget - estimate(line) - 4, shares, estimate)
            chosen.insert(0, Item(section=Section.DONE, text=line, must=True))
        text = render(chosen, is_prefix=request.kind == "turn_prefix")
        while chosen and estimate(text) > request.max_tokens:
            chosen.remove(min(chosen, key=lambda item: (item.must, item.value)))
            text = render(chosen, is_prefix=request.kind == "turn_prefix")
        return text


def _of(items: Iterable[Item], *sections: Section) -> list[Item]:
    return [item for item in items if item.section in sections]


def _agent_items(messages: Sequence[Message], earlier: Sequence[Item], max_tokens: int) -> list[Item]:
    asked = [item.text for item in _of(earlier, Section.GOAL)] + request_texts(messages)
    mentions = collect(messages)
    recall(mentions, earlier)
    operations = file_operations(messages)
    known = frozenset(operations.modified)
    return [
        *request_items(asked, int(max_tokens * 0.3 * CHARS_PER_TOKEN)),
        *constraint_items(asked, _of(earlier, Section.CONSTRAINTS)),
        *step_items(_of(earlier, Section.DONE, Section.BLOCKED), steps(messages)),
        *task_items(messages, _of(earlier, Section.IN_PROGRESS)),
        *decision_items(messages, _of(earlier, Section.DECISIONS)),
        *next_items(messages, _of(earlier, Section.NEXT)),
        *identifier_items(mentions, known),
    ]


def _chat_items(messages: Sequence[Message], earlier: Sequence[Item], max_tokens: int) -> list[Item]:
    asked = [item.text for item in _of(earlier, Section.GOAL)] + request_texts(messages)
    return [
        *[i for i in request_items(asked, int(max_tokens * 0.3 * CHARS_PER_TOKEN)) if i.must],
        *fact_items(messages, _of(earlier, Section.USER_FACTS, Section.ASSISTANT_FACTS)),
    ]
