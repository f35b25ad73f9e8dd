"""Summaries by the models of a provider's client: the provider's side, and checks that hold for each client."""

from collections.abc import Callable
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFailed, CompactionResult, Summarizer
from compaction_hooks.runtime.guarded_call import helper_loop
from compaction_hooks.testing import Call
from tests.adapters.stage import SECRET
from tests.conversations import talk
from tests.provider import Answer, Rejection, Side

LIMIT = 4_096 + 8_192
"""The limit of an answer: the summary, and the room for reasoning."""
WAYS = [(is_async, is_sync_call) for is_async in (False, True) for is_sync_call in (False, True)]
"""Whether the client is async, and whether the call of the controller is sync."""
by_client_and_call = pytest.mark.parametrize(
    ("is_async", "is_sync_call"), WAYS, ids=["sync client", "sync both", "async both", "async client"]
)
"""All clients, and all calls of the controller."""


class Desk:
    """A conversation that is compacted, and what came of it."""

    def __init__(self, summarizer: Summarizer, **keywords: Any) -> None:
        self.failures: list[str] = []
        controller = CompactionController(
            context_window=200_000, summarizer=summarizer, on_event=self._note, **{"model": "chatty-1", **keywords}
        )
        self.session: Any = controller.session("chat")

    def _note(self, event: object) -> None:
        if isinstance(event, CompactionFailed):
            self.failures.append(str(event))

    async def compact(self, *, is_sync_call: bool = False, **options: Any) -> CompactionResult[Any]:
        """Compact the conversation by hand."""
        messages, keep = talk(20), {"keep_recent_tokens": 300}
        if is_sync_call:
            return self.session.compact_sync(messages, **keep, **options)  # type: ignore[no-any-return]
        return await self.session.compact(messages, **keep, **options)  # type: ignore[no-any-return]


async def close(client: Any, *, is_sync_call: bool) -> None:
    """Close a client in the event loop in which it was used."""
    closing = client.close()
    if closing is not None:
        await closing if not is_sync_call else helper_loop().run(closing, 10.0)


async def check_summary(side: Side, summarizer: Summarizer, *, is_sync_call: bool) -> dict[str, Any]:
    """Check that the summary is the answer of the call's model, and its cost measured; return the request's other fields."""
    side.summary_text = f"## Goal\n- {SECRET}"
    desk = Desk(summarizer)
    result = await desk.compact(is_sync_call=is_sync_call, model="chatty-2")
    assert result.record is not None
    assert SECRET in result.record.summary
    (received,) = side.requests
    (asked,) = (message for message in received.messages if message["role"] == "user")
    assert "Question 3" in asked["content"]
    spent = desk.session.state().summary_usage
    assert (spent.is_estimate, spent.input_tokens) == (False, received.input_tokens)
    body = dict(received.body)
    assert body.pop("model") == "chatty-2"
    del body["messages"]
    return body


FAILURES = [
    (Answer(f"## Goal\n- {SECRET}", stop="length"), "cut off"),
    (Answer("I cannot help with that.", stop="refusal"), "withheld (finish reason refusal)"),
    (Answer(""), "empty"),
    (Answer(f"## Goal\n- {SECRET}", (Call("read_file", {"path": "a.py"}),), stop="stop"), "called a tool"),
    (Rejection(500, {"error": {"type": "api_error", "message": "The server had an error"}}), "InternalServerError"),
]


async def check_failures(side: Side, summarizer: Summarizer) -> None:
    """Check that no failed answer becomes a summary, that the event tells why, and that its cost is counted."""
    for answer, why in FAILURES:
        side.summarize = lambda _, answer=answer: answer
        desk = Desk(summarizer)
        assert (await desk.compact()).outcome == "failed"
        (failure,) = desk.failures
        assert why in failure
        assert (desk.session.state().summary_usage.input_tokens > 0) == isinstance(answer, Answer)


async def check_model(side: Side, make: Callable[..., Summarizer]) -> None:
    """Check that a model and options that are given go before those of the call and ours, and what happens without any model."""
    await Desk(make("small-1", user="bill")).compact(model="chatty-2")
    (received,) = side.requests
    assert (received.body["model"], received.body["user"]) == ("small-1", "bill")
    desk = Desk(make(), model=None)
    await desk.compact()
    assert len(side.requests) == 1
    (failure,) = desk.failures
    assert "the model is unknown: give model= to the summarizer" in failure
