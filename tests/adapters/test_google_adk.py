"""Google ADK: agents of one session, compaction that others do, pending and orphaned calls, recovery, models, contents."""

import base64
import json
from collections.abc import AsyncGenerator, Sequence
from itertools import groupby, islice
from typing import Any

import pytest
from anthropic import APIStatusError
from compaction_adapters.google_adk import CompactionPlugin, summarizer
from google.adk.agents import BaseAgent, ParallelAgent
from google.adk.agents.context import Context
from google.adk.apps.app import EventsCompactionConfig
from google.adk.events import Event
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import Session
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.workflow import Workflow, node
from google.genai import types

from compaction_hooks import CompactionController, CompactionFinished, ConfigurationError
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import GeminiFormat, OpenAIChatFormat
from tests.adapters.google_adk_stage import (
    AGENT,
    APP,
    QUIET,
    USER,
    WINDOW,
    Hosted,
    Stage,
    agent,
    content,
    id_of,
    text_of,
)
from tests.adapters.same_chain import CONVERSATIONS, NO_JSON, Chat, chain
from tests.adapters.server_compaction import SETTINGS, check_left_to_server, three_requests
from tests.adapters.server_compaction import WINDOW as LARGE_WINDOW
from tests.adapters.stage import SECRET, CountingSummarizer
from tests.conversations import PLAIN, prose
from tests.data import needs_data, sessions
from tests.provider import Answer, Call, Received, Side

pytestmark = QUIET


def read_page(page: int) -> str:
    """Return a page of about 6,000 tokens."""
    return f"Page {page}. " + f"Nothing of note on line {page}. " * 720


def reads(count: int) -> list[Answer]:
    """Return answers that read pages of about 6,000 tokens; four are more than the window."""
    return [Answer(calls=(Call("read_page", {"page": page}),)) for page in range(1, count + 1)]


def compacted_ids(events: Sequence[CompactionEvent]) -> list[str]:
    return [event.session_id for event in events if isinstance(event, CompactionFinished)]


# -- agents of one session


async def test_an_agent_and_the_one_it_transfers_to_have_conversations_of_their_own(stage: Stage) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    side.answers.extend([*reads(4), Answer(calls=(Call("transfer_to_agent", {"agent_name": "child"}),))])
    side.answers.extend([*reads(4), Answer("Read by the child.")])
    child = agent(stage.gemini(), [read_page], "child", description="It reads.")
    root = agent(stage.gemini(), [read_page], "root", sub_agents=[child])
    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    hosted = Hosted(root, plugin)
    assert await hosted.say("Read all pages, then let the child read them.") == "Read by the child."
    assert side.rejections == []
    assert set(compacted_ids(events)) == {id_of("root"), id_of("child")}
    events.clear()
    side.answers.append(Answer("Yes."))
    assert await hosted.say("And?") == "Yes."  # the child goes on, and its summary is still true
    assert compacted_ids(events) == []
    assert len(side.model_requests[-1].messages) < len(await hosted.contents())


async def test_parallel_agents_do_not_mix(stage: Stage) -> None:
    """They share a session, and the model's instance."""
    side, events, model = stage.side(), list[CompactionEvent](), stage.gemini()
    pages = {"left": 0, "right": 0}

    def think(received: Received) -> Answer:
        name = "left" if "left" in received.system else "right"
        pages[name] += 1
        return (
            Answer(calls=(Call(f"read_{name}", {"page": pages[name]}),))
            if pages[name] < 5
            else Answer(f"{name} is done.")
        )

    def read_left(page: int) -> str:
        return read_page(page).replace("note", "left-hand note")

    def read_right(page: int) -> str:
        return read_page(page).replace("note", "right-hand note")

    side.think = think
    both: list[BaseAgent] = [
        agent(model, [read_left], "one", instruction="You are left."),
        agent(model, [read_right], "two", instruction="You are right."),
    ]
    hosted = Hosted(
        ParallelAgent(name="both", sub_agents=both), CompactionPlugin(context_window=WINDOW, on_event=events.append)
    )
    said = {text_of(event) async for event in hosted.events("Read all pages.")}
    assert said >= {"left is done.", "right is done."}
    assert side.rejections == []
    assert set(compacted_ids(events)) == {id_of("one", branch="both.one"), id_of("two", branch="both.two")}
    for request in side.model_requests:
        assert ("left-hand" in json.dumps(request.messages)) <= ("left" in request.system)


async def test_an_agent_of_a_workflow_has_a_conversation_for_each_task(stage: Stage) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    worker = agent(stage.gemini(), [read_page], "worker", mode="task")
    for _ in range(2):
        side.answers.extend([*reads(4), Answer(calls=(Call("finish_task", {"result": "Read."}),))])

    @node(rerun_on_resume=True)
    async def lead(ctx: Context, node_input: object) -> None:
        for number in (1, 2):
            await ctx.run_node(worker, node_input=f"Read for task {number}.")

    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    async for _ in Hosted(Workflow(name="all", edges=[("START", lead)]), plugin).events("Go."):
        pass
    assert set(compacted_ids(events)) == {f"{id_of('worker')}%/%/all@1/lead@1/worker@{number}" for number in (1, 2)}


async def test_the_limit_that_adks_claude_sends_is_kept_free(stage: Stage) -> None:
    side = stage.side(*reads(4), Answer("Read."))
    hosted = Hosted(agent(stage.anthropic(max_tokens=9_000), [read_page]), CompactionPlugin(context_window=WINDOW))
    assert await hosted.say("Read all pages.") == "Read."
    assert [request for request in side.requests if request.input_tokens + 9_000 > WINDOW] == []


async def test_a_view_is_sent_with_the_options_of_the_call(stage: Stage) -> None:
    """A model may change a request that it sends, as ADK's context cache takes its instruction out."""

    class Terse(Gemini):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
            llm_request.config.system_instruction = f"{llm_request.config.system_instruction} Be brief."
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    side = stage.side(*reads(4), Answer("Read."))
    inner = stage.gemini()
    model = Terse(model=inner.model, client=inner.client)
    plugin = CompactionPlugin(context_window=2 * WINDOW, settings=PLAIN)
    assert await Hosted(agent(model, [read_page], instruction="Read."), plugin).say("Read all pages.") == "Read."
    assert side.rejections != []
    assert {request.system.count("Be brief.") for request in side.model_requests} == {1}


async def test_an_agent_as_a_tool_has_a_session_for_each_call(stage: Stage) -> None:
    side, events = stage.side(), list[CompactionEvent]()
    inner = agent(stage.gemini(), [read_page], "inner")
    side.answers.extend([Answer(calls=(Call("inner", {"request": "Read all pages."}),)), *reads(4), Answer("Read.")])
    side.answers.append(Answer("The inner one has read."))
    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    assert await Hosted(agent(stage.gemini(), [AgentTool(inner)]), plugin).say("Go.") == "The inner one has read."
    assert side.rejections == []
    (inner_id,) = set(compacted_ids(events))
    assert inner_id.startswith(f"{APP}%/{USER}%/")
    assert inner_id.endswith("%/inner")


def test_what_names_a_conversation_is_told_apart() -> None:
    sessions = [Session(id=id, app_name=APP, user_id=user) for user, id in (("ada", "work/1"), ("ada/work", "1"))]
    ids = [CompactionPlugin.conversation_id(session, "porter", *more) for session in sessions for more in ((), ("b",))]
    ids.append(CompactionPlugin.conversation_id(sessions[0], "porter", None, "b"))
    assert len({*ids}) == 5
    assert [id for id in ids if id.startswith(f"{APP}%/ada%/")] == [*ids[:2], ids[4]]


# -- compaction that others do


async def test_the_apps_own_compaction_is_left_alone(stage: Stage) -> None:
    side, events = stage.side(window=200_000), list[CompactionEvent]()
    own_words: dict[str, Any] = {"summarizer": CountingSummarizer(), "on_event": events.append}
    plugin = CompactionPlugin(context_window=LARGE_WINDOW, settings=SETTINGS, **own_words)
    own = EventsCompactionConfig(compaction_interval=100, overlap_size=0)
    hosted = Hosted(agent(stage.gemini(), [read_page]), plugin, events_compaction_config=own)
    for number in three_requests(side):
        side.answers.append(Answer(f"Answer {number}: {prose(3_000)}"))
        await hosted.say(f"Question {number}: {prose(1_000 if number else 8_000)}")
    check_left_to_server(side, events, "events_compaction_config")


class Chained(BasePlugin):
    """Names an earlier interaction, as ADK does with Gemini's `use_interactions_api`."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        llm_request.previous_interaction_id = "interaction-1"


async def test_a_history_on_the_server_is_left_there(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    side, events = stage.side(window=200_000), list[CompactionEvent]()
    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    hosted = Hosted(agent(stage.gemini()), Chained("chained"), plugin)
    for number in range(2):
        await hosted.say(f"Question {number}: {prose(20_000)}")
    assert (len(side.requests), events) == (2, [])
    assert [record.message for record in caplog.records if "keeps their history" in record.message] == [
        "calls of Google's Interactions API go on as they are: the server keeps their history"
    ]


# -- calls without a result, and results that come late


async def test_an_orphaned_call_does_not_stop_compaction(stage: Stage) -> None:
    """https://github.com/google/adk-python/issues/7236: the framework's own compaction stops for good, and says nothing."""
    side, events = stage.side(), list[CompactionEvent]()
    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    hosted = Hosted(agent(stage.gemini(), [read_page]), plugin)
    side.answers.append(Answer("Hello."))
    await hosted.say("Hello.")
    lost = types.Part(function_call=types.FunctionCall(id="adk-lost", name="read_page", args={"page": 9}))
    crashed = Event(author=AGENT, invocation_id="crashed", content=types.Content(role="model", parts=[lost]))
    await hosted.service.append_event(await hosted.session(), crashed)
    for turn in range(3):
        side.answers.extend([*reads(3), Answer(f"Read {turn}.")])
        assert await hosted.say("Read all pages.") == f"Read {turn}."
    assert side.rejections == []
    assert len(compacted_ids(events)) >= 3


async def talk_past_the_window(hosted: Hosted, side: Side, events: list[CompactionEvent]) -> None:
    for turn in range(8):
        side.answers.append(Answer(f"Answer {turn}: {prose(1_000)}"))
        await hosted.say(f"Question {turn}: {prose(1_000)}")
    assert compacted_ids(events)


async def calls_in(hosted: Hosted) -> dict[str, str]:
    """Return the ids of the calls in the session, by the tool's name."""
    parts = [part for one in await hosted.contents() for part in one.parts or ()]
    return {part.function_call.name: part.function_call.id for part in parts if part.function_call}  # type: ignore[misc]


def result(call_id: str, name: str, **response: object) -> types.Content:
    answered = types.FunctionResponse(id=call_id, name=name, response=response)
    return types.Content(role="user", parts=[types.Part(function_response=answered)])


async def test_a_long_running_call_is_answered_after_a_compaction(stage: Stage) -> None:
    """https://github.com/google/adk-python/issues/5602: a pending call was folded away, and its answer found nothing."""
    side, events = stage.side(), list[CompactionEvent]()

    def ask_boss(question: str) -> dict[str, str]:
        return {"status": "pending"}

    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    hosted = Hosted(agent(stage.gemini(), [LongRunningFunctionTool(ask_boss)]), plugin)
    side.answers.extend([Answer(calls=(Call("ask_boss", {"question": "May I?"}),)), Answer("I have asked.")])
    await hosted.say("Ask the boss.")
    await talk_past_the_window(hosted, side, events)
    side.answers.append(Answer("The boss agrees."))
    call_id = (await calls_in(hosted))["ask_boss"]
    assert await hosted.say(result(call_id, "ask_boss", status="granted by the boss")) == "The boss agrees."
    assert side.rejections == []
    assert "granted by the boss" in json.dumps(side.model_requests[-1].messages)


async def test_a_call_is_confirmed_after_a_compaction(stage: Stage) -> None:
    """https://github.com/google/adk-python/issues/4740."""
    side, events, pushed = stage.side(), list[CompactionEvent](), list[str]()

    def push(branch: str) -> str:
        pushed.append(branch)
        return f"pushed {branch}"

    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    hosted = Hosted(agent(stage.gemini(), [FunctionTool(push, require_confirmation=True)]), plugin)
    side.answers.append(Answer(calls=(Call("push", {"branch": "main"}),)))
    await hosted.say("Push it.")
    await talk_past_the_window(hosted, side, events)
    asked = (await calls_in(hosted))["adk_request_confirmation"]
    side.answers.append(Answer("It is pushed."))
    assert await hosted.say(result(asked, "adk_request_confirmation", confirmed=True)) == "It is pushed."
    assert pushed == ["main"]
    assert side.rejections == []
    assert "pushed main" in json.dumps(side.model_requests[-1].messages)


# -- recovery, and the models


async def test_an_answer_that_the_window_cut_short_is_asked_for_again(stage: Stage) -> None:
    """ADK has no name for Claude's stop reason."""
    side, events = stage.side(window=8_000, overflow="stop_reason"), list[CompactionEvent]()
    plugin = CompactionPlugin(context_window=200_000, on_event=events.append)
    hosted = Hosted(agent(stage.anthropic(max_tokens=500)), plugin)
    for turn in range(5):
        side.answers.append(Answer(f"Answer {turn}: {prose(1_000)}"))
        await hosted.say(f"Question {turn}: {prose(1_000)}")
    assert await hosted.say("And?") == "Done."
    assert [event.reason for event in events if isinstance(event, CompactionFinished)] == ["overflow"]


async def test_a_stream_that_breaks_off_is_not_repeated(stage: Stage) -> None:
    """The user has seen its beginning. The conversation goes on with the next message."""
    side, answer = stage.side(), Answer(prose(60))
    side.answers.extend([answer, answer])
    side.stream_fail_after = 5
    hosted = Hosted(agent(stage.anthropic()), CompactionPlugin(context_window=WINDOW))
    seen: list[str] = []

    async def listen() -> None:
        async for event in hosted.events("Hello.", streamed=True):
            seen.append(text_of(event))  # noqa: PERF401 - the events before the error count

    with pytest.raises((APIStatusError, RuntimeError)):  # ADK 2.13 reads the body of the stream's error, and fails
        await listen()
    assert "".join(seen)
    assert len(side.requests) == 1
    assert await hosted.say("Again.", streamed=True) == answer.text


async def test_two_apps_share_the_instance_of_a_model(stage: Stage) -> None:
    side, model = stage.side(), stage.gemini()
    told: dict[str, list[CompactionEvent]] = {"one": [], "two": []}
    for name, events in told.items():
        side.answers.extend([*reads(4), Answer("Read.")])
        plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
        await Hosted(agent(model, [read_page], name), plugin, session_id=name).say("Read all pages.")
    assert side.rejections == []
    assert [set(compacted_ids(events)) for events in told.values()] == [{id_of(name, session_id=name)} for name in told]
    side.answers.append(Answer("Yes."))
    await Hosted(agent(model)).say(f"Without a plugin: {prose(3_000)}")
    assert prose(3_000) in str(side.requests[-1].messages)


async def test_a_copy_of_a_model_makes_its_own_calls(stage: Stage) -> None:
    side, model = stage.side(), stage.anthropic(max_tokens=100)
    plugin = CompactionPlugin(context_window=WINDOW)
    await Hosted(agent(model), plugin).say("Hello.")
    await Hosted(agent(model.model_copy(update={"max_tokens": 200})), plugin).say("Hello.")
    assert [request.max_tokens for request in side.requests] == [100, 200]


async def test_what_an_agents_own_callback_adds_is_sent_and_counts(stage: Stage) -> None:
    side, events = stage.side(), list[CompactionEvent]()

    def add(callback_context: object, llm_request: LlmRequest) -> None:
        llm_request.contents.append(content(f"Mind this: {prose(6_000)}"))

    side.answers.append(Answer(f"Yes. {prose(6_000)}"))
    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    hosted = Hosted(agent(stage.gemini(), before_model_callback=add), plugin)
    await hosted.say("Hello.")
    await hosted.say(f"And now? {prose(2_000)}")
    assert compacted_ids(events)
    assert side.rejections == []
    assert all("Mind this" in str(request.messages[-1]) for request in side.model_requests)
    assert not any("Mind this" in str(one) for one in await hosted.contents())


async def test_an_instruction_inside_the_contents_is_sent_with_each_call(stage: Stage) -> None:
    """With a static instruction, the other one stands at another place in each request."""
    side, events = stage.side(), list[CompactionEvent]()
    plugin = CompactionPlugin(context_window=WINDOW, on_event=events.append)
    root = agent(
        stage.gemini(), [read_page], static_instruction="You read.", instruction="Read page by page, they said."
    )
    hosted = Hosted(root, plugin)
    for turn in range(2):
        side.answers.extend([*reads(4), Answer(f"Read {turn}.")])
        assert await hosted.say("Read all pages.") == f"Read {turn}."
    assert side.rejections == []
    assert all("page by page" in str(request.messages) for request in side.model_requests)
    assert set(compacted_ids(events)) == {id_of()}  # although the contents begin otherwise


async def test_a_tool_of_the_users_with_the_name_of_one_of_ours_is_refused(stage: Stage) -> None:
    def recall(query: str) -> str:
        """Find a product that was called back."""
        return query

    def compact_context(query: str) -> str:
        """Sum a file up."""
        return query

    side, plugin = stage.side(Answer("Yes.")), CompactionPlugin(context_window=WINDOW, recall=True, compact=True)
    for own in (recall, compact_context):
        with pytest.raises(Exception, match="rename the agent's own"):
            await Hosted(agent(stage.gemini(), [own]), plugin).say("Hello.")
    assert side.requests == []


async def test_another_model_writes_the_summaries(stage: Stage) -> None:
    side, small = stage.side(), stage.side(key="small")
    side.answers.extend([*reads(4), Answer("Read."), *reads(4), Answer("Read again.")])
    plugin = CompactionPlugin(
        context_window=WINDOW, settings=PLAIN, summarizer=summarizer(stage.anthropic(key="small"))
    )
    hosted = Hosted(agent(stage.gemini(), [read_page]), plugin)
    for said in ("Read.", "Read again."):
        assert await hosted.say(said) == said
    assert [request.is_summary for request in small.requests] == [True] * len(small.requests) != []
    assert not any(request.is_summary for request in side.requests)
    assert SECRET in str(side.requests[-1].messages)


class Watched(Gemini):
    """Keeps the options of its calls."""

    sent: list[types.GenerateContentConfig]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse]:
        self.sent.append(llm_request.config.model_copy())
        async for response in super().generate_content_async(llm_request, stream):
            yield response


async def test_a_summary_is_asked_for_with_the_connection_of_the_call(stage: Stage) -> None:
    side = stage.side(*reads(4), Answer("Read."), *reads(4), Answer("Read."))
    safety = types.SafetySetting(
        category=types.HarmCategory.HARM_CATEGORY_HARASSMENT, threshold=types.HarmBlockThreshold.OFF
    )
    options = types.GenerateContentConfig(
        temperature=0.1, safety_settings=[safety], http_options=types.HttpOptions(headers={"x-team": "parsers"})
    )
    model = Watched(model="scripted", client=stage.gemini().client, sent=[])
    hosted = Hosted(
        agent(model, [read_page], generate_content_config=options),
        CompactionPlugin(context_window=WINDOW, settings=PLAIN),
    )
    for _ in range(2):
        await hosted.say("Read all pages.")
    assert {request.is_summary for request in side.requests} == {True, False}
    for request, sent in zip(side.requests, model.sent, strict=True):
        headers = (sent.http_options and sent.http_options.headers) or {}
        assert (sent.safety_settings, headers["x-team"]) == ([safety], "parsers")
        assert (sent.temperature is None, sent.tools is None) == (request.is_summary, request.is_summary)


async def test_an_image_does_not_make_a_summary_untrue(stage: Stage) -> None:
    """Gemini's class takes the names of files away from the request."""
    side, events = stage.side(), list[CompactionEvent]()
    blob = types.Blob(mime_type="image/png", data=b"png", display_name="a.png")
    plugin = CompactionPlugin(context_window=WINDOW, settings=PLAIN, on_event=events.append)
    hosted = Hosted(agent(stage.gemini(), [read_page]), plugin)
    said = [types.Part(text="See."), types.Part(inline_data=blob)]
    side.answers.append(Answer("A picture."))
    await hosted.say(types.Content(role="user", parts=said))
    side.answers.extend([*reads(3), Answer("Read.")])
    await hosted.say("Read three pages.")
    count = len(compacted_ids(events))
    for _ in range(2):
        await hosted.say("And?")
    assert (len(compacted_ids(events)), side.rejections) == (count, [])
    assert SECRET in str(side.requests[-1].messages)


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigurationError, match="context_window: give a controller or its keywords"):
        CompactionPlugin(CompactionController(), context_window=WINDOW)
    with pytest.raises(ConfigurationError, match=r"summarizer.'no-such-model'.: give one of ADK's models, or a name"):
        summarizer("no-such-model")
    with pytest.raises(ConfigurationError, match="name the conversation by the id"):
        CompactionPlugin(context_window=WINDOW).forget_sync()


# -- contents


def as_contents(messages: Sequence[Chat]) -> list[types.Content]:
    """Return messages of OpenAI chat as ADK has them: the results of an answer's calls are one content."""
    names = {call["id"]: call["function"]["name"] for one in messages for call in one.get("tool_calls") or ()}
    contents: list[types.Content] = []
    for role, group in groupby(messages, lambda one: one["role"]):
        if role == "tool":
            contents.append(types.Content(role="user", parts=[_result(one, names) for one in group]))
        elif role != "system":
            kind = "model" if role == "assistant" else "user"
            contents += [types.Content(role=kind, parts=_parts(one)) for one in group]
    return contents


def _result(message: Chat, names: dict[str, str]) -> types.Part:
    key = "error" if message.get("is_error") else "result"
    id_ = message["tool_call_id"]
    response = types.FunctionResponse(id=id_, name=names.get(id_, ""), response={key: message["content"]})
    return types.Part(function_response=response)


def _parts(message: Chat) -> list[types.Part]:
    said = message.get("content") or []
    parts = [types.Part(text=said)] if isinstance(said, str) else [*map(_block, said)]
    for call in message.get("tool_calls") or ():
        function, args = call["function"], json.loads(call["function"]["arguments"] or "{}")
        parts.append(types.Part(function_call=types.FunctionCall(id=call["id"], name=function["name"], args=args)))
    return parts


def _block(block: Chat) -> types.Part:
    if block["type"] == "text":
        return types.Part(text=block["text"])
    url: str = block["image_url"]["url"]
    if not url.startswith("data:"):
        return types.Part(file_data=types.FileData(file_uri=url, mime_type="image/png"))
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return types.Part(inline_data=types.Blob(mime_type=kind, data=base64.b64decode(data)))


def assert_same_chain(messages: Sequence[Chat]) -> int:
    said = [one for one in messages if one["role"] != "system"]
    wanted = chain(OpenAIChatFormat(), said)
    assert chain(GeminiFormat(), as_contents(said)) == wanted
    return len(wanted)


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_a_conversation_has_one_chain(messages: Sequence[Chat]) -> None:
    if any(NO_JSON in (one.get("tool_calls") or ()) for one in messages):
        pytest.skip("a function call of Gemini has an object for arguments")
    assert assert_same_chain(messages) > 1


@pytest.mark.full
@needs_data
def test_recorded_sessions_have_the_same_chain() -> None:
    assert sum(assert_same_chain(session["messages"]) for session in islice(sessions(), 0, None, 6)) > 2_000
