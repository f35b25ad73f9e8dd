"""Replay of a conversation call by call through a real controller, with a report of broken promises."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from compaction_hooks import CompactionController, CompactionReason, CompactionSettings, Usage
from compaction_hooks.events import CompactionEvent, CompactionFailed, CompactionFinished
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import BrokenPromise, check_view, generated_history
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.tokens.budget import Budget

ChatMessage = Mapping[str, Any]
Count = Callable[[str], int]

MINIMUM_GROWTH = 0.20
"""Least growth of the context between two threshold compactions, as a share of the size after the first."""
IMAGE_TOKENS = 765
"""An image of 1024 x 1024 pixels (OpenAI, GPT-4o)."""
FRAME_TOKENS = 4
"""Overhead of one message."""
LINE_TOKENS = 40
"""Smallest shortened text, with its marker."""
LEAST_SUMMARY_TOKENS = 250
"""Smallest summary message."""
MINIMUM_GAIN = 0.10
"""Least saving of a compaction, as a share of the replaced view."""

PROMISES = {
    "over budget": "the view fits the window, or an event says that it does not",
    "invalid": "the provider rejects nothing that it would not reject in the host's list",
    "net growth": "a compaction makes the view smaller by a tenth, and at most the target where that can be",
    "mutated": "the host's list and messages are unchanged, and kept messages are the same objects",
    "lost": "system messages, the current request and the order of messages stay",
    "thrash": "the context has grown by a fifth since the last compaction, or may not fit the window",
    "unstable": "the same call gives the same view, and the prefix stays between compactions",
}
_PROMISES_OF_VIEWS = {"valid": "invalid", "system messages": "lost", "current request": "lost"}
"""Promises about the view alone, by their names in `check_view`; all others are about objects."""


@dataclass
class Report:
    """The replay of one conversation at one window. Sizes in tokens of the counting tokenizer.

    Attributes:
        over_window: For each call whose unchanged list was returned with an event because it cannot fit: the share of the
            window that no compaction can free.
        forced: Compactions after less growth than `MINIMUM_GROWTH`, because the view might not have fitted the window.
        growth: Growth of the context before each threshold compaction that was not forced, as a share of the size after the
            compaction before it.
        broken: Broken promises, each with a description.
    """

    calls: int = 0
    compactions: int = 0
    largest_view: int = 0
    over_window: dict[int, float] = field(default_factory=dict)
    forced: int = 0
    growth: list[float] = field(default_factory=list)
    sent_with: int = 0
    sent_without: int = 0
    broken: list[tuple[str, str]] = field(default_factory=list)

    def expect(self, promise: str, is_kept: bool, what: str) -> None:
        """Record a broken promise unless `is_kept`."""
        assert promise in PROMISES
        if not is_kept:
            self.broken.append((promise, f"call {self.calls}: {what}"))


Measure = Callable[[ChatMessage], int]
"""Returns the tokens of one message."""


def estimate_message(message: ChatMessage) -> int:
    """Return the size by the estimator in use, by which every view must fit."""
    return sum(map(CharacterEstimator().estimate_message_tokens, OpenAIChatFormat().read(message)))


def measure_by(count: Count) -> Measure:
    """Return a measure by a tokenizer that does not use our formats; an image counts by its size, not by its base64 text."""
    return lambda message: sum(map(count, _texts(message))) + _images(message) * IMAGE_TOKENS + FRAME_TOKENS


class Sizer:
    """Measures messages, and caches the size of each object."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._sizes: dict[int, tuple[ChatMessage, int]] = {}

    def message(self, message: ChatMessage) -> int:
        held = self._sizes.get(id(message))
        if held is None:
            held = self._sizes[id(message)] = (message, self._measure(message))
        return held[1]

    def messages(self, messages: Sequence[ChatMessage]) -> int:
        return sum(map(self.message, messages))


def _images(message: ChatMessage) -> int:
    content = message.get("content")
    return sum("image" in part.get("type", "") for part in content) if isinstance(content, list) else 0


def _texts(message: ChatMessage) -> list[str]:
    """Return the texts that a provider would tokenize."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    parts = content if isinstance(content, list) else []
    texts += [part["text"] for part in parts if isinstance(part.get("text"), str)]
    for call in message.get("tool_calls") or ():
        texts += [call["function"]["name"], call["function"]["arguments"]]
    reasoning = message.get("reasoning_content")
    return [*texts, reasoning] if isinstance(reasoning, str) else texts


def run(
    record: Mapping[str, Any],
    window: int,
    measure: Measure,
    *,
    reports_usage: bool,
    settings: CompactionSettings | None = None,
    is_hostile: bool = False,
) -> Report:
    """Replay one normalized record and return the report.

    Args:
        measure: Size of a message, for the check against the window and for reported usage.
        is_hostile: Whether tool calls and results are too disordered to find the last step; then a compaction may stay above the
            target.
    """
    return _Run(record, window, measure, settings, is_hostile).replay(reports_usage=reports_usage)


class _Run:
    def __init__(
        self,
        record: Mapping[str, Any],
        window: int,
        measure: Measure,
        settings: CompactionSettings | None,
        is_hostile: bool,
    ) -> None:
        self._is_hostile = is_hostile
        self._events: list[CompactionEvent] = []
        self._controller = CompactionController(context_window=window, on_event=self._events.append, settings=settings)
        self._budget: Budget = self._controller.settings.budget(window)
        self._messages: list[ChatMessage] = record["messages"]
        self._tools = record.get("tools")
        self._tool_tokens = measure({"role": "system", "content": json.dumps(self._tools)}) if self._tools else 0
        self._sizer = Sizer(measure)
        self._last_view: list[ChatMessage] = []
        self._last_host: list[ChatMessage] = []
        self._last_compaction: CompactionFinished | None = None
        self._summaries: set[str] = set()
        self.report = Report()

    def replay(self, *, reports_usage: bool) -> Report:
        before = copy.deepcopy(self._messages)
        for index in (i for i, message in enumerate(self._messages) if message["role"] == "assistant" and i):
            host = list(self._messages[:index])
            self._events.clear()
            view = self._controller.transform_context_sync(host, tools=self._tools)
            self.report.calls += 1
            self._check(index, host, view)
            if index not in self.report.over_window:
                again = self._controller.transform_context_sync(host, tools=self._tools)
                is_same = len(again) == len(view) and all(map(_same, view, again))
                self.report.expect("unstable", is_same, "a second run gives another view")
            if reports_usage:
                size = self._sizer.messages(view) + self._tool_tokens
                # The usage must be of the last view, which is the second one; usage of another is ignored.
                self._controller.report_usage(Usage(input_tokens=size, output_tokens=0))
                assert not self._controller.state().is_estimate, "the usage was ignored"
        self.report.expect("mutated", self._messages == before, "the host's messages were changed")
        return self.report

    def _check(self, index: int, host: list[ChatMessage], view: list[ChatMessage]) -> None:
        report, budget = self.report, self._budget
        finished = [event for event in self._events if isinstance(event, CompactionFinished)]
        is_loud = any(isinstance(event, CompactionFailed) and event.is_over_window for event in self._events)
        size = self._sizer.messages(view) + self._tool_tokens
        report.compactions += len(finished)
        report.sent_with += size
        report.sent_without += self._sizer.messages(host) + self._tool_tokens
        self._summaries |= {event.record.rendered for event in finished}
        try:
            check_view(host, view, format=OpenAIChatFormat(), summaries=self._summaries)
        except BrokenPromise as broken:
            report.expect(_PROMISES_OF_VIEWS.get(broken.promise, "mutated"), False, str(broken))
        if is_loud:
            report.over_window[index] = self._rigid_tokens(host) / budget.window
            report.expect("unstable", not finished, "a list that cannot be made to fit was compacted")
        else:
            report.largest_view = max(report.largest_view, size)
            report.expect("over budget", size <= budget.window, f"{size} tokens in a window of {budget.window}")
        if report.compactions == 0:
            report.expect("mutated", view is host, "below the threshold another list is returned")
        last = self._last_compaction.record.id if self._last_compaction else None
        if finished and finished[-1].record.parent == last:
            replaced = self._sizer.messages([*self._last_view, *host[len(self._last_host) :]]) + self._tool_tokens
            report.expect("net growth", size < replaced, f"{replaced} tokens became {size}")
        elif not finished and not is_loud and self._last_view and not self._answers_covered_call(host):
            is_stable = json.dumps(view[: len(self._last_view)]) == json.dumps(self._last_view)
            report.expect("unstable", is_stable, "the prefix moved between compactions")
        for event in finished:
            self._check_compaction(event, host, view)
        self._last_view, self._last_host = ([], []) if is_loud else (list(view), host)

    def _rigid_tokens(self, host: Sequence[ChatMessage]) -> int:
        """Return the size of the smallest possible request, by the estimator in use."""
        estimate = CharacterEstimator().estimate_tokens
        capped = measure_by(lambda text: min(estimate(text), LINE_TOKENS))
        request = next((message for message in reversed(host) if message["role"] == "user"), None)
        size = LEAST_SUMMARY_TOKENS + (estimate(json.dumps(self._tools)) if self._tools else 0)
        size += sum(estimate_message(message) for message in host if message["role"] == "system" or message is request)
        for message in host[_last_step(host) :]:
            if message["role"] != "system" and message is not request:
                thoughts = message.get("reasoning_content")
                size += capped(message) + (estimate(thoughts) if isinstance(thoughts, str) else 0)
        return size

    def _answers_covered_call(self, host: Sequence[ChatMessage]) -> bool:
        """Return whether a new result belongs to a tool call that is no longer in the view; its record then does not apply."""
        new = host[len(self._last_host) :]
        shown = {call["id"] for message in (*self._last_view, *new) for call in message.get("tool_calls") or ()}
        return any(message["role"] == "tool" and message.get("tool_call_id") not in shown for message in new)

    def _keeps_least(self, host: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> bool:
        """Whether apart from system messages, summary, pins and request, only the last step or less than a summary is kept."""
        spoken = [message for message in host if message["role"] != "system"]
        kept = [message for message in view if message["role"] != "system"]
        request = next((message for message in reversed(host) if message["role"] == "user"), None)
        more = [m for m in kept[: len(kept) - (len(spoken) - _last_step(spoken))] if m is not request]
        return len(more) <= 2 or self._sizer.messages(more) <= LEAST_SUMMARY_TOKENS

    def _most_tokens(self, host: Sequence[ChatMessage]) -> int:
        """Return the size of the view that was due: counted as far as the last call, estimated beyond."""
        later = host[len(self._last_host) :]
        return self._sizer.messages(self._last_view) + self._tool_tokens + sum(map(estimate_message, later))

    def _check_compaction(self, event: CompactionFinished, host: list[ChatMessage], view: list[ChatMessage]) -> None:
        report, budget = self.report, self._budget
        before, after = event.tokens_before, event.tokens_after
        is_rescue = max(before, self._most_tokens(host)) > budget.window
        report.expect("net growth", after <= before * (1 - MINIMUM_GAIN) or is_rescue, f"{before} became {after}")
        may_be_above = self._is_hostile or after <= budget.target or self._keeps_least(host, view)
        report.expect("net growth", may_be_above, f"{after} is above {budget.target}")
        last, self._last_compaction = self._last_compaction, event
        if last is None or event.reason is not CompactionReason.THRESHOLD:
            return
        if self._is_hostile and event.record.parent != last.record.id:
            return  # the last record does not apply any more, so this compaction began with a larger view
        growth = before / last.tokens_after - 1
        if before >= int(last.tokens_after * (1 + MINIMUM_GROWTH)):
            report.growth.append(growth)
            return
        report.forced += is_rescue
        report.expect("thrash", is_rescue, f"compacted at {before}, {growth:.0%} more than {last.tokens_after}")


def _same(one: ChatMessage, other: ChatMessage) -> bool:
    return one is other or one == other


def _last_step(host: Sequence[ChatMessage]) -> int:
    """Return the start of the last step: the newest change of speaker after which every earlier tool call has its result."""
    calls: dict[str, int] = {}
    last_result = list(range(len(host)))
    for place, message in enumerate(host):
        calls |= {call["id"]: place for call in message.get("tool_calls") or ()}
        asked = calls.get(message.get("tool_call_id", ""))
        if message["role"] == "tool" and asked is not None:
            last_result[asked] = place
    spoken = [place for place, message in enumerate(host) if _side(message) is not None]
    for before, place in reversed(list(pairwise(spoken))):
        if _side(host[before]) != _side(host[place]) and max(last_result[:place]) < place:
            return place
    return spoken[0] if spoken else 0


def _side(message: ChatMessage) -> str | None:
    """Return the side of a message; None for system messages, and for reasoning alone, which belongs to the next answer."""
    if message["role"] == "tool":
        return "host"
    is_said = bool(message.get("content") or message.get("tool_calls"))
    return {"assistant": "assistant", "user": "host"}.get(message["role"]) if is_said else None


WINDOWS = (4_096, 8_192, 16_384, 32_768)
HOSTILE_EVERY = 4
"""Every fourth seed gives a hostile history, as left behind by a framework, crash or edit."""


@dataclass(frozen=True, slots=True)
class GeneratedRun:
    kind: Literal["realistic", "hostile"]
    window: int
    report: Report


def run_generated(seed: int) -> GeneratedRun:
    """Replay the history of a seed, which also determines its kind, its window and whether usage is reported."""
    turn, kind_of = divmod(seed, HOSTILE_EVERY)
    is_hostile = kind_of == HOSTILE_EVERY - 1
    window = WINDOWS[turn % len(WINDOWS)]
    reports_usage = bool(turn // len(WINDOWS) % 2)
    record = {"messages": generated_history(seed, is_hostile=is_hostile)}
    report = run(record, window, estimate_message, reports_usage=reports_usage, is_hostile=is_hostile)
    return GeneratedRun("hostile" if is_hostile else "realistic", window, report)
