"""`Compaction` in real agents: what the provider receives, what the run keeps, what it costs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai.models.openai", exc_type=ImportError)
pytest.importorskip("pydantic_ai.models.anthropic", exc_type=ImportError)

from compaction_adapters.pydantic_ai import SUMMARY_KEY, Compaction, PydanticAIFormat, history_processor, summarizer
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability, ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

from compaction_hooks import CompactionController, CompactionSettings, Message
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.tokens import CharacterEstimator
from tests.adapters import pydantic_ai_stage
from tests.adapters.pydantic_ai_messages import SECRET, CountingSummarizer, reader, spoken, steps, texts
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.conversations import prose
from tests.provider import Answer

provider = pydantic_ai_stage.provider
stage = pydantic_ai_stage.stage

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
SUMMARISE = CompactionSettings(clear_tool_results=False)


class Spy(AbstractCapability[None]):
    """Keeps the messages of each request as they stand where it is put."""

    def __init__(self) -> None:
        self.seen: list[list[ModelMessage]] = []
        self.own: list[list[ModelMessage]] = []

    async def before_model_request(
        self, ctx: RunContext[None], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self.seen.append(list(request_context.messages))
        self.own.append(list(ctx.messages))
        return request_context


# -- the view


async def test_a_long_run_stays_inside_the_window_and_its_history_whole(stage: Stage) -> None:
    """The view is transient; `all_messages()` and `new_messages()` tell everything."""
    side = stage.side(*steps(30))
    agent = reader(
        stage.openai(),
        Compaction(context_window=WINDOW, settings=SUMMARISE),
        system_prompt="You read files.",
        instructions="Never write.",
    )
    result = await agent.run("Read everything.")
    assert result.output == "All read."
    assert not side.rejections
    assert len(result.all_messages()) == len(result.new_messages()) == 62
    assert SECRET not in texts(result.all_messages())
    last = side.model_requests[-1]
    assert texts(last.messages).count(SECRET) == 1
    assert "Read everything." in texts(last.messages)
    assert "You read files." in last.system
    assert "Never write." in last.system


async def test_a_prompt_of_ones_own_says_how_the_summary_is_written(stage: Stage) -> None:
    side = stage.side(*steps(30))
    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARISE, summary_prompt="In French, please.")
    await reader(stage.openai(), compaction).run("Read everything.")
    summaries = [texts(request.messages) for request in side.requests if request.is_summary]
    assert summaries
    assert all("In French, please." in summary for summary in summaries)


async def test_kept_messages_are_the_runs_own_objects(stage: Stage) -> None:
    """Cost and identity: the framework hands over the same objects each time, and gets them back."""
    stage.side(*steps(30))
    before, after = Spy(), Spy()
    await reader(stage.openai(), before, Compaction(context_window=WINDOW, settings=SUMMARISE), after).run("Read all.")
    assert before.seen == before.own
    for shorter, longer in zip(before.seen, before.seen[1:], strict=False):
        assert all(one is other for one, other in zip(shorter, longer, strict=False))
    for whole, view in zip(after.own, after.seen, strict=True):
        suffix = view[2:] if len(view) < len(whole) else view
        assert [id(message) for message in suffix] == [id(message) for message in whole[-len(suffix) :]]


async def test_a_request_costs_what_is_new(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across runs: a message is sized once, and read again only near the end of the list."""
    sized: list[Message] = []
    reads = 0

    class Counting(CharacterEstimator):
        def estimate_message_tokens(self, message: Message) -> int:
            sized.append(message)
            return super().estimate_message_tokens(message)

    class Reading(PydanticAIFormat):
        def read(self, message: ModelMessage, /) -> tuple[Message, ...]:
            nonlocal reads
            reads += 1
            return super().read(message)

    monkeypatch.setattr("compaction_adapters.pydantic_ai.requests.PydanticAIFormat", Reading)
    stage.side(*steps(40), Answer("Again."))
    agent = reader(stage.openai(), Compaction(context_window=200_000, estimator=Counting()), tokens=20)
    first = await agent.run("Read all.")
    assert len(sized) < 1.1 * len(first.all_messages())
    assert reads < 4 * len(first.all_messages())
    sized.clear()
    reads = 0
    await agent.run("Again.", message_history=first.all_messages())
    assert len(sized) == 2
    assert reads < 10


@pytest.mark.parametrize(("instructions", "tool"), [(6_000, 0), (0, 6_000)], ids=["instructions", "tools"])
async def test_what_is_in_no_message_counts(instructions: int, tool: int, stage: Stage) -> None:
    """Each request has it, from the first one on, which no usage has measured yet."""
    side = stage.side(Answer("Done."))
    agent = reader(
        stage.openai(), Compaction(context_window=WINDOW), instructions=prose(instructions) if instructions else None
    )
    if tool:

        @agent.tool_plain(description=prose(tool))
        def unused() -> str:
            raise AssertionError

    assert (await agent.run("Go on.", message_history=spoken(7))).output == "Done."
    assert [request.is_summary for request in side.requests] == [True, False]


async def test_tools_that_the_model_has_not_found_do_not_count(stage: Stage) -> None:
    """The schema of a deferred tool is not sent."""
    side = stage.side(Answer("Done."))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW))

    @agent.tool_plain(description=prose(14_000), defer_loading=True)
    def unused() -> str:
        raise AssertionError

    await agent.run("Go on.", message_history=spoken(4))
    assert [request.is_summary for request in side.requests] == [False]


async def test_the_window_is_that_of_the_model_in_use(stage: Stage) -> None:
    """The profile's window, or genai-prices'; input and output together, so that a reserve stays free."""
    side = stage.side(*steps(20), window=12_000)
    model = stage.openai(profile={"context_window": 12_000})
    agent = reader(model, Compaction())
    assert (await agent.run("Read all.")).output == "All read."
    assert not side.rejections
    assert max(request.input_tokens for request in side.model_requests) < 9_000


async def test_a_model_that_another_capability_chose_is_the_one_that_counts(stage: Stage) -> None:
    """Before a downshift the list is compacted for the smaller window."""
    large, small = stage.side(key="large", window=200_000), stage.side(Answer("Done."), key="small", window=6_000)
    chosen = stage.openai("small", profile={"context_window": 6_000})

    class Downshift(AbstractCapability[None]):
        async def before_model_request(
            self, ctx: RunContext[None], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            request_context.model = chosen
            return request_context

    model = stage.openai("large", profile={"context_window": 200_000})
    agent = reader(model, Downshift(), Compaction())
    assert (await agent.run("Go on.", message_history=spoken(8))).output == "Done."
    assert not large.requests
    assert not small.rejections


async def test_what_others_put_into_a_request_is_compacted_with_it_and_not_kept(stage: Stage) -> None:
    """A message for one request only, put in before: the view holds it, the run's history does not."""
    side = stage.side(*steps(12))
    asked = CountingSummarizer()

    class Reminder(AbstractCapability[None]):
        async def before_model_request(
            self, ctx: RunContext[None], request_context: ModelRequestContext
        ) -> ModelRequestContext:
            note = ModelRequest(parts=[UserPromptPart(f"Note {len(side.requests)}.")])
            request_context.messages = [*request_context.messages, note]
            return request_context

    compaction = Compaction[None](context_window=WINDOW, settings=SUMMARISE, summarizer=asked, persist=True)
    result = await reader(stage.openai(), Reminder(), compaction, tokens=1_500).run("Read all.")
    assert result.output == "All read."
    assert not side.rejections
    assert len(asked.asked) < 4
    notes = [texts(request.messages).count("Note ") for request in side.model_requests]
    assert set(notes) == {1}
    assert "Note " not in texts(result.all_messages())
    assert len(result.all_messages()) < 26


# -- persisted


async def test_persisted_messages_are_small_valid_and_go_on(stage: Stage) -> None:
    """What `all_messages()` gives can be stored, loaded and continued, here or by an agent without us."""
    side = stage.side(*steps(24), *steps(1), Answer("Alone."))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE, persist=True))
    result = await agent.run("Read everything.")
    stored = ModelMessagesTypeAdapter.dump_json(result.all_messages())
    loaded = ModelMessagesTypeAdapter.validate_json(stored)
    assert len(loaded) < 40
    assert [message.metadata for message in loaded if message.metadata] == [{SUMMARY_KEY: True}]
    summary_count = len(side.requests) - len(side.model_requests)
    assert (await agent.run("And again.", message_history=loaded)).output == "All read."
    assert len(side.requests) - len(side.model_requests) == summary_count
    assert (await reader(stage.openai()).run("Alone.", message_history=loaded)).output == "Alone."
    assert not side.rejections


async def test_one_summary_stands_for_all_before_it_however_often(stage: Stage) -> None:
    """A persisted list begins with a summary; the next one takes its place."""
    side = stage.side(*steps(60))
    agent = reader(stage.openai(), Compaction(context_window=WINDOW, settings=SUMMARISE, persist=True))
    result = await agent.run("Read everything.", usage_limits=UsageLimits(request_limit=None))
    assert len(side.requests) - len(side.model_requests) >= 3
    assert texts(result.all_messages()).count(SUMMARY_KEY) == 1
    assert texts(side.model_requests[-1].messages).count(SECRET) == 1
    assert "previous-summary" in texts([request for request in side.requests if request.is_summary][-1].messages)


async def test_a_history_processor_keeps_a_run_inside_the_window(stage: Stage) -> None:
    """`ProcessHistory` persists what a processor returns; overflow recovery is the capability's alone."""
    side = stage.side(*steps(30))
    process = history_processor(context_window=WINDOW, settings=SUMMARISE)
    agent = reader(stage.openai(), ProcessHistory(process), instructions=prose(2_000))
    result = await agent.run("Read everything.")
    assert result.output == "All read."
    assert not side.rejections
    assert len(result.all_messages()) < 62
    assert SECRET in texts(result.all_messages())
    assert result.usage.requests == len(side.requests)


async def test_a_history_processor_leaves_a_short_history_alone(stage: Stage) -> None:
    stage.side(Answer("Done."))
    agent = reader(stage.openai(), ProcessHistory(history_processor(context_window=WINDOW)))
    history = spoken(2)
    result = await agent.run("Go on.", message_history=history)
    assert result.all_messages()[:4] == history


# -- construction

UNSPEAKING: Any = FunctionModel(lambda *_: ModelResponse(parts=[]), profile={"supports_text_output": False})
WINDOW_IN_ITS_PLACE: Any = WINDOW


@pytest.mark.parametrize(
    ("make", "text"),
    [
        pytest.param(
            lambda: Compaction(CompactionController(context_window=9), context_window=9),
            "context_window: give a controller or its keywords",
            id="a controller and its keywords",
        ),
        pytest.param(
            lambda: Compaction(CompactionController(), summarizer="openai:gpt-5"),
            "summarizer: give a controller or its keywords",
            id="a controller and the name of a summariser",
        ),
        pytest.param(
            lambda: Compaction(WINDOW_IN_ITS_PLACE),
            "must be a CompactionController, not int",
            id="a window instead",
        ),
        pytest.param(lambda: Compaction(summarizer=UNSPEAKING), "cannot write a summary", id="a model without words"),
        pytest.param(lambda: summarizer(UNSPEAKING), "cannot write a summary", id="a summariser without words"),
        pytest.param(
            lambda: history_processor(CompactionController(), model="m"),
            "model: give a controller or its keywords",
            id="a processor with both",
        ),
        pytest.param(lambda: Compaction(context_window=0), "above zero", id="no window"),
    ],
)
def test_wrong_use_gets_a_clear_error(make: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


async def test_an_agent_can_be_written_down(stage: Stage) -> None:
    """`Agent.from_spec`: the capability goes by its class name, and takes what JSON can say."""
    side = stage.side(*steps(30))
    assert Compaction.get_serialization_name() == "Compaction"
    spec = {"Compaction": {"context_window": WINDOW, "persist": True, "settings": {"clear_tool_results": False}}}
    agent: Agent[None, str] = Agent.from_spec(
        {"capabilities": [spec]}, custom_capability_types=[Compaction], model=stage.openai()
    )

    @agent.tool_plain
    def read_file(path: str) -> str:
        return f"{path} {prose(800)}"

    result = await agent.run("Read all.")
    assert not side.rejections
    assert SECRET in texts(result.all_messages())


def test_settings_for_each_model_can_be_written_down() -> None:
    spec = {"Compaction": {"settings": {"gpt-*": {"reserve_tokens": 1_000}, "*": {"reserve_tokens": 2_000}}}}
    made: Agent[None, str] = Agent.from_spec(
        {"capabilities": [spec]}, custom_capability_types=[Compaction], model="test"
    )
    (compaction,) = [one for one in made.root_capability.capabilities if isinstance(one, Compaction)]
    assert isinstance(compaction.settings, dict)
    assert compaction.settings["gpt-*"].reserve_tokens == 1_000
    with pytest.raises(ConfigurationError, match="reserve_tokens is for all models, and 'gpt-x' for one"):
        Compaction.from_spec(settings={"gpt-x": {}, "reserve_tokens": 1_000})


def test_two_on_one_agent_are_one() -> None:
    """One id, so the framework merges them: nothing is compacted twice."""
    both = Compaction.combine([Compaction[None](context_window=WINDOW), Compaction[None](persist=True)])
    assert isinstance(both, Compaction)
    assert (both.context_window, both.persist) == (WINDOW, True)


async def test_a_run_whose_answers_have_no_limit_may_say_so_by_minus_one() -> None:
    from pydantic_ai.models.test import TestModel

    agent = Agent(TestModel(), capabilities=[Compaction(context_window=8_192)], model_settings={"max_tokens": -1})
    assert (await agent.run("Hi.")).output


async def test_the_window_is_found_by_the_models_name_and_none_is_invented(stage: Stage) -> None:
    for name, window in {"gpt-4o": 128_000, "of-our-own": None}.items():
        stage.side(Answer("Done."))
        controller: CompactionController[Any] = CompactionController()
        await reader(stage.openai(model=name), Compaction(controller)).run("Go on.", conversation_id="c")
        assert controller.session("c").state().context_window == window


async def test_the_max_tokens_of_a_run_are_reserved(stage: Stage) -> None:
    stage.side(Answer("Done."))
    controller: CompactionController[Any] = CompactionController(context_window=100_000)
    agent = reader(stage.openai(), Compaction(controller))
    await agent.run("Go on.", conversation_id="c", model_settings={"max_tokens": 40_000})
    assert controller.session("c").state().trigger_tokens == 60_000
