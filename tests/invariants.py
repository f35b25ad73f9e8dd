"""Runs a conversation call by call through a real controller and checks, at every call, what must always hold."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compaction_hooks import CompactionController, CompactionSettings, Usage
from compaction_hooks.events import CompactionEvent, CompactionFailed, CompactionFinished
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.validity import worsened

ChatMessage = Mapping[str, Any]
Count = Callable[[str], int]


@dataclass
class Report:
    """What one conversation at one window did. Sizes in tokens of the real tokenizer."""

    calls: int = 0
    compactions: int = 0
    largest_view: int = 0
    over_window: list[int] = field(default_factory=list)
    over_target: int = 0
    sent_with: int = 0
    sent_without: int = 0


class Sizer:
    """Counts messages with a real tokenizer, each object once."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._sizes: dict[int, tuple[ChatMessage, int]] = {}

    def message(self, message: ChatMessage) -> int:
        held = self._sizes.get(id(message))
        if held is None:
            held = self._sizes[id(message)] = (message, sum(map(self._count, _texts(message))) + 4)
        return held[1]

    def messages(self, messages: Sequence[ChatMessage]) -> int:
        return sum(map(self.message, messages))


def _texts(message: ChatMessage) -> list[str]:
    """What a provider would tokenise; an image is billed by its size, not by its base64 text."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    parts = content if isinstance(content, list) else []
    texts += [part["text"] for part in parts if isinstance(part.get("text"), str)]
    for call in message.get("tool_calls") or ():
        texts += [call["function"]["name"], call["function"]["arguments"]]
    reasoning = message.get("reasoning_content")
    return [*texts, reasoning] if isinstance(reasoning, str) else texts


def run_and_check(
    record: Mapping[str, Any],
    window: int,
    count: Count,
    *,
    reports_usage: bool,
    settings: CompactionSettings | None = None,
) -> Report:
    """Replay one normalised record; raise AssertionError at the first call where something does not hold."""
    events: list[CompactionEvent] = []
    controller = CompactionController(context_window=window, on_event=events.append, settings=settings)
    budget = controller.settings.budget(window)
    messages: list[ChatMessage] = record["messages"]
    before = copy.deepcopy(messages)
    tools = record.get("tools")
    sizer, report = Sizer(count), Report()
    tool_tokens = count(json.dumps(tools)) if tools else 0
    last_view: list[ChatMessage] = []
    for index in (i for i, message in enumerate(messages) if message["role"] == "assistant" and i):
        host = list(messages[:index])
        events.clear()
        view = controller.transform_context_sync(host, tools=tools)
        again = controller.transform_context_sync(host, tools=tools)
        assert len(again) == len(view), "a second run gives another view"
        assert all(map(_same, view, again)), "a second run gives another view"
        size = sizer.messages(view) + tool_tokens
        finished = [event for event in events if isinstance(event, CompactionFinished)]
        loud = [event for event in events if isinstance(event, CompactionFailed) and event.is_over_window]
        report.calls += 1
        report.compactions += len(finished)
        report.largest_view = max(report.largest_view, size)
        report.sent_with += size
        report.sent_without += sizer.messages(host) + tool_tokens
        _check_view(host, view)
        if loud:
            report.over_window.append(index)
            assert not finished, "the list that cannot be made to fit comes back as it was"
        else:
            assert size <= window, f"call {index}: {size} tokens in a window of {window}"
        if report.compactions == 0:
            assert view is host, "below the threshold the same list comes back"
        for event in finished:
            assert event.tokens_after <= event.tokens_before * 0.9 or event.tokens_before > window, "no gain"
            report.over_target += event.tokens_after > budget.target
            assert event.tokens_after <= budget.target or _is_last_step(host, view), "above the target"
        if not finished and not loud and last_view:
            assert json.dumps(view[: len(last_view)]) == json.dumps(last_view), "the prefix moved between compactions"
        last_view = [] if loud else list(view)
        if reports_usage:
            controller.report_usage(Usage(input_tokens=size, output_tokens=0), again)
    assert messages == before, "the host's messages were changed"
    return report


def _same(one: ChatMessage, other: ChatMessage) -> bool:
    return one is other or one == other


def _check_view(host: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> None:
    places = {id(message): place for place, message in enumerate(host)}
    kept = [places[id(message)] for message in view if id(message) in places]
    systems = [place for place, message in enumerate(host) if message["role"] == "system"]
    assert set(systems) <= set(kept), "a system message is missing"
    requests = [place for place, message in enumerate(host) if message["role"] == "user"]
    if requests:
        assert requests[-1] in kept, "the current request is missing"
    spoken = [place for place in kept if place not in systems]
    assert spoken == sorted(spoken), "kept messages changed their order"
    # Pins, then a suffix: from the end back, view and host go in step, a reduced copy standing for its original.
    step = 0
    request = host[requests[-1]] if requests else None
    while step < min(len(view), len(host)) and _stands_for(view[-1 - step], host[-1 - step], request):
        step += 1
    rest = [m for m in view[: len(view) - step] if m["role"] != "system"]
    assert all(id(m) in places or m["role"] == "user" for m in rest), (
        "something else than pins stands before the suffix"
    )
    assert step > 0
    format = OpenAIChatFormat()
    read_host = [piece for message in host for piece in format.read(message)]
    read_view = [piece for message in view for piece in format.read(message)]
    broken = worsened(read_host, read_view, "openai_chat")
    assert not broken, broken


def _stands_for(shown: ChatMessage, original: ChatMessage, request: ChatMessage | None) -> bool:
    if shown is original:
        return True
    if original is request or shown["role"] != original["role"] or shown.keys() != original.keys():
        return False
    is_shortened = "characters left out" in json.dumps(shown["content"])
    return shown["role"] in ("tool", "assistant") or (shown["role"] == "user" and is_shortened)


def _is_last_step(host: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> bool:
    """Whether what is kept beside system messages, summary and pins is the last step alone."""
    spoken = [message["role"] for message in host if message["role"] != "system"]
    last = len(spoken)
    while last > 0 and spoken[last - 1] != "assistant":
        last -= 1
    if last == len(spoken) or "tool" in spoken[last:]:
        while last > 0 and spoken[last - 1] == "assistant":
            last -= 1
    kept = [message for message in view if message["role"] != "system"]
    return len(kept) <= len(spoken) - last + 2
