"""The facts of every adapter, one function each, which raises an AssertionError if the fact does not hold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import cast

from compaction_hooks import CompactionController, CompactionSettings, ContextOverflowError, SummaryRequest
from compaction_hooks.messages import M
from compaction_hooks.testing.demands import demand
from compaction_hooks.testing.harness import AdapterHarness, ChatController, ScriptedProvider, SeenRequest
from compaction_hooks.testing.scenes import (
    BELIEVED_WINDOW,
    Direction,
    Scene,
    chat_messages,
    direct,
    scene,
    session_script,
    short_script,
)
from compaction_hooks.testing.scripts import Script

_SECRET = "KINGFISHER"
"""A word that is only in summaries."""


async def below_threshold(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """Below the threshold nothing changes: no event, and the provider gets the same requests as without the adapter."""
    script, direction = short_script(), direct(window=BELIEVED_WINDOW)
    async with scene(harness, provider, None, script, "bare") as bare:
        await bare.play()
    async with scene(harness, provider, direction.controller, script, "below") as with_adapter:
        await with_adapter.play()
        demand(
            not direction.events, f"below the threshold there must be no event, but there was {direction.events[:1]}"
        )
        _demand_same_requests(bare.side.requests, with_adapter.side.requests)
        await with_adapter.demand_history()


def _demand_same_requests(bare: Sequence[SeenRequest], with_adapter: Sequence[SeenRequest]) -> None:
    demand(
        len(bare) == len(with_adapter),
        f"below the threshold the adapter makes {len(with_adapter)} requests where the framework alone makes {len(bare)}",
    )
    for number, (one, other) in enumerate(zip(bare, with_adapter, strict=True)):
        differing = [key for key in {**one.body, **other.body} if one.body.get(key) != other.body.get(key)]
        demand(not differing, f"below the threshold request {number} differs from the framework's own in {differing}")


async def long_session(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """A session several times the window runs to its end with no provider error, summarized by the conversation's own model."""
    direction = direct()
    async with scene(harness, provider, direction.controller, session_script(), "long") as long:
        await long.play()
        _demand_compacted(long, direction)


async def whole_session(harness: AdapterHarness[M], provider: ScriptedProvider, script: Script) -> None:
    """This session runs to its end with no provider error; it is compacted and the host's history is complete."""
    direction = direct()
    async with scene(harness, provider, direction.controller, script, "session") as played:
        await played.play()
        played.demand_no_rejection()
        played.demand_tools_ran_once()
        demand(direction.compactions, "nothing was compacted: give a session longer than the window")
        await played.demand_history()


def _demand_compacted(played: Scene[M], direction: Direction) -> None:
    played.demand_no_rejection()
    played.demand_requests(len(played.script.answers))
    played.demand_tools_ran_once()

    demand(
        len(direction.compactions) >= 2,
        f"a session several times the window had {len(direction.compactions)} compactions: is the controller asked before "
        "every model call?",
    )
    demand(
        played.summary_requests,
        "no summary was asked of the conversation's own model: where the controller has no summarizer, pass "
        "`summarizer=` (made of the conversation's model) among the call's options",
    )


async def overflow_once(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """If the real window is smaller than the controller's, one rejection is recovered by one resend, and there is no second."""
    async with scene(
        harness, provider, direct(window=BELIEVED_WINDOW).controller, session_script(), "overflow"
    ) as told:
        await told.play()
        await _demand_recovered(told)


async def _demand_recovered(told: Scene[M]) -> None:
    rejections = len(told.rejections)
    demand(
        rejections == 1,
        f"{rejections} rejections where there must be one: is a context overflow recovered (session.call, or "
        "session.recover and one resend), is the provider's own error handed to it, and is the model named the same each time?",
    )
    told.demand_requests(len(told.script.answers) + 1)
    told.demand_tools_ran_once()
    await told.demand_history()


async def overflow_twice(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """A second overflow of the same request is a `ContextOverflowError`, and the conversation can go on afterwards."""
    direction, script = direct(), session_script()
    async with scene(harness, provider, direction.controller, script, "twice") as refused:
        await refused.play(until=1)
        sent = len(refused.model_requests)
        refused.side.reject_next = 2
        error = await _error_of(refused.host.say(script.turns[1].user))
        demand(error is not None, "a request that overflows twice must end in an error; but say() returned an answer")

        seen = [f"{type(one).__name__}: {one}" for one in _chain(error)]
        demand(
            any(isinstance(one, ContextOverflowError) for one in _chain(error))
            or any(ContextOverflowError.__name__ in text for text in seen),
            f"a second overflow must be a ContextOverflowError, itself or as a cause; it was {seen}",
        )

        demand(
            len(refused.model_requests) == sent + 2,
            f"an overflow is followed by exactly one resend; {len(refused.model_requests) - sent} requests were sent "
            "(do the framework's or the client's retries see the error?)",
        )

        await refused.host.say("Go on.")
        demand(refused.model_requests[-1].status < 400, "after a second overflow the conversation cannot go on")


async def _error_of(said: Awaitable[str]) -> Exception | None:
    try:
        await said
    except Exception as error:  # noqa: BLE001 - frameworks raise errors of their own
        return error
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its causes, and all exceptions of a group."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, None if one.__suppress_context__ else one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions


async def summarizer_outage(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """If summaries fail, the run continues."""
    direction = direct()
    async with scene(harness, provider, direction.controller, session_script(), "outage") as cut_off:
        cut_off.side.fail_summaries = True
        await cut_off.play()

        cut_off.demand_no_rejection()
        demand(cut_off.summary_requests, "no summary was asked of the conversation's own model, so none could fail")
        demand(
            direction.compactions,
            "without summaries, strategies that need no model must compact; nothing was compacted",
        )
        await cut_off.demand_history()


async def history(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """After several compactions the host's history is still complete."""
    direction = direct()
    async with scene(harness, provider, direction.controller, session_script(), "history") as whole:
        await whole.play()
        demand(direction.compactions, "nothing was compacted, so the history was not put to the test")
        await whole.demand_history()


async def sync(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """The sync methods compact and recover as the async ones do."""
    await _other_way(harness, provider, "sync", lambda played: _in_thread(played.host.say_sync))


def _in_thread(say: Callable[[str], str]) -> Callable[[str], Awaitable[str]]:
    return lambda text: asyncio.to_thread(say, text)


async def streaming(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """The answer's chunks arrive, without those of a summary; a stream rejected before its first chunk is recovered."""
    await _other_way(harness, provider, "stream", _say_streamed)


def _say_streamed(played: Scene[M]) -> Callable[[str], Awaitable[str]]:
    played.side.summary_text = f"## Goal\n{_SECRET} and what came before."

    async def say(text: str) -> str:
        chunks = await played.host.say_streamed(text)
        whole, expected = "".join(chunks), played.script.turns[len(played.played)].answers[-1].text
        demand(
            _SECRET not in whole, "a summary's text is among the chunks the user sees: keep that call out of the stream"
        )
        demand(
            len(chunks) > 1,
            f"the answer must arrive in several chunks, as the provider sends it; there were {len(chunks)}",
        )
        return expected if whole.rstrip().endswith(expected) else whole

    return say


async def _other_way(
    harness: AdapterHarness[M],
    provider: ScriptedProvider,
    name: str,
    way: Callable[[Scene[M]], Callable[[str], Awaitable[str]]],
) -> None:
    """Check a long session and an overflow with another method than `say`."""
    direction = direct()
    async with scene(harness, provider, direction.controller, session_script(), f"{name}-long") as long:
        await long.play(way(long))
        _demand_compacted(long, direction)
        await long.demand_history()
    wrong = direct(window=BELIEVED_WINDOW).controller
    async with scene(harness, provider, wrong, session_script(), f"{name}-overflow") as told:
        await told.play(way(told))
        await _demand_recovered(told)


async def cancellation(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """A run that is cancelled during a summary ends at once; the history stays complete, the next say works."""
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def summarize_late(_: SummaryRequest) -> str:
        has_begun.set()
        await may_end.wait()
        return "## Goal\nGo through the code."

    direction = direct(summarizer=summarize_late)
    async with scene(harness, provider, direction.controller, session_script(), "cancel") as played:
        run = asyncio.create_task(played.play())
        begun = asyncio.create_task(has_begun.wait())
        await asyncio.wait({run, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if run.done():
            await run
        demand(
            has_begun.is_set(), "the controller's own summarizer was never asked: it wins over the conversation's model"
        )
        run.cancel()
        await asyncio.wait({run})
        demand(
            run.cancelled(),
            "a cancelled say() must raise CancelledError; something swallowed or replaced it",
        )
        await played.demand_history(is_under_way=True)
        may_end.set()
        text = await played.host.say("Go on.")
        expected = played.script.turns[len(played.played)].answers[-1].text
        demand(
            text.strip() == expected, f"after a cancelled run the next say() must reach {expected!r}, but gave {text!r}"
        )
        played.demand_no_rejection()


async def concurrent_conversations(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """Two concurrent conversations on one controller do not mix."""
    direction = direct()
    topics = ("ledger", "garden")
    first, second = (
        scene(harness, provider, direction.controller, session_script(topic), f"among-{topic}") for topic in topics
    )

    async with first as one, second as other:
        for turn in range(len(one.script.turns)):
            await asyncio.gather(one.play(until=turn + 1), other.play(until=turn + 1))

        for played, foreign in ((one, topics[1]), (other, topics[0])):
            _demand_no_mixing(played, foreign)
            await played.demand_history()

        ids = {event.session_id for event in direction.events}
        demand(
            ids == {one.host.session_id, other.host.session_id} and len(ids) == 2,
            f"two conversations must be two sessions of the controller, {one.host.session_id!r} and "
            f"{other.host.session_id!r}; events name {sorted(ids)}",
        )


def _demand_no_mixing(played: Scene[M], foreign: str) -> None:
    played.demand_no_rejection()
    seen = [request for request in played.side.requests if foreign in json.dumps(request.body)]
    demand(not seen, f"{len(seen)} requests of one conversation have text of another")
    demand(played.summary_requests, "no summary of this conversation was asked of its own model")


async def record_out(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """A record made through this adapter applies to the same conversation as OpenAI chat dicts, without a second summary."""
    direction = direct()
    async with scene(harness, provider, direction.controller, session_script(), "record-out") as played:
        await played.play()
        records = direction.controller.session(played.host.session_id).export_records()
    demand(
        records,
        f"controller.session({played.host.session_id!r}).export_records() is empty: is session_id the adapter's?",
    )

    elsewhere, asked = _reader()
    session = elsewhere.session("the same conversation as chat dicts")
    session.import_records(records)
    chat = chat_messages(played.script, played.played)
    view = session.transform_context_sync(chat)

    demand(not asked, "the record did not save a summary")
    rendered = {record["rendered"] for record in records} - {""}
    demand(
        len(view) < len(chat) and any(message.get("content") in rendered for message in view),
        "the record does not apply to the same conversation as OpenAI chat dicts: does the format read every text, call and "
        "result unchanged, and does the record cover the host's own messages?",
    )


async def record_in(harness: AdapterHarness[M], provider: ScriptedProvider) -> None:
    """A record made from OpenAI chat dicts applies to the same conversation in this adapter, without a second summary."""
    direction = direct(window=BELIEVED_WINDOW, settings=CompactionSettings(auto_compact=False))
    script = session_script()
    async with scene(harness, provider, direction.controller, script, "record-in", window=BELIEVED_WINDOW) as played:
        await played.play(until=2)

        elsewhere = CompactionController(context_window=BELIEVED_WINDOW).session("the same conversation as chat dicts")
        made = elsewhere.compact_sync(chat_messages(script, played.played), keep_recent_tokens=2_000).record
        demand(made is not None, "the chat dicts were not compacted")
        own = direction.controller.session(played.host.session_id, format=harness.format)
        own.import_records(elsewhere.export_records())

        before = len(played.model_requests)
        await played.play()

        bodies = [json.dumps(request.body, ensure_ascii=False) for request in played.model_requests[before:]]
        rendered = json.dumps(made.rendered if made else "", ensure_ascii=False)[1:-1]
        demand(
            all(rendered in body for body in bodies),
            "a record imported into the controller's session of this conversation is not used: does the adapter keep its "
            "own records over those of the session, or does the format read the messages differently?",
        )
        demand(not played.summary_requests, "the record did not save a summary")


def _reader() -> tuple[ChatController, list[SummaryRequest]]:
    """Return a controller for chat dicts, and the list of its summary requests."""
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return "a second summary"

    return CompactionController(context_window=BELIEVED_WINDOW, summarizer=summarize), asked
