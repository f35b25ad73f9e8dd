"""Late arrivals: a rejection, a usage report, an undo or an edit after another caller has compacted already."""

import asyncio
import json
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFailed, CompactionStarted, SummaryRequest
from compaction_hooks.events import CompactionEvent
from compaction_hooks.stores import MemoryStore
from tests.conversations import (
    PLAIN,
    Chat,
    Numbered,
    assistant,
    call,
    controller,
    steps,
    system,
    talk,
    texts,
    tool,
    user,
)


def reject(limit: int, counted: int) -> RuntimeError:
    return RuntimeError(
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {counted} tokens."
    )


def long() -> list[Chat]:
    return [system(), *talk(60, 200)]


async def test_a_rejection_after_another_call_compacted_sends_the_other_view() -> None:
    """The present view is not the rejected one: no further message is lost, and no further summary paid."""
    paid, messages = Numbered(), long()
    hooks = controller(200_000, summarizer=paid)
    both_sent, first_is_done = asyncio.Barrier(2), asyncio.Event()
    views: list[str] = []

    async def send(view: list[Chat], is_late: bool) -> str:
        if len(view) == len(messages):
            await both_sent.wait()
            if is_late:
                await first_is_done.wait()
            raise reject(32_000, 48_000)
        views.append(texts(view))
        first_is_done.set()
        return "fine"

    answers = await asyncio.gather(
        hooks.call(messages, lambda view: send(view, False)), hooks.call(messages, lambda view: send(view, True))
    )
    assert [*answers] == ["fine", "fine"]
    assert views[0] == views[1]
    assert len(paid.requests) == 1


def test_a_rejection_after_another_worker_compacted_sends_the_other_view() -> None:
    store, paid, messages = MemoryStore(), Numbered(), long()
    one, other = (controller(200_000, summarizer=paid, store=store) for _ in "ab")
    one.transform_context_sync(messages[:1])
    other.transform_context_sync(messages[:1])

    def send(view: list[Chat]) -> int:
        if len(view) == len(messages):
            raise reject(32_000, 48_000)
        return len(view)

    assert one.call_sync(messages, send) == other.call_sync(messages, send)
    assert len(paid.requests) == 1


async def test_a_count_of_a_view_that_was_replaced_meanwhile_compacts_nothing() -> None:
    """The answer to the old list says that it was too large, when it has been compacted already."""
    events: list[CompactionEvent] = []
    hooks = controller(32_000, events=events)
    messages = [system(), *talk(25, 200)]
    compacted = asyncio.Event()

    def answer(tokens: int) -> dict[str, Any]:
        choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": "k"}}
        return {"choices": [choice], "usage": {"prompt_tokens": tokens, "completion_tokens": 1}}

    async def late(view: list[Chat]) -> dict[str, Any]:
        await compacted.wait()
        return answer(33_000)

    async def soon(view: list[Chat]) -> dict[str, Any]:
        return answer(33_000 if len(view) == len(messages) else 9_000)

    waiting = asyncio.create_task(hooks.call(messages, late))
    await asyncio.sleep(0)
    await hooks.call(messages, soon)
    await hooks.call(messages, soon)
    told = len(events)
    compacted.set()
    await waiting
    await hooks.call(messages, soon)
    assert told
    assert not [event for event in events[told:] if isinstance(event, CompactionStarted)]


@pytest.mark.parametrize("how", ["threshold", "manual", "overflow"])
def test_a_history_that_is_edited_whenever_it_is_summarized_is_compacted_without_a_model(how: str) -> None:
    """It fits in the end, and the whole list is never sent without an event."""
    events: list[CompactionEvent] = []
    written = [dict(message) for message in [system(), user("go"), *steps(40, 300)]]
    messages: list[Chat] = [*written]

    def editing(request: SummaryRequest) -> str:
        written[3]["content"] += "."
        return "## Goal\n- of an older history"

    hooks = controller(8_192, summarizer=editing, events=events, settings=PLAIN)
    if how == "threshold":
        view = hooks.transform_context_sync(messages)
    elif how == "manual":
        view = hooks.compact_sync(messages).messages
    else:
        view = hooks.recover_sync(RuntimeError("prompt is too long: 30000 tokens > 8192 maximum"), messages)
    assert (hooks.state().fraction or 9) < 1
    assert len(view) < len(messages)
    assert "of an older history" not in texts(view)
    assert not [event for event in events if isinstance(event, CompactionFailed)]


def test_a_reduction_from_before_a_rewind_does_not_shorten_a_new_result() -> None:
    """The user asks for the answer again and again: each result is shown as it would be the first time."""

    def turn(number: int) -> list[Chat]:
        text = f"file {number}\n" + "a line of code\n" * 6_000
        return [user("fix the bug"), assistant(None, call(f"c{number}", path=f"{number}.py")), tool(f"c{number}", text)]

    hooks = CompactionController(context_window=16_384)
    for number in range(5):
        shown = hooks.transform_context_sync(turn(number))
        fresh = CompactionController(context_window=16_384).transform_context_sync(turn(number))
        assert json.dumps(shown) == json.dumps(fresh)


def test_an_overflow_error_never_says_that_a_part_is_larger_than_the_whole() -> None:
    messages = [user("x " * 500 + str(number)) for number in range(200)]
    with pytest.raises(Exception, match="cannot be made to fit") as raised:
        controller(8_192).compact_sync(messages)
    whole, part = (int(word.replace(",", "")) for word in _abouts(str(raised.value)))
    assert part <= whole


def _abouts(text: str) -> list[str]:
    return [rest.split()[0].rstrip(",;") for rest in text.split("about ")[1:]]
