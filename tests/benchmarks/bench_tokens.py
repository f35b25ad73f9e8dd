"""How good and how fast the estimate by characters is: the tables of docs/tokens.md.

    pytest tests/benchmarks/bench_tokens.py -s

Needs tiktoken and its rank files (litellm's wheel has them) and, for all but the speed, the recorded conversations.
"""

from __future__ import annotations

import base64
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest

from compaction_hooks.tokens import CharacterEstimator
from tests.data import needs_data, sessions
from tests.token_accuracy import PERCENTS, growths, quantiles, read, real_tokenizer, reported, text_ratio

ESTIMATOR = CharacterEstimator()
MINIMUM_BYTES_PER_SECOND = 10_000_000
"""Half of what an idle machine of two cores does at worst, so that a busy one does not fail."""


def print_table(title: str, ratios: Mapping[str, Iterable[float]]) -> None:
    print(f"\n{title}\n\n| source | n | {' | '.join(f'{percent} %' for percent in PERCENTS)} |")
    print("|---|--:|" + "--:|" * len(PERCENTS))
    for source, values in ratios.items():
        found = list(values)
        print(f"| {source} | {len(found)} | {' | '.join(f'{value:.2f}' for value in quantiles(found))} |")


@needs_data
@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base"])
def test_no_conversation_is_counted_below_a_real_tokenizer(encoding: str) -> None:
    count = real_tokenizer(encoding).estimate_tokens
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for session in sessions():
        ratio = text_ratio(read(session), ESTIMATOR.estimate_tokens, count)
        ratios[session["id"].partition("-")[0]].append(ratio)
        ratios["all"].append(ratio)
    ratios["all"] = ratios.pop("all")
    print_table(f"Text of whole conversations, estimate / {encoding}", ratios)
    assert min(ratios["all"]) >= 1.0


@needs_data
def test_requests_are_estimated_near_what_providers_counted() -> None:
    """On requests recorded whole: system prompt, tools and all messages."""
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for session in sessions():
        if session.get("usage_scope") == "exact":
            calls = reported(session, ESTIMATOR)
            ratios[session["model"].rpartition("/")[2]] += [call.estimated / call.counted for call in calls]
    print_table("Whole requests, estimate / provider's count", ratios)
    found = [ratio for values in ratios.values() for ratio in values]
    share = sum(ratio >= 0.95 for ratio in found) / len(found)
    print(f"\nat 0.95 or above: {share:.2%} of {len(found)} requests")
    assert share >= 0.99


@needs_data
def test_growth_is_estimated_near_what_providers_counted() -> None:
    """Growth by 1,000 estimated tokens or more; hidden reminders and dropped thinking are in the provider's numbers."""
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for session in sessions():
        if session.get("usage"):
            ratios[f"{session['harness']}, {session['model']}"] += growths(reported(session, ESTIMATOR))
    shown = {source: values for source, values in sorted(ratios.items()) if len(values) >= 20}
    print_table("Growth between two requests, estimate / provider's count", shown)
    claude_code = [value for source, values in shown.items() if "claude-opus" in source for value in values]
    assert 0.9 <= quantiles(claude_code)[PERCENTS.index(50)] <= 1.1


TEXTS = {
    "prose": "The quick brown fox jumps over the lazy dog, and nobody at all is surprised by it.\n",
    "code": "    def walk(self, node: Node) -> Iterator[Node]:\n        yield from map(self._child, node)\n",
    "JSON": '{"id": 48213, "name": "alpha", "tags": ["a", "b"], "size": {"width": 640, "height": 480}}\n',
    "base64": base64.b64encode(random.Random(1).randbytes(6_000)).decode(),
    "Chinese": "上下文窗口快要满的时候，应该先压缩历史消息。",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_speed(kind: str) -> None:
    text = TEXTS[kind] * (300_000 // len(TEXTS[kind]))
    size = len(text.encode())

    def seconds() -> float:
        start = time.perf_counter()
        ESTIMATOR.estimate_tokens(text)
        return time.perf_counter() - start

    speed = size / min(seconds() for _ in range(10))
    print(f"\n{kind}: {speed / 1e6:.0f} MB/s")
    assert speed >= MINIMUM_BYTES_PER_SECOND
