"""Agent Framework: what users reported, its own compaction and history, sub-agents, streams and cancellation."""

import asyncio
import copy
import json
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    CompactionProvider,
    Content,
    InMemoryHistoryProvider,
    Message,
    SlidingWindowStrategy,
    tool,
)
from compaction_adapters.agent_framework import AgentFrameworkFormat, CompactionMiddleware, summarizer
from pydantic import BaseModel

from compaction_hooks import CompactionSettings, CompactionSkipped, ConfigurationError, ContextOverflowError, Usage
from compaction_hooks.events import CompactionEvent, CompactionFinished
from tests.adapters import server_compaction, summary_answers
from tests.adapters.agent_framework_stage import (
    APIS,
    HAS_ANTHROPIC,
    LOCAL,
    WINDOW,
    Stage,
    run_streamed,
    spoken,
    stored,
    texts,
)
from tests.adapters.recall_scene import read_page
from tests.adapters.server_compaction import COMPACTS, SETTINGS, check_left_to_server, three_requests
from tests.adapters.stage import SECRET, CountingSummarizer
from tests.cases import crossed, sampled
from tests.provider import Answer, Call

READS = [Answer(calls=(Call("read_page", {"page": page}),)) for page in range(1, 9)]


async def run(agent: Agent[Any], text: str, session: AgentSession | None, is_streamed: bool) -> str:
    if is_streamed:
        return str((await run_streamed(agent, text, session))[0].messages[-1].text)
    return str((await agent.run(text, session=session)).messages[-1].text)


# -- what users reported


@crossed(per_call=[False, True], is_streamed=[False, True])
async def test_what_is_stored_is_whole_and_has_no_flags(stage: Stage, is_streamed: bool, per_call: bool) -> None:
    """agent-framework #8099, #8546: exclusion flags stayed on stored messages, and their summary was lost."""
    side = stage.side(*READS, Answer("Read."), Answer("Indeed."))
    middleware = CompactionMiddleware(context_window=WINDOW)
    options: Any = {"require_per_service_call_history_persistence": per_call}
    history = InMemoryHistoryProvider(skip_excluded=True)
    agent = stage.agent("openai", middleware, tools=[read_page], context_providers=[history], **options)
    session = agent.create_session()
    assert await run(agent, "Read all pages.", session, is_streamed) == "Read."
    saved = json.loads(json.dumps(session.to_dict()))
    restored = AgentSession.from_dict(saved)
    assert await run(agent, "Is that so?", restored, is_streamed) == "Indeed."

    assert side.rejections == []
    messages = stored(restored)
    assert [message.role for message in messages] == ["user", *["assistant", "tool"] * 8, *["assistant", "user"] * 2][
        :-1
    ]
    assert not any({"_group", "_excluded"} & message.additional_properties.keys() for message in messages)
    assert all(f"Page {page}. " in texts(messages) for page in range(1, 9))
    assert SECRET not in texts(messages)


async def test_the_history_of_each_call_is_compacted(stage: Stage) -> None:
    """agent-framework #7011: with history kept per model call, the framework's own compaction saw an empty list."""
    side, events = stage.side(*[Answer("Yes.")] * 12), list[CompactionEvent]()
    middleware = CompactionMiddleware(context_window=WINDOW, summarizer=CountingSummarizer(), on_event=events.append)
    agent = stage.agent("openai", middleware, require_per_service_call_history_persistence=True)
    agent.context_providers.append(InMemoryHistoryProvider())
    session = agent.create_session()
    for message in spoken(12, 1_500)[::2]:
        await agent.run(message.text, session=session)
    assert side.rejections == []
    assert any(isinstance(event, CompactionFinished) for event in events)
    assert SECRET in texts(side.model_requests[-1].messages)
    assert len(stored(session)) == 24


async def test_the_caller_keeps_list_and_messages(stage: Stage) -> None:
    """agent-framework #4991, #7744: messages that a caller or a store shares were changed."""
    stage.side(Answer("Yes."))
    middleware = CompactionMiddleware(context_window=WINDOW, summarizer=CountingSummarizer())
    messages = spoken(30)[:-1]
    before = copy.deepcopy([message.to_dict() for message in messages])
    objects = list(messages)
    await stage.agent("openai", middleware).run(messages)
    assert all(map(lambda one, other: one is other, messages, objects))
    assert [message.to_dict() for message in messages] == before


async def test_a_summary_of_the_framework_is_kept_as_one(stage: Stage) -> None:
    """agent-framework #7943: the summary of an own provider was dropped."""
    group = {"id": "g", "_summary_of_message_ids": ["m1", "m2"]}
    made = Message("assistant", ["Earlier: the port is 8443."], additional_properties={"_group": group})
    assert AgentFrameworkFormat().read(made)[0].is_summary
    side = stage.side(Answer("Yes."))
    middleware = CompactionMiddleware(context_window=WINDOW)
    await stage.agent("openai", middleware).run([made, *spoken(30)[:-1]])
    assert "8443" in side.requests[0].body["messages"][-1]["content"]  # the summarizer is told
    assert side.requests[0].is_summary


# -- the framework's own compaction, and history of the service


@crossed(place=["agent", "client", "provider"], is_streamed=[False, True])
async def test_its_own_compaction_comes_first(stage: Stage, place: str, is_streamed: bool) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    strategy = SlidingWindowStrategy(keep_last_groups=1_000)  # it is on, and has nothing to do
    middleware = CompactionMiddleware(
        settings=SETTINGS,
        context_window=server_compaction.WINDOW,
        on_event=events.append,
        summarizer=CountingSummarizer(),
    )
    client = stage.client("openai")
    client.compaction_strategy = strategy if place == "client" else None
    providers = (
        [InMemoryHistoryProvider(), CompactionProvider(after_strategy=strategy)] if place == "provider" else None
    )
    agent = Agent(
        client=client,
        middleware=[middleware],
        context_providers=providers,
        compaction_strategy=strategy if place == "agent" else None,
    )
    session = agent.create_session()
    session.state["in_memory"] = {"messages": spoken(30)}
    for number in three_requests(side):
        await run(agent, f"Go on, {number}.", session, is_streamed)  # the framework does not store equal runs twice
    check_left_to_server(side, events, "CompactionProvider" if place == "provider" else "compaction_strategy")


@pytest.mark.skipif(not HAS_ANTHROPIC, reason="its client is not installed")
async def test_a_server_that_compacts_comes_first(stage: Stage) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    middleware = CompactionMiddleware(
        settings=SETTINGS,
        context_window=server_compaction.WINDOW,
        on_event=events.append,
        summarizer=CountingSummarizer(),
    )
    agent = stage.agent("anthropic", middleware, default_options={"context_management": COMPACTS})
    session = agent.create_session()
    session.state["in_memory"] = {"messages": spoken(30)}
    for number in three_requests(side):
        await agent.run(f"Go on, {number}.", session=session)
    check_left_to_server(side, events, "context_management")


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_the_history_of_a_service_is_left_to_it(stage: Stage, is_streamed: bool) -> None:
    """Responses keep the history by default (agent-framework #4628). A result above the threshold is reported once."""
    side, events = stage.side(*READS[:3], Answer("Read."), window=200_000), list[CompactionEvent]()
    settings = CompactionSettings(trigger_tokens=2_000)
    middleware = CompactionMiddleware(context_window=WINDOW, settings=settings, on_event=events.append)
    agent = stage.agent("responses", middleware, tools=[read_page], default_options={})
    session = agent.create_session()
    assert await run(agent, "Read three pages.", session, is_streamed) == "Read."
    ids = [request.body.get("previous_response_id") for request in side.requests]
    assert ids == [None, "resp_0001", "resp_0002", "resp_0003"]
    assert [len(request.body["input"]) for request in side.requests] == [1, 1, 1, 1]
    assert [event.why for event in events if isinstance(event, CompactionSkipped)] == [
        "left to the server (conversation_id)"
    ]
    assert session.service_session_id == "resp_0004"


# -- several agents


async def test_sub_agents_have_conversations_of_their_own(stage: Stage) -> None:
    """With the session of the outer run, and without; the middleware is the client's."""
    events = list[CompactionEvent]()
    middleware = CompactionMiddleware(context_window=WINDOW, summarizer=CountingSummarizer(), on_event=events.append)
    client = stage.client("openai", middleware=[middleware])
    for propagates in (True, False):
        calls = [Answer(calls=(Call("helper", {"task": f"Dig {turn}."}),)) for turn in range(2)]
        side = stage.side(calls[0], *READS, Answer("Dug."), Answer("Done."), calls[1], Answer("Dug."), Answer("Done."))
        own = [InMemoryHistoryProvider(source_id="helper")]
        helper = Agent(client=client, name="helper", instructions="Help.", tools=[read_page], context_providers=own)
        outer = Agent(client=client, instructions="Lead.", tools=[helper.as_tool(propagate_session=propagates)])
        session = outer.create_session(session_id=f"outer-{propagates}")
        for turn in range(2):
            assert (await outer.run(f"Go {turn}.", session=session)).messages[-1].text == "Done."
        assert side.rejections == []
        led = [request for request in side.model_requests if "Lead." in texts(request.messages)]
        assert [len(request.messages) for request in led] == [2, 4, 6, 8]
    finished = {event.session_id for event in events if isinstance(event, CompactionFinished)}
    assert len(finished) == 2
    assert [name.partition("%/")[0] == "outer-True" and "%/" in name for name in sorted(finished)].count(True) == 1
    assert not finished & {"outer-True", "outer-False"}


async def test_handed_over_messages_are_another_conversation(stage: Stage) -> None:
    """As a handoff of the framework's orchestrations: the messages go over, each agent has a session of its own."""
    side, events = stage.side(Answer("Over to you."), Answer("Mine.")), list[CompactionEvent]()
    counting = CountingSummarizer()
    middleware = CompactionMiddleware(context_window=WINDOW, summarizer=counting, on_event=events.append)
    first, second = (stage.agent("openai", middleware, name=name) for name in ("first", "second"))
    messages = spoken(30)[:-1]
    said = await first.run(messages, session=first.create_session(session_id="one"))
    await second.run(
        [*messages, *said.messages, Message("user", ["Go on."])], session=second.create_session(session_id="two")
    )
    finished = [event.session_id for event in events if isinstance(event, CompactionFinished)]
    assert finished == ["one", "two"]
    assert len(side.requests) == len(counting.asked) == 2


async def test_parallel_runs_do_not_mix(stage: Stage) -> None:
    middleware = CompactionMiddleware(context_window=WINDOW)
    sides = {name: stage.side(*READS, Answer(f"I am {name}."), key=name) for name in ("a", "b", "c")}
    agents = {name: stage.agent("openai", middleware, tools=[read_page], key=name) for name in sides}

    async def ask(name: str) -> str:
        session = agents[name].create_session() if name != "c" else None
        return await run(agents[name], f"Read all pages, {name}.", session, name == "a")

    assert await asyncio.gather(*map(ask, sides)) == [f"I am {name}." for name in sides]
    for name, side in sides.items():
        assert side.rejections == []
        assert not any(
            f", {other}." in texts(request.messages) for request in side.requests for other in sides if other != name
        )


# -- calls


async def test_calls_without_the_middleware_are_as_they_were(stage: Stage) -> None:
    """The client's class is changed once; a copy of the client sends by its own options."""
    side = stage.side(*[Answer("Yes.")] * 4, window=200_000)
    client = stage.client("openai")
    long = spoken(40)[:-1]
    await Agent(client=client, middleware=[CompactionMiddleware(context_window=WINDOW)]).run("Hi.")
    other = copy.copy(client)
    other.model = "another"
    for asked in (client, other):
        response = await asked.get_response(long)
        assert response.text == "Yes."
        assert len(side.requests[-1].messages) == len(long)
    assert side.requests[-1].body["model"] == "another"
    assert client.to_dict().keys() == stage.client("openai").to_dict().keys()


@pytest.mark.skipif(not HAS_ANTHROPIC, reason="its client is not installed")
async def test_an_answer_that_the_window_cut_is_asked_for_once_more(stage: Stage) -> None:
    side = stage.side(Answer("Ye", stop="model_context_window_exceeded"), Answer("Yes."))
    middleware = CompactionMiddleware(context_window=WINDOW, summarizer=CountingSummarizer())
    assert (await stage.agent("anthropic", middleware).run(spoken(15)[:-1])).text == "Yes."
    first, second = side.requests
    assert second.input_tokens < first.input_tokens
    assert SECRET in texts(second.messages)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_the_usage_of_a_call_is_read_once(stage: Stage, api: str, is_streamed: bool) -> None:
    """Anthropic's client tells the usage of a stream in increments."""
    side = stage.side(Answer(usage=Usage(input_tokens=7_000, output_tokens=30, cache_read_tokens=6_000), text="Yes."))
    middleware = CompactionMiddleware(context_window=WINDOW)
    agent = stage.agent(api, middleware)
    session = agent.create_session()
    assert await run(agent, "Hi.", session, is_streamed) == "Yes."
    state = middleware.session(session.session_id).state()
    assert len(side.requests) == 1
    assert state.context_tokens is not None
    assert (state.context_tokens, state.is_estimate) == (7_000, False)


async def test_an_empty_answer_is_streamed_to_its_end(stage: Stage) -> None:
    stage.side(Answer(""))
    agent = stage.agent("openai", CompactionMiddleware(context_window=WINDOW))
    updates = [update async for update in agent.run("Hi.", stream=True)]
    assert [update.finish_reason for update in updates if update.finish_reason] == ["stop"]


async def test_structured_output_of_a_stream(stage: Stage) -> None:
    class Found(BaseModel):
        code: int

    stage.side(Answer('{"code": 7}'), Answer('{"code": 7}'))
    for api in ("openai", "responses"):
        agent = stage.agent(
            api, CompactionMiddleware(context_window=WINDOW), default_options={"response_format": Found, **LOCAL}
        )
        response, _ = await run_streamed(agent, "Which code?")
        assert response.value == Found(code=7)


@pytest.mark.parametrize("api", APIS)
async def test_a_broken_off_stream_ends_its_request(stage: Stage, api: str) -> None:
    kept: list[int] = []
    for middleware in ([], [CompactionMiddleware(context_window=WINDOW)]):
        side = stage.side(Answer("a " * 4_000), Answer("Yes."))
        agent = stage.agent(api, *middleware)
        session = agent.create_session()
        stream: Any = agent.run("Hi.", session=session, stream=True)
        async with stream:
            async for update in stream:
                if update.text:
                    break
        kept.append(len(texts(stored(session))))
        assert (await agent.run("Hi again.", session=session)).text == "Yes."
        assert len(side.requests) == 2
    assert kept[0] == kept[1] < 4_000  # the framework keeps the part that was read


async def test_a_second_overflow_leaves_the_session_as_it_was(stage: Stage) -> None:
    for is_streamed in (False, True):
        side = stage.side(Answer("Yes."), key=str(is_streamed))
        middleware = CompactionMiddleware(context_window=WINDOW, summarizer=CountingSummarizer())
        agent = stage.agent("openai", middleware, key=str(is_streamed))
        session = agent.create_session()
        session.state["in_memory"] = {"messages": spoken(20)}
        side.reject_next = 2
        with pytest.raises(ContextOverflowError):
            await run(agent, "Go on.", session, is_streamed)
        assert [request.status for request in side.requests] == [400, 400]
        assert len(stored(session)) == 40


async def test_a_cancelled_run_with_history_per_call_is_repaired(stage: Stage) -> None:
    """The framework has stored the call by then, and not its result: without `repair` the provider refuses each later request."""
    started = asyncio.Event()

    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    for repair in (False, True):
        side = stage.side(Answer(calls=(Call("wait", {}),)), Answer("Yes."), key=str(repair))
        middleware = CompactionMiddleware(context_window=WINDOW, settings=CompactionSettings(repair=repair))
        options: Any = {"require_per_service_call_history_persistence": True, "key": str(repair)}
        agent = stage.agent(
            "openai", middleware, tools=[wait], context_providers=[InMemoryHistoryProvider()], **options
        )
        session = agent.create_session()
        task = asyncio.create_task(run(agent, "Wait.", session, False))
        await started.wait()
        started.clear()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        again = run(agent, "Go on.", session, False)
        if repair:
            assert await again == "Yes."
        else:
            with pytest.raises(Exception, match="400"):
                await again
        assert len(side.rejections) == (0 if repair else 1)


async def test_a_summarizer_of_another_client(stage: Stage) -> None:
    """Its middleware is not asked: the client of the summary may be the one that compacts."""
    model, writer = stage.side(Answer("Yes.")), stage.side(key="writer")
    client = stage.client("responses", "writer", middleware=[CompactionMiddleware(context_window=WINDOW)])
    middleware = CompactionMiddleware(context_window=WINDOW, summarizer=summarizer(client, "small"))
    await stage.agent("openai", middleware).run(spoken(26)[:-1])
    assert [request.body["model"] for request in writer.requests] == ["small"]
    assert writer.requests[0].is_summary
    assert [request.is_summary for request in model.requests] == [False]


@pytest.mark.parametrize("api", sampled(APIS, 1))
async def test_an_answer_that_is_no_summary_is_refused_and_reasoning_has_room(stage: Stage, api: str) -> None:
    await summary_answers.check(stage.side(window=200_000), summarizer(stage.client(api)))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ConfigurationError, match="str is no chat client of Agent Framework"):
        summarizer("gpt-5")
    with pytest.raises(TypeError, match="contxt_window"):
        CompactionMiddleware(contxt_window=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_recall_next_to_a_call_that_was_approved_has_a_result(stage: Stage, is_streamed: bool) -> None:
    """When the run goes on, the framework's loop answers the held-back calls before its first model call."""

    @tool(approval_mode="always_require")
    def push(branch: str) -> str:
        """Push a branch."""
        return f"pushed {branch}"

    both = Call("recall", {"query": "branch"}), Call("push", {"branch": "main"})
    side = stage.side(Answer(calls=both), Answer("Done."), Answer("Yes."))
    agent = stage.agent("openai", CompactionMiddleware(context_window=WINDOW, recall=True), tools=[push])
    session = agent.create_session()
    asked = await agent.run("Publish.", session=session)
    contents = [content for message in asked.messages for content in message.contents]
    requests: list[Any] = [one for one in contents if one.type == "function_approval_request"]
    approved = Message("user", [one.to_function_approval_response(True) for one in requests])
    ended = (
        (await run_streamed(agent, approved, session))[0] if is_streamed else await agent.run(approved, session=session)
    )
    assert ended.text == "Done."
    assert await run(agent, "Is it out?", session, is_streamed) == "Yes."
    assert side.rejections == []
    assert "pushed main" in texts(side.requests[-1].messages)


async def test_a_first_run_that_failed_leaves_its_id_to_the_next_one(stage: Stage) -> None:
    """The framework stores nothing of it, so the next run begins otherwise."""
    side = stage.side(Answer("Yes."))
    side.reject_next = 2
    middleware = CompactionMiddleware(context_window=10**6, summarizer=CountingSummarizer())
    agent = stage.agent("openai", middleware)
    session = agent.create_session(session_id="thread-1")
    with pytest.raises(ContextOverflowError):
        await agent.run(spoken(9), session=session)
    await agent.run("Begin anew.", session=session)
    assert (await middleware.compact(stored(session), "thread-1")).messages
    assert repr(middleware.controller).endswith("1 session)")
    assert side.requests[-1].status == 200
    await middleware.forget("thread-1")
    assert repr(middleware.controller).endswith("0 sessions)")


def test_answers_to_requests_for_approval_are_no_results() -> None:
    call = Content.from_function_call("b", "push", arguments="{}")
    approval = Content.from_function_approval_response(True, "id1", call)
    result = Content.from_function_result("b", result="pushed")
    calls = [Content.from_function_call("a", "read", arguments="{}"), call]
    messages = [Message("user", ["Go."]), Message("assistant", calls), Message("tool", [approval, result])]
    middleware = CompactionMiddleware(context_window=WINDOW, settings=CompactionSettings(repair=True))
    view = middleware.session("thread").transform_context_sync(messages)
    results = [content.call_id for message in view for content in message.contents if content.type == "function_result"]
    assert sorted(map(str, results)) == ["a", "b"]
