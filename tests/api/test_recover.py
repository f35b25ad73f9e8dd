"""`recover`, `recover_sync`, and `call` after an overflow: compact harder, send once more, or name the part that cannot shrink."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from compaction_hooks import CompactionController, CompactionSettings, ContextOverflowError, SummaryRequest, Usage
from tests.conversations import (
    PLAIN,
    Chat,
    Scripted,
    Waiting,
    above_threshold,
    assistant,
    controller,
    prose,
    steps,
    system,
    talk,
    texts,
    tokens_of,
    user,
)
from tests.too_long import Answers, Provider, TooLongError, answer_with

MESSAGES = [user("go"), *steps(30, 300)]


async def test_an_overflow_is_compacted_and_sent_once_more() -> None:
    provider = Provider(20_000, TooLongError(9_000, 8_000))
    hooks = controller(None, summarizer=Scripted())
    messages = [system(), user("go"), *steps(30, 300)]
    assert await hooks.call(messages, provider.later) == "answer"
    assert len(provider.sent) == 2
    assert provider.sent[0] is messages
    assert hooks.session("default").export_records()[0]["reason"] == "overflow"


def test_the_limit_that_the_error_names_is_the_window_from_then_on() -> None:
    provider = Provider(30_000, TooLongError(15_000, 9_000))
    hooks = controller(None, summarizer=Scripted())
    hooks.call_sync(MESSAGES, provider)
    assert hooks.state().context_window == 9_000
    messages = [*MESSAGES, *steps(20, 300, first=30)]
    hooks.call_sync(messages, provider)
    assert len(provider.sent) == 3, "the second call was compacted before it was sent"


def test_a_fifth_of_the_window_is_kept_after_an_overflow() -> None:
    sizes = {}
    for reason in ("threshold", "overflow"):
        hooks = controller(32_768, summarizer=Scripted(), settings=PLAIN)
        messages = [user("go"), *steps(60, 500)]
        if reason == "overflow":
            view = hooks.recover_sync(TooLongError(40_000, 32_768), messages)
        else:
            view = hooks.transform_context_sync(messages)
        sizes[reason] = len(texts(view))
    assert sizes["overflow"] < 0.75 * sizes["threshold"]


def test_a_second_overflow_is_reported_with_its_cause() -> None:
    """No third attempt; the error names the part that cannot shrink and chains the provider's."""
    provider = Provider(10, TooLongError(9_000, 8_000))
    with pytest.raises(ContextOverflowError, match="cannot be made to fit") as caught:
        controller(8_192).call_sync([system(), user("go"), *steps(20, 300)], provider)
    assert len(provider.sent) == 2
    assert caught.value.__cause__ is provider.error


def test_another_error_of_the_second_try_is_the_callers() -> None:
    model = Answers(TooLongError(9_000, 8_000), reset := ConnectionError("reset by peer"))
    with pytest.raises(ConnectionError) as caught:
        controller(None, summarizer=Scripted()).call_sync([user("go"), *talk(20)], model)
    assert caught.value is reset
    assert not model.answers


class Interrupting:
    """A summarizer during which the caller gives up."""

    def __init__(self) -> None:
        self.signal, self._left = threading.Event(), threading.Event()

    def __call__(self, request: SummaryRequest) -> str:
        self.signal.set()
        self._left.wait(10)
        return "- late"

    def release(self) -> None:
        self._left.set()


@pytest.fixture
def interrupting() -> Iterator[Interrupting]:
    summarizer = Interrupting()
    yield summarizer
    summarizer.release()


def test_a_caller_that_gives_up_during_the_summary_gets_the_providers_error(interrupting: Interrupting) -> None:
    hooks, error = controller(None, summarizer=interrupting), TooLongError(9_000, 8_000)
    with pytest.raises(TooLongError) as caught:
        hooks.recover_sync(error, [user("go"), *talk(20)], interrupting.signal)
    assert caught.value is error
    assert hooks.session("default").export_records() == []


async def test_a_summarizer_that_just_failed_another_caller_is_not_asked_for_the_recovery() -> None:
    asked, messages = Waiting(ConnectionError("down")), above_threshold()
    hooks = controller(8_192, summarizer=asked)
    leader = asyncio.create_task(hooks.transform_context(messages))
    await asked.started.wait()
    waiter = asyncio.create_task(hooks.recover(TooLongError(9_000, 8_192), messages))
    await asyncio.sleep(0)
    asked.release.set()
    assert await leader is messages
    assert "[Compacted " in texts(await waiter)
    assert len(asked.requests) == 1


def test_an_error_names_the_part_that_cannot_shrink_without_a_second_request() -> None:
    provider = Provider(100, TooLongError(9_000, 8_000))
    messages = [system(prose(9_000)), user("go")]
    with pytest.raises(ContextOverflowError, match="system prompt") as caught:
        controller(None).call_sync(messages, provider)
    assert len(provider.sent) == 1
    assert caught.value.__cause__ is provider.error


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(RuntimeError("rate limit exceeded: too many tokens per minute"), id="a rate limit"),
        pytest.param(ConnectionError("reset by peer"), id="a network error"),
        pytest.param(ValueError("max_tokens is too large: 99999"), id="only the output cap"),
    ],
)
def test_other_errors_pass_untouched(error: Exception) -> None:
    provider = Provider(10, error)
    hooks = controller(None)
    with pytest.raises(type(error)) as caught:
        hooks.call_sync(MESSAGES, provider)
    assert caught.value is error
    assert len(provider.sent) == 1
    with pytest.raises(type(error)) as raised:
        hooks.recover_sync(error, MESSAGES)
    assert raised.value is error


def test_an_answer_that_speaks_of_an_overflow_is_none() -> None:
    hooks = controller(200_000, summarizer=Scripted())
    messages = talk(20)
    hooks.call_sync(messages, lambda view: "The error 'prompt is too long: 5 tokens > 4 maximum' means that ...")
    assert hooks.transform_context_sync(messages) is messages


def test_an_overflow_without_numbers_or_window_still_shrinks() -> None:
    hooks = controller(None)
    view = hooks.recover_sync(ValueError("Your input exceeds the context window of this model."), MESSAGES)
    assert len(texts(view)) < 0.6 * len(texts(MESSAGES))


def test_a_second_answer_that_says_it_overflowed_compacts_before_the_next_call() -> None:
    hooks = controller(200_000, summarizer=Scripted())
    messages = talk(20)
    response = {"stop_reason": "model_context_window_exceeded", "content": [{"type": "text", "text": "half an"}]}
    assert hooks.call_sync(messages, lambda view: response) is response
    hooks.report_usage(Usage(input_tokens=9_000))  # a count below the window does not take the answer's word back
    messages = [*messages, assistant("half an"), user("go on")]
    assert len(hooks.transform_context_sync(messages)) < len(messages)


# -- answers cut short


def test_a_short_answer_is_kept_when_asking_again_fails() -> None:
    short = answer_with("length", 8_150, 0)
    model = Answers(short, RuntimeError("429 rate limit"))
    hooks = controller(8_192, summarizer=Scripted(), settings=CompactionSettings(auto_compact=False))
    assert hooks.call_sync([user("go"), *steps(12, 300)], model) is short
    assert not model.answers


def test_a_short_answer_is_kept_when_the_caller_gives_up_meanwhile(interrupting: Interrupting) -> None:
    model = Answers(short := answer_with("length", 8_150, 0))
    settings = CompactionSettings(auto_compact=False, clear_tool_results=False)
    hooks = controller(8_192, summarizer=interrupting, settings=settings)
    assert hooks.call_sync([user("go"), *steps(12, 300)], model, interrupting.signal) is short
    assert len(model.sent) == 1


# -- errors of another model


class NamedModelError(TooLongError):
    """An overflow that says which model it was, as litellm's and pydantic-ai's errors do."""

    def __init__(self, model: str) -> None:
        super().__init__(9_000, 8_000)
        self.model = model


def test_an_error_of_the_model_before_a_switch_is_left_alone() -> None:
    hooks = controller(None, summarizer=Scripted())
    messages = [user("go"), *steps(12, 300)]
    hooks.transform_context_sync(messages, model="small-model")
    hooks.transform_context_sync(messages, model="large-model")
    with pytest.raises(NamedModelError):
        hooks.recover_sync(NamedModelError("small-model"), messages, model="large-model")
    assert hooks.state().compaction_count == 0


def test_a_router_s_alias_is_no_other_model() -> None:
    hooks = controller(None, summarizer=Scripted())
    hooks.transform_context_sync(MESSAGES, model="my-alias")
    view = hooks.recover_sync(NamedModelError("azure/deployment-7"), MESSAGES, model="my-alias")
    assert len(view) < len(MESSAGES)


def test_an_overflow_is_held_against_the_list_that_was_sent() -> None:
    """Another call of the same conversation may be handed its list in between, as a sub-agent's or a title writer's is."""
    hooks = controller(None, summarizer=Scripted())
    large, small = [user("go"), *steps(30, 300)], [user("name this chat")]
    provider = Provider(20_000, TooLongError(9_000, 8_000))

    def send(view: list[Chat]) -> str:
        hooks.transform_context_sync(small)
        return provider(view)

    assert hooks.call_sync(large, send) == "answer"
    hooks.transform_context_sync(small)
    assert tokens_of(hooks) < 100


def test_room_asked_for_the_answer_is_no_part_of_the_conversation_and_stays_free() -> None:
    """4,500 of 20,000 tokens were sent, and 18,000 requested; both must fit together from then on."""
    error = RuntimeError(
        "input length and `max_tokens` exceed context limit: 4500 + 18000 > 20000, decrease input length or `max_tokens`"
    )
    messages = [user("go"), *steps(11, 300)]
    hooks = controller(20_000, summarizer=Scripted())
    assert hooks.call_sync(messages, Answers(error, "answer")) == "answer"
    assert hooks.state().trigger_tokens == 2_000
    assert tokens_of(hooks) < 2_000


def test_the_limit_of_another_model_is_not_learned_for_this_one() -> None:
    """A `send` may fall back to a smaller model by itself."""
    hooks = controller(None, summarizer=Scripted())
    hooks.transform_context_sync(MESSAGES, model="small-model", context_window=16_000)
    model = Answers(NamedModelError("small-model"), "answer")
    assert hooks.call_sync(MESSAGES, model, model="large-model", context_window=50_000) == "answer"
    assert hooks.state().context_window == 50_000


def test_a_limit_is_learned_for_the_model_whatever_provider_is_named_in_front() -> None:
    hooks = CompactionController(model="gpt-5", context_window=200_000, summarizer=Scripted())
    error = RuntimeError(
        "This model's maximum context length is 9000 tokens. However, your messages resulted in 12000 tokens."
    )
    hooks.recover_sync(error, MESSAGES, model="openai/gpt-5")
    hooks.transform_context_sync(MESSAGES)
    assert hooks.state().context_window == 9_000
