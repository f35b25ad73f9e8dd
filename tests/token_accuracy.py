"""How far an estimate is from what real tokenizers and providers count, on the recorded conversations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pytest

from compaction_hooks.calibration import MINIMUM_GROWTH_TOKENS
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message, Opaque, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.tiktoken_estimator import TiktokenEstimator
from compaction_hooks.tokens import TokenEstimator


def real_tokenizer(encoding: str) -> TokenEstimator:
    """A real tokenizer; skips the test where tiktoken or its rank file is not installed."""
    pytest.importorskip("tiktoken")
    estimator = TiktokenEstimator(encoding)
    if estimator.name == "characters":
        pytest.skip(f"needs the rank file of {encoding}: pip install litellm")
    return estimator


PERCENTS = (0, 1, 5, 50, 95, 99, 100)


def quantiles(ratios: Iterable[float]) -> tuple[float, ...]:
    """The `PERCENTS` of some ratios."""
    ordered = sorted(ratios)
    return tuple(ordered[round((len(ordered) - 1) * percent / 100)] for percent in PERCENTS)


def read(session: Mapping[str, Any]) -> list[Message]:
    """The neutral messages of a recorded conversation."""
    chat = OpenAIChatFormat()
    return [piece for message in session["messages"] for piece in chat.read(message)]


def texts(messages: Iterable[Message]) -> Iterator[str]:
    """Everything in messages that a tokenizer sees as text."""
    for part in (part for message in messages for part in message.parts):
        match part:
            case Text(text) | Thinking(text) | Opaque(text=text) | ToolResult(text=text):
                yield text
            case ToolCall():
                yield part.name
                yield part.arguments
            case _:
                pass


def text_ratio(messages: Sequence[Message], estimate: Callable[[str], int], count: Callable[[str], int]) -> float:
    """Estimated over counted tokens of a conversation's texts, one by one, nothing added for what surrounds them."""
    return sum(map(estimate, texts(messages))) / sum(map(count, texts(messages)))


@dataclass(frozen=True, slots=True)
class Reported:
    """One recorded model call: what the provider counted, and the estimate of the same request.

    Attributes:
        view: What tells apart views that grow into one another from others: where the request begins, and the model.
    """

    counted: int
    estimated: int
    view: tuple[int, str]


def reported(session: Mapping[str, Any], estimator: TokenEstimator) -> list[Reported]:
    """The recorded calls of a conversation; tool schemas counted where they were recorded."""
    sizes = [sum(map(estimator.estimate_message_tokens, OpenAIChatFormat().read(raw))) for raw in session["messages"]]
    until = [0, *accumulate(sizes)]
    tools = estimator.estimate_tokens(json.dumps(session["tools"], ensure_ascii=False)) if session.get("tools") else 0
    return [
        Reported(
            call["prompt_tokens"],
            until[call["index"]] - until[call["context_start"]] + tools,
            (call["context_start"], str(call.get("model") or session.get("model"))),
        )
        for call in session.get("usage") or ()
        if call["prompt_tokens"] > 0
    ]


def growths(calls: Sequence[Reported]) -> Iterator[float]:
    """Estimated over counted growth between two calls of one growing view, whatever hides in front of it."""
    first: Reported | None = None
    for call in calls:
        if first is None or call.view != first.view or call.counted <= first.counted:
            first = call
        elif call.estimated - first.estimated >= MINIMUM_GROWTH_TOKENS:
            yield (call.estimated - first.estimated) / (call.counted - first.counted)
            first = call
