"""Runs of the OpenAI Agents SDK: conversations apart, streams that fail, the server's compaction, and what its users reported."""

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    Runner,
    SessionSettings,
    SQLiteSession,
    function_tool,
)
from agents.exceptions import ModelBehaviorError
from agents.models.chatcmpl_converter import Converter
from agents.models.interface import ModelTracing
from agents.run_config import CallModelData, ModelInputData
from agents.usage import Usage
from compaction_adapters.openai_agents import CompactionModelProvider, summarizer
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from compaction_hooks import CompactionController, CompactionSettings, ContextOverflowError
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent, CompactionFinished
from compaction_hooks.formats import OpenAIChatFormat, OpenAIResponsesFormat
from tests.adapters import server_compaction, summary_answers
from tests.adapters.openai_agents_stage import Stage
from tests.adapters.same_chain import chain
from tests.adapters.stage import SECRET, WINDOW, CountingSummarizer
from tests.conversations import PLAIN, prose
from tests.data import needs_data, sessions
from tests.provider import Answer, Call

PAGE = "A page of the manual. " * 1_000


@function_tool
def read_manual(page: int) -> str:
    """Read a page of the manual."""
    return f"Page {page}. {PAGE}"


def reads(count: int, end: str = "I have read it.") -> list[Answer]:
    return [*(Answer(calls=(Call("read_manual", {"page": page}),)) for page in range(count)), Answer(end)]


def compacted(events: Iterable[CompactionEvent]) -> set[str]:
    return {event.session_id for event in events if isinstance(event, CompactionFinished)}


async def test_agents_that_name_their_model_need_nothing_but_the_run_config(stage: Stage) -> None:
    """The model of a name, the system prompt and the tools of each call count; the session stays whole."""
    side, session = stage.side(*reads(6)), SQLiteSession("thread")
    events: list[CompactionEvent] = []
    provider = CompactionModelProvider(
        provider=OpenAIProvider(openai_client=stage.client()),
        context_window=WINDOW,
        settings=PLAIN,
        on_event=events.append,
    )
    agent = Agent("reader", model="gpt-5", instructions="Read all pages.", tools=[read_manual])
    config = provider.run_config(session, workflow_name="Reading")
    result = await Runner.run(agent, "Begin.", session=session, run_config=config, max_turns=20)
    assert result.final_output == "I have read it."
    assert len(await session.get_items()) == len(result.to_input_list()) == 2 * 6 + 2
    assert SECRET in str(side.model_requests[-1].messages)
    assert {request.body["model"] for request in side.requests} == {"gpt-5"}
    assert compacted(events) == {"thread"}
    assert side.rejections == []
    counted = provider.session("thread").state()
    assert (counted.is_estimate, counted.context_tokens) == (False, side.requests[-1].input_tokens)
    session.close()


async def test_a_handoff_goes_on_with_the_conversation_and_its_summary(stage: Stage) -> None:
    side = stage.side(*reads(3)[:-1], Answer(calls=(Call("transfer_to_writer", {}),)), *reads(2, "Written."))
    events: list[CompactionEvent] = []
    asked = CountingSummarizer()
    provider = CompactionModelProvider(context_window=WINDOW, settings=PLAIN, summarizer=asked, on_event=events.append)
    writer = Agent("writer", model=provider.wrap(stage.responses()), tools=[read_manual])
    reader = Agent("reader", model=provider.wrap(stage.chat()), tools=[read_manual], handoffs=[writer])
    run = await Runner.run(reader, "Begin.", run_config=provider.run_config("thread"), max_turns=20)
    assert run.final_output == "Written."
    assert compacted(events) == {"thread"}
    first = next(
        number for number, request in enumerate(side.requests) if "transfer_to_writer" not in str(request.body["tools"])
    )
    assert f"{SECRET} 1" in str(side.requests[first].messages)
    assert side.rejections == []


async def test_an_agent_as_a_tool_has_a_conversation_of_its_own(stage: Stage) -> None:
    """The SDK gives its runs the outer run's configuration."""
    outer = [Answer(calls=(Call("ask_reader", {"input": f"Read the manual, part {part}."}),)) for part in range(2)]
    side, inner = stage.side(*outer, Answer("Done.")), stage.side(*reads(4), *reads(4), key="-inner")
    events: list[CompactionEvent] = []
    provider = CompactionModelProvider(context_window=WINDOW, on_event=events.append)
    inner_stage = Stage(stage.provider, f"{stage.key}-inner")
    reader = Agent("reader", model=provider.wrap(inner_stage.responses()), tools=[read_manual])
    tool = reader.as_tool("ask_reader", "Reads the manual.", max_turns=20)
    writer = Agent("writer", model=provider.wrap(stage.responses()), tools=[tool])
    run = await Runner.run(writer, "Write.", run_config=provider.run_config("thread"))
    await inner_stage.close()
    assert run.final_output == "Done."
    assert len(compacted(events)) == 2
    assert all(name.startswith("thread%/%/") for name in compacted(events))
    assert SECRET not in str([request.messages for request in side.model_requests])
    assert "part 0" not in str(inner.model_requests[-1].messages)


async def test_runs_without_a_session_are_named_by_their_group_or_their_beginning(stage: Stage) -> None:
    stage.side(*[Answer("Yes.")] * 3)
    provider = CompactionModelProvider(context_window=WINDOW)
    agent = Agent("reader", model=provider.wrap(stage.responses()))
    await Runner.run(agent, "Of a group.", run_config=provider.run_config(group_id="chat 1"))
    assert provider.session("chat 1").state().context_tokens
    told = repr(provider.session("chat 1"))
    for config in (provider.run_config(), RunConfig()):  # the second tells nothing, and the group was told before
        await Runner.run(agent, "Of none.", run_config=config)
    assert repr(provider.session("chat 1")) == told


async def test_the_models_of_a_run_config_are_wrapped_and_its_filter_comes_first(stage: Stage) -> None:
    side = stage.side(*reads(6))
    seen: list[int] = []

    async def drop_first(data: CallModelData[Any]) -> ModelInputData:
        seen.append(len(data.model_data.input))
        return ModelInputData(input=data.model_data.input[1:], instructions="Be brief.")

    provider = CompactionModelProvider(context_window=WINDOW, settings=PLAIN)
    config = provider.run_config("thread", model=stage.responses(), call_model_input_filter=drop_first)
    told: list[Any] = [{"role": "user", "content": text} for text in ("Forget this.", "Begin.")]
    await Runner.run(Agent("reader", tools=[read_manual]), told, run_config=config, max_turns=20)
    assert seen == [2 + 2 * step for step in range(7)]
    sent = [str(request.messages) for request in side.model_requests]
    assert [text for text in sent if "Forget this." in text] == []
    assert "Begin." in sent[0]
    assert SECRET in sent[-1]


# -- streams


async def _play_streamed(agent: Agent[None], config: RunConfig) -> list[str]:
    run = Runner.run_streamed(agent, "Begin.", run_config=config)
    events = [event.data async for event in run.stream_events() if event.type == "raw_response_event"]
    return [event.type for event in events]


async def test_a_stream_that_fails_before_its_answer_is_recovered(stage: Stage) -> None:
    """OpenAI tells an overflow in an event of the stream too, after `response.created`."""
    side = stage.side(Answer(prose(30)))
    side.stream_fail_after = 1
    provider = CompactionModelProvider(context_window=WINDOW)
    talk: list[Any] = [{"role": role, "content": prose(400)} for _ in range(4) for role in ("user", "assistant")]
    agent = Agent("reader", model=provider.wrap(stage.responses()))
    run = Runner.run_streamed(agent, [*talk, {"role": "user", "content": "Go on."}], run_config=provider.run_config())
    types = [event.data.type async for event in run.stream_events() if event.type == "raw_response_event"]
    assert types.count("response.created") == types.count("response.completed") == 1
    assert "response.failed" not in types
    assert run.final_output == prose(30)
    assert len(side.model_requests) == 2


async def test_a_stream_that_fails_in_its_answer_is_the_callers(stage: Stage) -> None:
    side = stage.side(Answer(prose(30)))
    side.stream_fail_after = 6
    provider = CompactionModelProvider(context_window=WINDOW)
    agent = Agent("reader", model=provider.wrap(stage.responses()))
    with pytest.raises(ModelBehaviorError, match="context"):
        await _play_streamed(agent, provider.run_config())
    assert len(side.requests) == 1


# -- the server's own compaction


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        (ModelSettings(extra_body={"context_management": server_compaction.OPENAI_COMPACTS}), "context_management"),
        (ModelSettings(truncation="auto"), "truncation"),
    ],
    ids=["context_management", "truncation"],
)
async def test_compaction_is_left_to_the_server(stage: Stage, settings: ModelSettings, option: str) -> None:
    side, events = stage.side(*[Answer("Yes.")] * 3), list[CompactionEvent]()
    provider = CompactionModelProvider(
        context_window=server_compaction.WINDOW,
        settings=server_compaction.SETTINGS,
        summarizer=CountingSummarizer(),
        on_event=events.append,
    )
    agent = Agent("reader", model=provider.wrap(stage.responses()), model_settings=settings)
    items: list[Any] = [{"role": role, "content": prose(900)} for _ in range(6) for role in ("user", "assistant")]
    for number in server_compaction.three_requests(side):
        items += [{"role": "user", "content": f"Question {number}."}]
        items = (await Runner.run(agent, items, run_config=provider.run_config("thread"))).to_input_list()
    server_compaction.check_left_to_server(side, events, option)


async def test_a_conversation_that_the_server_keeps_is_left_to_it(stage: Stage) -> None:
    side, events = stage.side(*reads(6)), list[CompactionEvent]()
    side.window = 10**6
    provider = CompactionModelProvider(
        context_window=WINDOW, settings=CompactionSettings(trigger_tokens=2_000), on_event=events.append
    )
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=[read_manual])
    config = provider.run_config("thread")
    await Runner.run(agent, "Begin.", run_config=config, auto_previous_response_id=True, max_turns=20)
    assert compacted(events) == set()
    assert [len(request.body["input"]) for request in side.requests] == [1] * 7


async def test_what_the_server_did_not_keep_is_the_conversations_own_list(stage: Stage) -> None:
    stage.side(Answer("Yes."), *reads(6))
    events: list[CompactionEvent] = []
    provider = CompactionModelProvider(context_window=WINDOW, settings=PLAIN, on_event=events.append)
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=[read_manual])
    config = provider.run_config("thread")
    await Runner.run(agent, "Go on.", run_config=config, previous_response_id="resp_0")
    await Runner.run(agent, "Begin.", run_config=config, max_turns=20)
    assert compacted(events) == {"thread"}


# -- what its users reported


async def test_a_session_keeps_all_items_whatever_is_loaded_of_it(stage: Stage) -> None:
    """openai-agents-python #5010: a limited window was compacted, and the rest of the store deleted."""
    side, session = (
        stage.side(*reads(5), Answer("Yes.")),
        SQLiteSession("thread", session_settings=SessionSettings(limit=6)),
    )
    provider = CompactionModelProvider(context_window=WINDOW)
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=[read_manual])
    options: dict[str, Any] = {"session": session, "run_config": provider.run_config(session), "max_turns": 20}
    await Runner.run(agent, "Begin.", **options)
    before = await session.get_items(limit=1_000)
    await Runner.run(agent, "And now?", **options)
    assert (await session.get_items(limit=1_000))[: len(before)] == before
    assert side.rejections == []
    session.close()


async def test_an_overflow_has_one_error_for_all_models(stage: Stage) -> None:
    """openai-agents-python #1093: what overflowed could only be read from each provider's text."""
    for model in (stage.responses(), stage.chat()):
        side = stage.side()
        side.reject_next = 2
        provider = CompactionModelProvider(context_window=10**6, summarizer=CountingSummarizer())
        agent = Agent("reader", model=provider.wrap(model))
        with pytest.raises(ContextOverflowError) as told:
            await Runner.run(agent, [{"role": "user", "content": prose(3_000)}], run_config=provider.run_config())
        assert type(told.value.__cause__).__name__ == "BadRequestError"


async def test_another_model_writes_the_summaries(stage: Stage) -> None:
    side, other = stage.side(*reads(5)), stage.side(key="-cheap")
    cheap = Stage(stage.provider, f"{stage.key}-cheap")
    controller = CompactionController(context_window=WINDOW, settings=PLAIN, summarizer=summarizer(cheap.chat("small")))
    provider = CompactionModelProvider(controller)
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=[read_manual])
    await Runner.run(agent, "Begin.", run_config=provider.run_config(), max_turns=20)
    await cheap.close()
    assert [request.is_summary for request in other.requests] != []
    assert {request.body["model"] for request in other.requests} == {"small"}
    assert not any(request.is_summary for request in side.requests)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_an_answer_that_is_no_summary_is_refused_and_reasoning_has_room(stage: Stage, api: str) -> None:
    side, writer = stage.side(window=200_000), summarizer(getattr(stage, api)())
    await summary_answers.check(side, writer, tells_ending=api == "responses")


# -- one chain


def items_of(messages: Iterable[Any]) -> list[Any]:
    """Return chat messages as the items that the SDK would have of them."""
    items: list[Any] = []
    for message in messages:
        text = message.get("content") or ""
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": text})
            continue
        if text:
            items.append({"role": message["role"], "content": text})
        for call in message.get("tool_calls") or ():
            function = call["function"]
            named = {"name": function["name"], "arguments": function["arguments"]}
            items.append({"type": "function_call", "call_id": call["id"], **named})
    return items


@pytest.mark.full
@needs_data
def test_recorded_sessions_have_one_chain_in_items_and_in_what_the_sdk_sends() -> None:
    checked = 0
    for session in islice(sessions(), 0, None, 6):
        chat = [message for message in session["messages"] if isinstance(message.get("content"), str | None)]
        if len(chat) < len(session["messages"]):
            continue  # pictures
        items = items_of(chat)
        sent = Converter.items_to_messages(items)
        assert chain(OpenAIResponsesFormat(), items) == chain(OpenAIChatFormat(), sent), session["id"]
        checked += 1
    assert checked > 30


# -- what a resumed run, a nested agent and the user's own code must not get or change


async def test_a_resumed_run_recalls_nothing_of_the_run_before_it(stage: Stage) -> None:
    """Its tools run before its first model call, in the context of whichever run was before."""
    ask = Answer(calls=(Call("recall", {"query": "code of the vault"}),))
    stage.side(ask, *reads(4, "Bob is done."), ask, Answer("Alice is done."))
    provider = CompactionModelProvider(context_window=WINDOW, settings=PLAIN, summarizer=CountingSummarizer())
    approved = replace(provider.recall_tool(), needs_approval=True)
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=[read_manual, approved])
    waiting = await Runner.run(agent, "Alice asks.", run_config=provider.run_config("alice"))
    state = waiting.to_state()
    for interruption in state.get_interruptions():
        state.approve(interruption)
    await Runner.run(agent, "Bob: the code of the vault is 4711.", run_config=provider.run_config("bob"), max_turns=20)
    again = await Runner.run(agent, state, run_config=provider.run_config("alice"))
    (interruption,) = again.interruptions
    assert "4711" not in str(again.to_input_list())
    assert "call this tool again" in str(again.to_input_list())


@pytest.mark.parametrize("arguments", ["", "{bad", "[1]", '"code"', "null", '{"self": 1}'])
async def test_arguments_of_recall_that_are_no_object_end_no_run(stage: Stage, arguments: str) -> None:
    provider = CompactionModelProvider(context_window=WINDOW)

    class Careless(Model):
        """It calls recall with these arguments, and then is done."""

        async def get_response(self, *given: Any, **named: Any) -> ModelResponse:
            call = ResponseFunctionToolCall(arguments=arguments, call_id="c1", name="recall", type="function_call")
            text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
            done = ResponseOutputMessage(id="m1", content=[text], role="assistant", status="completed", type="message")
            return ModelResponse([call if len(named["input"]) == 1 else done], Usage(), None)

        def stream_response(self, *given: Any, **named: Any) -> Any:
            raise NotImplementedError

    agent = Agent("reader", model=provider.wrap(Careless()), tools=[provider.recall_tool()])
    assert (await Runner.run(agent, "Begin.", run_config=provider.run_config())).final_output == "Done."


async def test_views_of_agents_without_the_recall_tool_do_not_name_it(stage: Stage) -> None:
    side, events = stage.side(*reads(5)), list[CompactionEvent]()
    provider = CompactionModelProvider(context_window=WINDOW, on_event=events.append)
    provider.recall_tool()  # of another agent
    agent = Agent("helper", model=provider.wrap(stage.responses()), tools=[read_manual])
    await Runner.run(agent, "Begin.", run_config=provider.run_config(), max_turns=20)
    assert compacted(events)
    assert "recall(" not in str(side.model_requests[-1].messages)


async def test_a_call_that_the_provider_may_not_store_has_such_a_summary(stage: Stage) -> None:
    side = stage.side(*reads(5))
    provider = CompactionModelProvider(context_window=WINDOW, settings=PLAIN)
    settings = ModelSettings(store=False)
    agent = Agent("reader", model=provider.wrap(stage.responses()), tools=[read_manual], model_settings=settings)
    await Runner.run(agent, "Begin.", run_config=provider.run_config(), max_turns=20)
    assert {(request.is_summary, request.body["store"]) for request in side.requests} == {(True, False), (False, False)}


async def test_by_hand_the_list_is_compacted_that_the_calls_send(stage: Stage) -> None:
    """After `clear_session` a list begins anew under the same id."""
    side = stage.side(*[Answer("Yes.")] * 2)
    provider = CompactionModelProvider(context_window=10**6, summarizer=CountingSummarizer())
    agent, config = Agent("reader", model=provider.wrap(stage.responses())), provider.run_config("thread")
    await Runner.run(agent, "Of the first list.", run_config=config)
    anew: list[Any] = [{"role": role, "content": prose(900)} for _ in range(6) for role in ("user", "assistant")]
    await provider.compact(anew, "thread", keep_recent_tokens=500)
    await Runner.run(agent, [*anew, {"role": "user", "content": "Go on."}], run_config=config)
    assert SECRET in str(side.model_requests[-1].messages)
    await provider.forget("thread")
    assert repr(provider.controller).endswith("0 sessions)")


async def test_streams_are_closed_with_ours_and_wrapped_models_stay_what_they_are(stage: Stage) -> None:
    closed: list[bool] = []

    class Watched(Model):
        async def get_response(self, *given: Any, **named: Any) -> ModelResponse:
            raise NotImplementedError

        async def stream_response(self, *given: Any, **named: Any) -> Any:
            try:
                while True:
                    yield SimpleNamespace(type="response.output_text.delta", delta="Yes.")
            finally:
                closed.append(True)

    provider = CompactionModelProvider(context_window=WINDOW)
    model = provider.wrap(Watched())
    assert provider.wrap(model) is model
    assert copy(model) is not model
    arguments: list[Any] = [None, "Begin.", ModelSettings(), [], None, [], ModelTracing.DISABLED]
    server: dict[str, Any] = {"previous_response_id": None, "conversation_id": None, "prompt": None}
    events: Any = model.stream_response(*arguments, **server)
    await anext(events)
    await events.aclose()
    assert closed == [True]


def test_what_names_no_conversation_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs a session of the SDK"):
        CompactionModelProvider().run_config(cast("Any", 7))
