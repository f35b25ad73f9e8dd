"""Copies that an earlier view made are used again, as far as they are still right."""

from __future__ import annotations

from dataclasses import replace
from operator import is_

from compaction_hooks import CompactionRecord
from compaction_hooks.dress import Request, dress
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.history import HistoryReader, OwnTexts
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.view.parts import RESULTS, list_parts
from compaction_hooks.view.record import StaleRuns
from compaction_hooks.view.texts import SUMMARY_MARKER
from compaction_hooks.view.view_of import view_of
from compaction_hooks.view.write import write
from tests.conversations import Chat, Scripted, controller, prose, steps, user


def test_a_copy_with_more_reductions_is_made_anew() -> None:
    """Two results in one message, cleared one after the other: an earlier view's copy cannot be reused."""
    messages: list[Chat] = [{"role": "user", "content": "go"}]
    for n in range(16):
        ids = (f"{n}a", f"{n}b")
        calls = [{"type": "tool_use", "id": id, "name": "read", "input": {"n": n}} for id in ids]
        results = [{"type": "tool_result", "tool_use_id": id, "content": f"{id}: {prose(400)}"} for id in ids]
        messages += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    format, estimate = AnthropicFormat(), CharacterEstimator().estimate_message_tokens
    hooks = controller(16_384, summarizer=Scripted())
    hooks.session("a", format).transform_context_sync(messages)
    both = CompactionRecord.from_dict(hooks.session("a", format).export_records()[-1])
    first = replace(both, reductions=tuple(item for item in both.reductions if item.ordinal == 0))
    assert len(both.reductions) == 2 * len(first.reductions) > 10
    history = HistoryReader(format, estimate, SUMMARY_MARKER).read(messages, OwnTexts())
    earlier = view_of(history, first, estimate)
    fresh, grown = (view_of(history, both, estimate, before) for before in (None, earlier))
    before, new, more = (write(view, messages, format) for view in (earlier, fresh, grown))
    assert more == new != before
    assert grown.tokens(history) == fresh.tokens(history) < earlier.tokens(history)


def test_a_copy_of_another_reduction_is_made_anew() -> None:
    messages = [user("go"), *steps(30, result_tokens=400)]
    hooks = controller(16_384, summarizer=Scripted())
    hooks.transform_context_sync(messages)
    cleared = CompactionRecord.from_dict(hooks.session("default").export_records()[-1])
    again = CompactionRecord.from_dict(cleared.to_dict())
    shortened = replace(cleared, reductions=tuple(item._replace(head_chars=20) for item in cleared.reductions))
    chat, estimate = OpenAIChatFormat(), CharacterEstimator().estimate_message_tokens
    history = HistoryReader(chat, estimate, SUMMARY_MARKER).read(messages, OwnTexts())
    earlier = view_of(history, cleared, estimate)
    before = write(earlier, messages, chat)
    same, other = (view_of(history, record, estimate, earlier) for record in (again, shortened))
    assert all(map(is_, write(same, messages, chat), before))
    shown = write(other, messages, chat)
    assert shown == write(view_of(history, shortened, estimate), messages, chat) != before


def test_a_view_made_from_a_dressed_one_is_as_if_made_anew() -> None:
    """A model that binds reasoning, a provider's items and a host's cache marks change the view of one request only."""
    issuer = Issuer("anthropic", "https://api.anthropic.com", "claude")
    mark = {"type": "text", "text": prose(200), "cache_control": {"type": "ephemeral"}}
    messages: list[Chat] = [user("go"), {"role": "assistant", "content": [mark]}, user("on")]
    for n in range(12):
        thought = {"type": "thinking", "thinking": f"thought {n}", "signature": "sealed"}
        call = {"type": "tool_use", "id": f"{n}", "name": "read", "input": {"n": n}}
        result = {"type": "tool_result", "tool_use_id": f"{n}", "content": f"{n}: {prose(400)}"}
        messages += [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
    format, estimate = AnthropicFormat(), CharacterEstimator().estimate_message_tokens
    session = controller(100_000, summarizer=Scripted()).session("a", format)
    made = session.compact_sync(messages, keep_recent_tokens=2_500).record
    assert made is not None

    history = HistoryReader(format, estimate, SUMMARY_MARKER).read(messages, OwnTexts())
    parts = list_parts(history, range(made.covered_runs, history.run_count - 4), RESULTS)
    items = NativeItems(issuer, ({"type": "compaction", "content": "-"},))
    record = replace(made, native=items, reductions=tuple(part.reduction() for part in parts))
    stale = StaleRuns(0, history.run_count - 2)

    fresh = view_of(history, record, estimate)
    before = write(fresh, messages, format)
    for request in (
        Request(history, record, format, estimate, issuer=issuer),
        Request(history, record, format, estimate, stale=stale),
    ):
        dressed = dress(fresh, request)
        assert write(dressed, messages, format) != before
        assert write(view_of(history, record, estimate, dressed), messages, format) == before
