"""Damages to the default summary, and a session in which each of them shows."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compaction_hooks import ExtractiveSummarizer, Summary, SummaryRequest
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import system, talk, user
from tests.replay.samples import forgetful_conversation

WINDOW = 10_000
"""Small enough for two compactions, which take away all that the session needs later."""
WISH = "It should print the total first."
"""A constraint by the rules of the replay, and none by those of the controller, which puts its own back."""
MOST_CHARS = 12_000
"""The characters that a model of a smaller window reads at a time."""
PRICED = "claude-sonnet-4-5"
"""A model with known prices."""

_default = ExtractiveSummarizer()


def needy_conversation() -> list[Mapping[str, Any]]:
    """Return a conversation with a constraint, an order and a file in its beginning; later the agent names the last two again."""
    _, _, *others = forgetful_conversation(between=talk(24, 250))
    return [system(), user(f"Look after the order. {WISH}"), *others]


def without_names(request: SummaryRequest) -> Summary:
    """Write the default summary, every word blackened that may be a name: it has a digit, an inner capital or an inner mark."""
    summary = _default(request)
    return replace(summary, text=re.sub(r"\S*(?:\d|\w[A-Z]|[\w/][/._-]\w)\S*", "###", summary.text))


def without_wishes(request: SummaryRequest) -> Summary:
    """Write the default summary, its names whole, without the lines of the user's words."""
    summary = _default(request)
    lines = [line for line in summary.text.splitlines() if "should" not in line]
    return replace(summary, text="\n".join(lines))


def ten_times_as_long(request: SummaryRequest) -> Summary:
    """Write ten times as many tokens as a summary may have."""
    summary = _default(request)
    times = 10 * request.max_tokens // max(CharacterEstimator().estimate_tokens(summary.text), 1)
    return replace(summary, text="\n".join([summary.text] * (times + 1)))


def down_after_its_first_part(request: SummaryRequest) -> Summary:
    """Write the default summary of half of the messages, as a model with a smaller window; then the model is gone."""
    if request.kind == "update":
        raise ConnectionError("down")
    if len(request.transcript) > MOST_CHARS:
        raise ValueError("prompt is too long: 20000 tokens > 8192 maximum")
    return _default(request)


async def talkative(request: SummaryRequest) -> Summary:
    """Write the default summary, and fill all the room that there is with a repetition of the conversation."""
    summary = _default(request)
    size, text = CharacterEstimator().estimate_tokens, summary.text
    words = [word for message in request.messages for word in repr(message.parts).split()]
    while words and size(text) < 0.9 * request.max_tokens:
        text, words = f"{text} {' '.join(words[:20])}", words[20:]
    return replace(summary, text=text)
