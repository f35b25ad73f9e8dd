"""The kit of the adapters, without any framework."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, cast

import pytest
from compaction_adapters.kit import (
    Flow,
    ModelCalls,
    PartsFormat,
    Pieces,
    Twin,
    asker,
    controller_from,
    join_id,
    opening_key,
    positive,
    run,
    run_async,
    settings_from,
    summary_of,
    with_reasoning_room,
)

from compaction_hooks import CompactionController, CompactionSettings, Message, Summary, SummaryRequest, Usage
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Text, ToolCall
from compaction_hooks.stores import MemoryStore, RecordStore, is_tombstone
from tests.cases import folded
from tests.conversations import Scripted, controller, system, talk

Line = tuple[str, ...]


class LinesFormat(PartsFormat[Line, str]):
    """A message is a tuple of texts; one that begins with "call " is a tool call."""

    def read(self, message: Line, /) -> Sequence[Message]:
        parts = [ToolCall(text[5:], "read", "{}") if text.startswith("call ") else Text(text) for text in message]
        return (Message(role="assistant", parts=tuple(parts)),)

    def pieces_of(self, message: Line, /) -> Pieces[str]:
        return [[*message]]

    def with_pieces(self, message: Line, pieces: Pieces[str], /) -> Line:
        return tuple(text for text in pieces[0] if text is not None)

    def summary(self, text: str, /) -> Line:
        return (text,)

    def with_text(self, part: str, text: str, /) -> str:
        return text

    def with_id(self, part: str, call_id: str, /) -> str:
        return f"call {call_id}"


FORMAT = LinesFormat()
MESSAGE = ("first", "call a", "second", "call b")


def test_parts_are_changed_at_their_addresses() -> None:
    assert FORMAT.rewrite(MESSAGE, {(0, 0): "1st", (0, 2): "2nd"}) == ("1st", "call a", "2nd", "call b")
    assert FORMAT.rename(MESSAGE, {(0, 3): "c"}) == ("first", "call a", "second", "call c")
    assert FORMAT.drop(MESSAGE, [(0, 0), (0, 1)]) == ("second", "call b")


def test_a_message_without_changes_is_the_same_object() -> None:
    assert FORMAT.rewrite(MESSAGE, {}) is MESSAGE
    assert FORMAT.drop(MESSAGE, []) is MESSAGE


def test_only_a_tool_call_is_answered() -> None:
    assert FORMAT.call_at(MESSAGE, (0, 3)).id == "b"
    with pytest.raises(ConfigurationError, match=r"read\(\)"):
        FORMAT.call_at(MESSAGE, (0, 2))


def test_a_model_is_asked_in_the_way_its_caller_waits() -> None:
    ways: list[str] = []

    def ask(request: SummaryRequest) -> str:
        ways.append("sync")
        return "- kept"

    async def ask_async(request: SummaryRequest) -> str:
        ways.append("async")
        return "- kept"

    def read(text: str) -> Summary:
        return summary_of(Message(role="assistant", parts=(Text(text),)), "stop")

    messages = [system(), *talk(20)]

    async def compact() -> None:
        hooks = controller(100_000, summarizer=asker(ask, ask_async, read))
        assert (await hooks.compact(messages, keep_recent_tokens=300)).record is not None

    hooks = controller(100_000, summarizer=asker(ask, ask_async, read))
    assert hooks.compact_sync(messages, keep_recent_tokens=300).record is not None
    asyncio.run(compact())
    assert ways == ["sync", "async"]


def test_the_call_of_a_tool_refuses_a_summary() -> None:
    read = summary_of(Message(role="assistant", parts=(Text("text"), ToolCall("1", "read", "{}"))), "tool_calls")
    assert (read.text, read.finish_reason) == ("text", "tool_calls")
    assert [call["name"] for call in read.tool_calls] == ["read"]


OUTPUT_CAP = ValueError("max_tokens is too large: 12288. This model supports at most 4096 completion tokens.")


@folded(
    "error, limits",
    {
        "none": (None, [12_288]),
        "it may not write as much": (OUTPUT_CAP, [12_288, 4_096]),
        "another": (ValueError("The server had an error"), [12_288]),
    },
)
async def test_a_model_is_asked_with_room_for_reasoning_unless_it_refuses(
    error: ValueError | None, limits: list[int]
) -> None:
    asked: list[int] = []

    async def ask(request: SummaryRequest, limit: int) -> Summary:
        asked.append(limit)
        if error is not None and limit > 4_096:
            raise error
        return summary_of(Message(role="assistant", parts=(Text("- kept"),)), None, limit=limit)

    hooks = controller(200_000, summarizer=with_reasoning_room(ask))
    result = await hooks.compact([system(), *talk(20)], keep_recent_tokens=300)
    assert (result.record is not None, asked) == (error in (None, OUTPUT_CAP), limits)


@folded("tokens, ending", [(899, "stop"), (900, "length")])
def test_an_answer_that_uses_up_its_limit_was_cut_off(tokens: int, ending: str) -> None:
    answer = Message(role="assistant", parts=(Text("text"),), usage=Usage(input_tokens=9, output_tokens=tokens))
    assert summary_of(answer, "stop", limit=900).finish_reason == ending


def adapt(controller: Any = None, *, session_id: str | None = None, **keywords: Any) -> CompactionController[Any]:
    return controller_from(controller, cast("Any", keywords), OpenAIChatFormat(), taker=adapt, sees_model=False)


@folded(
    "make, error, text",
    {
        "both": (
            lambda: adapt(controller(9_000), context_window=9),
            ConfigurationError,
            "context_window: give a controller or its keywords, not both",
        ),
        "no controller": (
            lambda: adapt({"model": "m"}),
            ConfigurationError,
            "must be a CompactionController, not dict",
        ),
        "unknown keyword": (lambda: adapt(sesion_id="a"), TypeError, "session_id"),
        "a ratio of an unknown window": (
            lambda: adapt(settings=CompactionSettings(trigger_ratio=0.8)),
            ConfigurationError,
            r"context_window=.*tokens",
        ),
    },
)
def test_wrong_arguments_of_an_adapter_are_told(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_keywords_make_the_controller() -> None:
    shared, summarize = controller(9_000), Scripted("- facts")
    assert adapt(shared) is shared
    hooks = adapt(
        context_window=9_000, summarizer=summarize, summary_prompt="In French, please.", summary_instructions="Be kind."
    )
    hooks.compact_sync([system(), *talk(20)], keep_recent_tokens=300)
    assert (
        "In French, please.\n\nThese instructions hold for the summary, too:\nBe kind." in summarize.requests[0].prompt
    )


def test_settings_can_be_written_down_for_all_models_or_for_each() -> None:
    assert settings_from({"reserve_tokens": 1_000}) == CompactionSettings(reserve_tokens=1_000)
    assert settings_from({"gpt-*": {"reserve_tokens": 1_000}, "*": {}}) == {
        "gpt-*": CompactionSettings(reserve_tokens=1_000),
        "*": CompactionSettings(),
    }
    with pytest.raises(ConfigurationError, match=r"reserve_tokens is for all models, and 'gpt-\*' for one"):
        settings_from({"gpt-*": {}, "reserve_tokens": 1_000})


def test_a_limit_is_a_positive_whole_number() -> None:
    assert [positive(value) for value in (5, 0, -1, True, "5", None)] == [5, None, None, None, None, None]


def test_one_flow_serves_callers_that_wait_and_callers_that_await() -> None:
    def send(text: str) -> str:
        return f"sync {text}"

    async def send_async(text: str) -> str:
        return f"async {text}"

    def fail() -> None:
        raise ValueError("broken")

    async def fail_async() -> None:
        fail()

    def flow() -> Flow[list[str]]:
        found = [(yield Twin(send, send_async, "one"))]
        try:
            yield Twin(fail, fail_async)
        except ValueError as error:
            found.append(str(error))
        return [*found, (yield Twin(send, send_async, text="two"))]

    assert run(flow()) == ["sync one", "broken", "sync two"]
    assert asyncio.run(run_async(flow())) == ["async one", "broken", "async two"]


# -- the conversations of an adapter that sends its model calls


class Loop(ModelCalls[Any]):
    """An adapter of a framework whose calls are functions."""

    def __init__(self, controller: Any = None, **keywords: Any) -> None:
        super().__init__(controller, cast("Any", keywords), OpenAIChatFormat())

    async def say(self, conversation_id: str | None, messages: list[Any]) -> object:
        async def send(view: list[Any]) -> dict[str, Any]:
            return {"view": view}

        return await self._call(conversation_id, messages, send, lambda _: None, {})

    async def stream(self, messages: list[Any], attempts: list[list[str]]) -> list[str]:
        """Stream each attempt's events; "too long" is an error, "failed" is an event that stands for one."""

        async def open_stream(_: list[Any]) -> AsyncGenerator[str]:
            for event in attempts.pop(0):
                if event == TOO_LONG:
                    raise RuntimeError(TOO_LONG)
                yield event

        def is_prelude(event: str) -> bool:
            if event == "failed":
                raise RuntimeError(TOO_LONG)
            return event == "created"

        events = self._stream("thread", messages, open_stream, lambda _: None, {}, is_prelude)
        return [event async for event in events]


TOO_LONG = "prompt is too long: 9000 tokens > 8000 maximum"


async def test_lists_that_begin_otherwise_are_conversations_of_their_own() -> None:
    """Frameworks give an agent that is another one's tool the outer run's id."""
    hooks = controller(100_000)
    loop, outer, inner = Loop(hooks), talk(3), talk(3, first=50)
    for messages in (outer[:1], inner, outer):
        await loop.say("thread", messages)
    before = hooks.session("thread").state().context_tokens
    await loop.say("thread", inner)
    assert hooks.session("thread").state().context_tokens == before
    await loop.say(None, [system("At 9 o'clock."), *inner])
    unnamed = repr(hooks)
    await loop.say(None, [system("At 10 o'clock."), *inner])
    assert repr(hooks) == unnamed  # the time of day in a system prompt makes no other conversation


class Unlisted:
    """A store of the host's own that cannot list its conversations."""

    def __init__(self) -> None:
        self._inner = MemoryStore()
        self.load, self.append, self.remove = self._inner.load, self._inner.append, self._inner.remove


@pytest.mark.parametrize("knows", [True, False], ids=["the same process", "another process"])
@pytest.mark.parametrize("make_store", [MemoryStore, Unlisted])
async def test_to_forget_an_id_is_to_forget_its_tools_and_no_other_id(
    make_store: Callable[[], RecordStore], knows: bool
) -> None:
    store, outer, inner = make_store(), talk(20), talk(20, first=50)
    own = ["thread", f"thread%/%/{opening_key(OpenAIChatFormat(), inner)[:16]}"]
    others = ["thread/notes", f"thread/{'0' * 32}", "thread-2"]
    loop = Loop(hooks := controller(100_000, store=store))
    assert loop.controller is hooks

    for conversation_id, messages in (("thread", outer), ("thread", inner), *((one, outer) for one in others)):
        await loop.say(conversation_id, messages)
        await loop.compact(messages, conversation_id, keep_recent_tokens=300)

    def list_known() -> list[str]:
        loaded = {one: cast("Sequence[str]", store.load(one)) for one in (*own, *others)}
        return [one for one, texts in loaded.items() if not all(map(is_tombstone, texts))]

    assert list_known() == [*own, *others]

    await (loop if knows else Loop(controller(100_000, store=store))).forget("thread")
    is_found = knows or make_store is MemoryStore
    assert list_known() == [*([] if is_found else own[1:]), *others]


def test_other_parts_make_another_id() -> None:
    words = ["", "alice", "alice/work", "work", "%", "%/", "alice%25/", "25/work"]
    named = {tuple(parts) for count in (1, 2, 3) for parts in itertools.product(words, repeat=count) if parts[-1]}
    assert len({join_id(*parts) for parts in named}) == len(named)
    assert join_id("alice/work", "1", "", "") == "alice/work%/1"


@pytest.mark.parametrize(
    ("attempts", "seen"),
    [
        ([["created", "a", "b"]], ["created", "a", "b"]),
        ([["created", TOO_LONG], ["created", "a"]], ["created", "a"]),
        ([["created", "failed"], ["a"]], ["a"]),
        ([["created"]], ["created"]),
    ],
    ids=["untouched", "an error after the prelude", "an event that tells of an error", "nothing but a prelude"],
)
async def test_a_stream_is_recovered_until_its_answer_begins(attempts: list[list[str]], seen: list[str]) -> None:
    assert await Loop(context_window=100_000).stream(talk(30), attempts) == seen
    assert attempts == []


async def test_a_stream_whose_answer_has_begun_is_left_to_its_caller() -> None:
    with pytest.raises(RuntimeError, match="too long"):
        await Loop(context_window=100_000).stream(talk(30), [["created", "a", TOO_LONG], ["a"]])
