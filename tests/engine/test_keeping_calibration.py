"""What usage taught is kept with the records: a restarted process knows the size of its next request before any report."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compaction_hooks import Usage
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.stores import MemoryStore, RecordStore
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import PLAIN, Chat, Controller, Scripted, controller, steps, system, user

HIDDEN, RATIO = 2_000, 1.2
"""Tokens of a prefix that no message shows, and the provider's tokens for an estimated one."""
MODEL = "gpt-9"


def estimated(view: Sequence[Mapping[str, object]]) -> int:
    estimate, format = CharacterEstimator().estimate_message_tokens, OpenAIChatFormat()
    return sum(estimate(piece) for message in view for piece in format.read(message))


def count(view: Sequence[Mapping[str, object]]) -> int:
    return HIDDEN + round(RATIO * estimated(view))


def of_model(store: RecordStore | None = None, model: str = MODEL, **more: Any) -> Controller:
    return controller(16_384, summarizer=Scripted(), store=store, settings=PLAIN, model=model, **more)


def agent(hooks: Controller) -> list[Chat]:
    """Return a conversation with usage for every request, until its second compaction."""
    messages = [system(), user("Port the parser.")]
    while hooks.state().compaction_count < 2:
        messages += steps(1, 700, first=len(messages))
        view = hooks.transform_context_sync(messages)
        hooks.report_usage(Usage(input_tokens=count(view)), view)
    return messages


def compare_expected(hooks: Controller, messages: list[Chat]) -> tuple[float, float]:
    """Return the expected size of the next request, divided by its counted size and by the bare estimate."""
    view = hooks.transform_context_sync(messages)
    assert len(view) < len(messages)
    tokens = hooks.state().context_tokens
    assert tokens is not None
    return tokens / count(view), tokens / estimated(view)


def with_calibration(store: MemoryStore, **changes: object) -> MemoryStore:
    """Return the same records with these changes of their calibration."""
    changed = MemoryStore()
    for text in store.load("default"):
        record: dict[str, Any] = json.loads(text)
        record["calibration"] |= changes
        changed.append("default", record["id"], json.dumps(record))
    return changed


@pytest.mark.parametrize("model", [MODEL, f"openai/{MODEL}", f"{MODEL}-2026-02-10"])
def test_a_restarted_process_knows_the_next_request_before_any_report(model: str) -> None:
    """Within the 5 % of a first request after a compaction; the bare estimate is off by a third. Other names of a model are it."""
    store = MemoryStore()
    messages = agent(of_model(store))
    assert compare_expected(of_model(store, model), messages)[0] == pytest.approx(1.0, abs=0.05)


def test_a_calibration_of_one_model_does_not_change_another() -> None:
    store = MemoryStore()
    messages = agent(of_model(store))
    assert compare_expected(of_model(store, "gpt-9-mini"), messages)[1] == 1.0


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"estimator": "another"}, id="another estimator"),
        pytest.param({"estimator": None, "format": 3}, id="of nobody"),
        pytest.param({"model": ["gpt-9"]}, id="no name of a model"),
        pytest.param({"ratio": "much", "overhead_seen_at": {}, "grown_counted": None}, id="no numbers"),
    ],
)
def test_a_calibration_of_something_else_is_ignored(changes: dict[str, object]) -> None:
    store = MemoryStore()
    messages = agent(of_model(store))
    assert compare_expected(of_model(with_calibration(store, **changes)), messages)[1] == 1.0


def test_in_another_framework_the_ratio_holds_and_the_hidden_prefix_does_not() -> None:
    store = MemoryStore()
    messages = agent(of_model(store))
    ratio = compare_expected(of_model(with_calibration(store, format="another")), messages)[1]
    assert ratio == pytest.approx(RATIO, abs=0.05)


def test_a_record_does_not_replace_a_conversations_own_calibration() -> None:
    elsewhere = of_model()
    agent(elsewhere)
    here, messages = of_model(), [system(), user("Port the parser."), *steps(2, 700)]
    here.report_usage(Usage(input_tokens=estimated(messages)), here.transform_context_sync(messages))
    here.session("default").import_records(elsewhere.session("default").export_records())
    here.transform_context_sync(messages[:4])
    assert here.state().context_tokens == estimated(messages[:4])


def test_a_record_has_the_same_name_whatever_usage_taught() -> None:
    """Two workers that make the same summary make the same record."""
    messages = [system(), user("Port the parser."), *steps(8, 700)]
    hooks = [of_model(), of_model()]
    view = hooks[1].transform_context_sync(messages)
    hooks[1].report_usage(Usage(input_tokens=estimated(view) + 100), view)
    records = [each.compact_sync(messages, keep_recent_tokens=1_000).record for each in hooks]
    plain, taught = (record for record in records if record is not None)
    assert plain.id == taught.id
    assert plain.calibration == {}
    assert (taught.calibration["model"], taught.calibration["overhead_tokens"]) == (MODEL, 100)
