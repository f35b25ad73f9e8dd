"""The error of estimates against real tokenizers and providers, on the recorded conversations."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSession, Usage
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message, Opaque, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.tiktoken_estimator import TiktokenEstimator
from compaction_hooks.tokens import TokenEstimator
from compaction_hooks.tokens.calibration import MINIMUM_GROWTH_TOKENS

FILE = Path(__file__).with_name("fixtures") / "class_texts.json"


@dataclass(frozen=True)
class ClassText:
    """A text and its tokens by cl100k_base and o200k_base, which `tests/internal/tokens/test_tiktoken_estimator.py` recounts."""

    text: str
    cl100k: int
    o200k: int

    @property
    def larger_count(self) -> int:
        """The larger count: cl100k_base's for all but a few texts, up to two and a half times as many outside ASCII."""
        return max(self.cl100k, self.o200k)


CLASS_TEXTS: Mapping[str, ClassText] = {
    name: ClassText(**fields) for name, fields in json.loads(FILE.read_text(encoding="utf-8")).items()
}


def real_tokenizer(encoding: str) -> TokenEstimator:
    """Return a real tokenizer; skip the test if tiktoken or its rank file is not installed."""
    pytest.importorskip("tiktoken")
    estimator = TiktokenEstimator(encoding)
    if estimator.name == "characters":
        pytest.skip(f"needs the rank file of {encoding}: pip install litellm")
    return estimator


PERCENTS = (0, 1, 5, 50, 95, 99, 100)


def quantiles(ratios: Iterable[float]) -> tuple[float, ...]:
    ordered = sorted(ratios)
    return tuple(ordered[round((len(ordered) - 1) * percent / 100)] for percent in PERCENTS)


def read(session: Mapping[str, Any]) -> list[Message]:
    chat = OpenAIChatFormat()
    return [piece for message in session["messages"] for piece in chat.read(message)]


def texts(messages: Iterable[Message]) -> Iterator[str]:
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
    """Return estimated over counted tokens of a conversation's texts, without overhead."""
    return sum(map(estimate, texts(messages))) / sum(map(count, texts(messages)))


@dataclass(frozen=True, slots=True)
class Reported:
    """One recorded model call: the provider's count and the estimate of the same request.

    Attributes:
        view: The start of the request and the model; calls with the same view are growing requests.
    """

    counted: int
    estimated: int
    view: tuple[int, str]


def usage_reports(session: Mapping[str, Any], estimator: TokenEstimator) -> list[Reported]:
    """Return the recorded calls of a conversation; tool schemas are counted if they were recorded."""
    messages: list[Any] = session["messages"]
    sizes = [sum(map(estimator.estimate_message_tokens, OpenAIChatFormat().read(raw))) for raw in messages]
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
    """Yield estimated over counted growth between two calls of one growing view, independently of hidden prefixes."""
    first: Reported | None = None
    for call in calls:
        if first is None or call.view != first.view or call.counted <= first.counted:
            first = call
        elif call.estimated - first.estimated >= MINIMUM_GROWTH_TOKENS:
            yield (call.estimated - first.estimated) / (call.counted - first.counted)
            first = call


# -- sizes by a session before the request is sent

ENDLESS_WINDOW = 10_000_000
"""In tokens; no compaction is ever due in it."""


@dataclass(frozen=True, slots=True)
class Projected:
    """The size of a recorded request by a session before the request was sent.

    Attributes:
        reports: Number of earlier usage reports of this growing view.
        ratio: The session's tokens over the provider's.
    """

    reports: int
    ratio: float


def projections(session: Mapping[str, Any], *, reporting: bool = True) -> Iterator[Projected]:
    """Send the requests of a recorded conversation through a session, each with or without its recorded usage."""
    chat = _endless_session()
    begin, reports = None, 0
    for call in _calls_with_usage(session):
        reports = reports if call["context_start"] == begin else 0
        begin = call["context_start"]
        yield Projected(reports, _estimate_request(chat, session, call) / call["prompt_tokens"])
        if reporting:
            chat.report_usage(Usage(input_tokens=call["prompt_tokens"]))
            reports += 1


def projections_after_compaction(
    session: Mapping[str, Any], tokenizer: TokenEstimator, *, keep_tokens: int
) -> Iterator[float]:
    """Compact a recorded conversation at a third, at two thirds and at its end; yield the session's size over the true size."""
    calls = _calls_with_usage(session)
    for at in sorted({len(calls) // 3, 2 * len(calls) // 3, len(calls) - 1}):
        if at > 3:
            chat = _endless_session()
            for call in calls[:at]:
                _estimate_request(chat, session, call)
                chat.report_usage(Usage(input_tokens=call["prompt_tokens"]))
            request = _request(session, calls[at])
            result = chat.compact_sync(request, keep_recent_tokens=keep_tokens, tools=session.get("tools"))
            yield _size(chat) / _true_size(session, tokenizer, calls[: at + 1], result.messages)


def _true_size(
    session: Mapping[str, Any], tokenizer: TokenEstimator, calls: Sequence[Mapping[str, Any]], view: Sequence[Any]
) -> float:
    """Return the true size of a view of the last call's request, which no provider has counted.

    It is the sum of provider's counts: the first request, and the growth since the start of the kept end. Parts that the compaction
    added or removed are counted by a real tokenizer, scaled by the provider's count of the last request over the tokenizer's.
    """
    first, last = calls[0], calls[-1]
    request = _request(session, last)
    sizes = [sum(map(tokenizer.estimate_message_tokens, OpenAIChatFormat().read(raw))) for raw in request]
    tools = tokenizer.estimate_tokens(json.dumps(session["tools"], ensure_ascii=False)) if session.get("tools") else 0
    places = {id(message): place for place, message in enumerate(request)}
    kept = {places[id(message)] for message in view if id(message) in places}
    end = next(place for place in range(len(request), -1, -1) if place - 1 not in kept)
    from_there = next((call for call in calls if end <= call["index"]), last)
    new = [piece for raw in view if id(raw) not in places for piece in OpenAIChatFormat().read(raw)]
    added = sum(map(tokenizer.estimate_message_tokens, new))
    added += sum(sizes[place] for place in kept if first["index"] <= place < from_there["index"])
    added -= sum(sizes[place] for place in range(first["index"]) if place not in kept)
    ratio = last["prompt_tokens"] / (sum(sizes) + tools)
    return float(first["prompt_tokens"] + last["prompt_tokens"] - from_there["prompt_tokens"] + ratio * added)


def _endless_session() -> CompactionSession[Any]:
    return CompactionController(context_window=ENDLESS_WINDOW).session("recorded")


def _calls_with_usage(session: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [call for call in session.get("usage") or () if call["prompt_tokens"] > 0 < call["index"]]


def _request(session: Mapping[str, Any], call: Mapping[str, Any]) -> list[Any]:
    messages: list[Any] = session["messages"]
    return messages[call["context_start"] : call["index"]]


def _estimate_request(chat: CompactionSession[Any], session: Mapping[str, Any], call: Mapping[str, Any]) -> int:
    """Return the session's size of a recorded request before it is sent."""
    chat.transform_context_sync(_request(session, call), tools=session.get("tools"))
    return _size(chat)


def _size(chat: CompactionSession[Any]) -> int:
    tokens = chat.state().context_tokens
    assert tokens is not None
    return tokens
