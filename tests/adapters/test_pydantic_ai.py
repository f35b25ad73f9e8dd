"""`Compaction` in real agents: the requests that the provider receives, the messages that the run keeps, the arguments."""

from typing import Any

import pytest
from compaction_adapters.pydantic_ai import (
    SUMMARY_KEY,
    Compaction,
    CompactionStatusEvent,
    PydanticAIFormat,
    history_processor,
    summarizer,
)
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import FunctionModel

from compaction_hooks import CompactionController, CompactionFinished, CompactionStarted, ContextPressure, Message
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import CompactionEvent
from compaction_hooks.tokens import CharacterEstimator
from tests.adapters.pydantic_ai_messages import (
    SECRET,
    SUMMARIZE,
    Changing,
    CountingSummarizer,
    listen,
    reader,
    spoken,
    steps,
    stored,
    texts,
)
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.conversations import prose
from tests.provider import Answer

# -- the view


async def test_a_long_run_stays_inside_the_window_and_its_history_whole(stage: Stage) -> None:
    side, events = stage.side(*steps(13)), list[CompactionEvent]()
    compaction = Compaction[None](
        context_window=WINDOW, settings=SUMMARIZE, summary_prompt="In French, please.", on_event=events.append
    )
    prompts = {"system_prompt": "You read files.", "instructions": "Never write."}
    agent = reader(stage.openai(model="own"), compaction, tokens=1_600, **prompts)
    heard = listen(agent, CompactionStatusEvent)
    result = await agent.run("Read everything.", conversation_id="c")
    assert result.output == "All read."
    assert not side.rejections
    assert len(result.all_messages()) == len(result.new_messages()) == 28
    assert SECRET not in texts(result.all_messages())

    last = side.model_requests[-1]
    assert texts(last.messages).count(SECRET) == 1
    assert "Read everything." in texts(last.messages)
    assert "You read files." in last.system
    assert "Never write." in last.system

    (summary,) = [request for request in side.requests if request.is_summary]
    assert "In French, please." in texts(summary.messages)
    assert summary.body["model"] == "own"
    assert not summary.tools
    assert 8_192 < summary.max_tokens < 8_192 + 4_096
    assert result.usage.requests == len(side.requests)
    assert result.usage.input_tokens == sum(request.input_tokens for request in side.requests)

    assert [type(event) for event in events][:3] == [ContextPressure, CompactionStarted, CompactionFinished]
    near, started, finished = heard[:3]
    assert (near.stage, near.reason) == ("near", "threshold")
    assert (started.stage, started.reason, started.session_id) == ("started", "threshold", "c")
    assert finished.stage == "finished"
    assert finished.tokens_before == started.tokens > finished.tokens
    assert started.capability_id == "compaction_hooks"


async def test_a_request_costs_only_its_new_messages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sized, read = list[Message](), list[ModelMessage]()

    class Counting(CharacterEstimator):
        def estimate_message_tokens(self, message: Message) -> int:
            sized.append(message)
            return super().estimate_message_tokens(message)

    class Reading(PydanticAIFormat):
        def read(self, message: ModelMessage, /) -> tuple[Message, ...]:
            read.append(message)
            return super().read(message)

    monkeypatch.setattr("compaction_adapters.pydantic_ai.capability.PydanticAIFormat", Reading)
    stage.side(*steps(20), Answer("Again."))
    agent = reader(stage.openai(), Compaction(context_window=200_000, estimator=Counting()), tokens=20)
    first = (await agent.run("Read all.")).all_messages()
    assert len(sized) < 1.1 * len(first)
    assert len(read) < 4 * len(first)
    sized.clear()
    read.clear()
    await agent.run("Again.", message_history=first)
    assert len(sized) == 2
    assert len(read) < 10


@pytest.mark.parametrize(
    ("turns", "instructions", "tool", "summaries"),
    [
        pytest.param(7, prose(6_000), None, 1, id="instructions"),
        pytest.param(7, None, {"description": prose(6_000)}, 1, id="a tool"),
        pytest.param(4, None, {"description": prose(14_000), "defer_loading": True}, 0, id="not a tool to be found"),
    ],
)
async def test_instructions_and_tools_count_from_the_first_request_on(
    turns: int, instructions: str | None, tool: dict[str, Any] | None, summaries: int, stage: Stage
) -> None:
    side = stage.side(Answer("Done."))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW), instructions=instructions)
    if tool:
        agent.tool_plain(**tool)(print)
    assert (await agent.run("Go on.", message_history=spoken(turns))).output == "Done."
    assert sum(request.is_summary for request in side.requests) == summaries


async def test_the_window_is_that_of_the_model_in_use(stage: Stage) -> None:
    """Another capability may choose a smaller model; input and output share the window, so a reserve stays free."""
    large, small = stage.side(key="large", window=200_000), stage.side(*steps(12), key="small", window=12_000)
    chosen = stage.openai("small", profile={"context_window": 12_000})

    def choose(_: RunContext[None], request: ModelRequestContext) -> None:
        request.model = chosen

    agent = reader(stage.openai("large", profile={"context_window": 200_000}), Changing(choose), Compaction())
    assert (await agent.run("Read all.", message_history=spoken(16))).output == "All read."
    assert not large.requests
    assert not small.rejections
    assert max(request.input_tokens for request in small.model_requests) < 9_000


async def test_messages_for_one_request_are_compacted_with_it_and_not_kept(stage: Stage) -> None:
    side, asked = stage.side(*steps(12)), CountingSummarizer()

    def remind(_: RunContext[None], request: ModelRequestContext) -> None:
        note = ModelRequest(parts=[UserPromptPart(f"Note {len(side.requests)}.")])
        request.messages = [*request.messages, note]

    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARIZE, summarizer=asked, persist=True)
    result = await reader(stage.openai(), Changing(remind), compaction, tokens=1_500).run("Read all.")
    assert result.output == "All read."
    assert not side.rejections
    assert len(asked.asked) < 4
    assert {texts(request.messages).count("Note ") for request in side.model_requests} == {1}
    assert "Note " not in texts(result.all_messages())
    assert len(result.all_messages()) < 26


# -- persisted


async def test_persisted_messages_hold_one_summary_and_go_on_here_and_elsewhere(stage: Stage) -> None:
    side = stage.side(*steps(24), *steps(1), Answer("Alone."))
    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARIZE, persist=True)
    agent = reader(stage.openai(), compaction, tokens=1_600)
    result = await agent.run("Read everything.")
    summaries = [texts(request.messages) for request in side.requests if request.is_summary]
    assert len(summaries) >= 3
    assert "previous-summary" in summaries[-1]
    assert texts(side.model_requests[-1].messages).count(SECRET) == 1

    loaded = stored(result.all_messages())
    assert len(loaded) < 20
    assert [message.metadata for message in loaded if message.metadata] == [{SUMMARY_KEY: True}]
    assert (await agent.run("And again.", message_history=loaded)).output == "All read."
    assert sum(request.is_summary for request in side.requests) == len(summaries)
    assert (await reader(stage.openai()).run("Alone.", message_history=loaded)).output == "Alone."
    assert not side.rejections


async def test_a_history_processor_keeps_a_run_inside_the_window(stage: Stage) -> None:
    side = stage.side(Answer("Done."), *steps(14))
    processor = ProcessHistory(history_processor(settings=SUMMARIZE))
    model = stage.openai(profile={"context_window": WINDOW})
    agent = reader(model, processor, tokens=1_600, instructions=prose(2_000))
    history = spoken(2)
    assert (await agent.run("Go on.", message_history=history)).all_messages()[:4] == history

    result = await agent.run("Read everything.")
    assert result.output == "All read."
    assert not side.rejections
    assert len(result.all_messages()) < 30
    assert SECRET in texts(result.all_messages())
    assert result.usage.requests == len(side.requests) - 1


# -- construction

WITHOUT_TEXT: Any = FunctionModel(lambda *_: ModelResponse(parts=[]), profile={"supports_text_output": False})
NUMBER: Any = WINDOW


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Compaction(CompactionController(), context_window=9), "context_window: give a controller or its"),
        (lambda: Compaction(CompactionController(), summarizer="openai:gpt-5"), "summarizer: give a controller or its"),
        (lambda: history_processor(CompactionController(), model="m"), "model: give a controller or its"),
        (lambda: Compaction(NUMBER), "must be a CompactionController, not int"),
        (lambda: Compaction(context_window=0), "from 1,024 on"),
        (lambda: Compaction(summarizer=WITHOUT_TEXT), "cannot write a summary"),
        (lambda: summarizer(WITHOUT_TEXT), "cannot write a summary"),
        (lambda: Compaction.from_spec(settings={"m": {}, "reserve_tokens": 9}), "reserve_tokens is for all models"),
    ],
)
def test_wrong_use_gets_a_clear_error(make: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


async def test_an_agent_can_be_defined_in_a_spec(stage: Stage) -> None:
    """The capability has its class's name; settings are fields, or such fields for each model."""
    side, by_model = stage.side(*steps(12)), {"scripted": {"clear_tool_results": False}, "*": {}}
    spec = {"Compaction": {"context_window": WINDOW, "persist": True, "settings": by_model}}
    agent: Agent[None, str] = Agent.from_spec(
        {"capabilities": [spec]}, custom_capability_types=[Compaction], model=stage.openai()
    )

    @agent.tool_plain
    def read_file(path: str) -> str:
        return f"{path} {prose(1_600)}"

    result = await agent.run("Read all.")
    assert not side.rejections
    assert SECRET in texts(result.all_messages())
    session = Compaction.from_spec(context_window=WINDOW, settings={"reserve_tokens": 9}).session("thread")
    session.load_sync(spoken(2))
    assert session.state().trigger_tokens == WINDOW - 9


def test_two_on_one_agent_are_one() -> None:
    both = Compaction.combine([Compaction[None](persist=True), Compaction[None](context_window=WINDOW)])
    assert isinstance(both, Compaction)
    session = both.session("thread")
    session.load_sync(spoken(2))
    assert (session.state().context_window, both.persist) == (WINDOW, True)


@pytest.mark.parametrize(
    ("model", "window", "max_tokens", "known", "trigger"),
    [
        pytest.param("gpt-4o", None, None, 128_000, 111_616, id="a window found by the model's name"),
        pytest.param("of-our-own", None, None, None, None, id="no window is invented"),
        pytest.param("own", 100_000, 40_000, 100_000, 60_000, id="the longest answer is reserved"),
        pytest.param("own", 100_000, -1, 100_000, 83_616, id="-1 is no limit"),
    ],
)
async def test_window_and_reserve(
    model: str, window: int | None, max_tokens: int | None, known: int | None, trigger: int | None, stage: Stage
) -> None:
    stage.side(Answer("Done."))
    compaction = Compaction[None](context_window=window)
    settings: Any = {"max_tokens": max_tokens} if max_tokens else None
    await reader(stage.openai(model=model), compaction).run("Go on.", conversation_id="c", model_settings=settings)
    state = compaction.session("c").state()
    assert (state.context_window, state.trigger_tokens) == (known, trigger)
