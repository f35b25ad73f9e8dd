"""`with_compaction`: every way of calling, whose conversation it is, what a call says of its model, litellm's own objects."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("litellm")

from compaction_adapters.litellm import with_compaction
from compaction_adapters.litellm.conversations import opening_key

from compaction_hooks import CompactionController, SummaryRequest
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import check_format
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import TOO_LONG, WINDOW, Events, Model, is_compacted, litellm, task
from tests.conversations import Chat, Scripted, prose, steps, system, tool, user

pytestmark = litellm_stage.QUIET


# -- ways of calling


@pytest.mark.parametrize("name", ["completion", "acompletion", "hidden"])
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda made, messages: made(model="m", messages=messages), id="keywords"),
        pytest.param(lambda made, messages: made("m", messages), id="positions"),
        pytest.param(lambda made, messages: made("m", messages=messages, temperature=0), id="mixed"),
        pytest.param(lambda made, messages: made("m", tuple(messages)), id="tuple"),
    ],
)
async def test_every_way_to_call_is_compacted(name: str, call: Callable[[Callable[..., Any], list[Chat]], Any]) -> None:
    model, messages = Model(), task(TOO_LONG)
    before = list(messages)
    made = with_compaction(getattr(model, name), context_window=WINDOW, summarizer=Scripted("- facts"))
    answered = call(made, messages)
    assert (await answered if isinstance(answered, Awaitable) else answered) == "fine"
    [view] = model.sent
    assert is_compacted(view)
    assert view[0] is messages[0]
    assert view[-1] is messages[-1]
    assert messages == before


def test_a_prompt_of_ones_own_says_how_the_summary_is_written() -> None:
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return "- facts"

    made = with_compaction(
        Model().completion, context_window=WINDOW, summarizer=summarize, summary_prompt="In French, please."
    )
    made("m", task(TOO_LONG))
    assert "In French, please." in asked[0].prompt


@pytest.mark.parametrize("name", ["completion", "acompletion"])
async def test_arguments_given_beforehand_count(name: str) -> None:
    model = Model()
    partial = functools.partial(functools.partial(getattr(model, name), "m"), temperature=0)
    made = with_compaction(partial, context_window=WINDOW, summarizer=Scripted("- facts"))
    answered = made(messages=task(TOO_LONG))
    assert (await answered if isinstance(answered, Awaitable) else answered) == "fine"
    assert is_compacted(model.sent[0])


def test_below_the_threshold_the_list_itself_is_sent() -> None:
    model, messages = Model(), task(2)
    with_compaction(model.completion, context_window=WINDOW)("m", messages)
    assert model.sent[0] is messages


def test_name_and_signature_stay() -> None:
    model = Model()
    for function in (model.completion, model.acompletion, litellm.completion, litellm.acompletion):
        made = with_compaction(function, context_window=WINDOW)
        assert made.__name__ == function.__name__
        assert inspect.signature(made) == inspect.signature(function)
        assert inspect.iscoroutinefunction(made) == inspect.iscoroutinefunction(function)


def test_the_type_of_the_function_stays() -> None:
    """Checked by the type checkers: what goes in and what comes out is that of the function given."""

    def ask(messages: list[Chat], *, loudly: bool = False) -> int:
        return len(messages) if loudly else 0

    made: Callable[[list[Chat]], int] = with_compaction(ask, context_window=WINDOW)
    assert made(task(1)) == 0


async def test_an_object_that_is_called_may_be_async() -> None:
    class Client:
        async def __call__(self, *, messages: list[Chat]) -> bool:
            return is_compacted(messages)

    made = with_compaction(Client(), context_window=WINDOW, summarizer=Scripted("- facts"))
    assert await made(messages=task(TOO_LONG))


def test_a_call_without_messages_is_the_functions_own_business() -> None:
    made: Callable[..., str] = with_compaction(Model().completion, context_window=WINDOW)
    with pytest.raises(TypeError, match="messages"):
        made("m")
    with pytest.raises(TypeError, match="too many positional arguments"):
        made("m", task(1), "more")


@pytest.mark.parametrize(
    ("wrap", "text"),
    [
        pytest.param(lambda: with_compaction("gpt-4o"), "needs a function, not str", id="a name"),  # type: ignore[arg-type]
        pytest.param(lambda: with_compaction(lambda prompt: prompt), "takes messages=", id="no messages"),
        pytest.param(
            lambda: with_compaction(Model().completion, CompactionController(), context_window=9),
            "context_window: give a controller or its keywords, not both",
            id="both",
        ),
        pytest.param(lambda: with_compaction(Model().completion, {"model": "m"}), "not dict", id="no controller"),  # type: ignore[arg-type]
    ],
)
def test_wrong_use_is_told_at_once(wrap: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        wrap()


def test_an_async_function_in_disguise_is_told() -> None:
    def disguised(messages: list[Chat]) -> object:
        return Model().acompletion("m", messages)

    made = with_compaction(disguised, context_window=WINDOW)
    with pytest.raises(ConfigurationError, match="async def"):
        made(task(1))


# -- whose conversation


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"metadata": {"session_id": "s"}}, "s", id="session_id"),
        pytest.param({"metadata": {"conversation_id": "c", "session_id": "s"}}, "c", id="conversation_id"),
        pytest.param({"metadata": {"thread_id": 7}}, "7", id="a number"),
        pytest.param({"metadata": {"thread_id": UUID(int=1)}}, str(UUID(int=1)), id="a UUID"),
        pytest.param({"litellm_metadata": {"session_id": "s"}}, "s", id="litellm_metadata"),
        pytest.param({"litellm_session_id": "l"}, "l", id="litellm_session_id"),
        pytest.param({"litellm_session_id": "l", "metadata": {"thread_id": "t"}}, "t", id="metadata first"),
    ],
)
def test_the_call_names_its_conversation(arguments: dict[str, object], expected: str) -> None:
    events = Events()
    made = with_compaction(Model().completion, context_window=WINDOW, summarizer=Scripted("-"), on_event=events)
    made("m", task(TOO_LONG), user="somebody", **arguments)
    assert events.sessions == {expected}


def test_the_user_of_the_function_names_the_conversation() -> None:
    events = Events()
    hooks = CompactionController(context_window=WINDOW, summarizer=Scripted("- facts"), on_event=events)
    with_compaction(Model().completion, hooks, session_id="mine")("m", task(TOO_LONG), metadata={"thread_id": "t"})
    by_tag = with_compaction(Model().completion, hooks, session_id=lambda call: str(call.get("tag") or ""))
    by_tag("m", task(TOO_LONG), tag="theirs")
    by_tag("m", task(TOO_LONG), metadata={"thread_id": "t"})
    assert events.sessions == {"mine", "theirs", "t"}


def test_without_a_name_what_was_said_first_is_one() -> None:
    """`user` names a person: two conversations of one person stay apart. A system prompt may tell the time."""
    events = Events()
    made = with_compaction(Model().completion, context_window=WINDOW, summarizer=Scripted("-"), on_event=events)
    for topic in ("first", "second"):
        for hour in (1, 2):
            messages = [system(f"It is {hour} o'clock."), user(f"Do the {topic} thing."), *steps(TOO_LONG)]
            made("m", messages, user="somebody")
    assert len(events.sessions) == 2


# -- what the call says


def test_tools_of_the_call_count() -> None:
    model, messages = Model(), task(20)
    made = with_compaction(model.completion, context_window=WINDOW, summarizer=Scripted("- facts"))
    made("m", messages, metadata={"thread_id": "without"})
    heavy = [{"type": "function", "function": {"name": "f", "description": prose(4_000), "parameters": {}}}]
    made("m", messages, tools=heavy, metadata={"thread_id": "with"})
    assert [is_compacted(view) for view in model.sent] == [False, True]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_what_the_call_may_answer_counts(name: str) -> None:
    """The answer takes its part of the window."""
    model, messages = Model(), task(20)
    made = with_compaction(model.completion, context_window=WINDOW, summarizer=Scripted("- facts"))
    made("m", messages, metadata={"thread_id": "without"})
    arguments = {name: 5_000, "metadata": {"thread_id": "with"}}
    made("m", messages, **arguments)
    assert [is_compacted(view) for view in model.sent] == [False, True]


@pytest.fixture
def registered() -> Any:
    """A model litellm was told of while the program runs."""
    name = "made-up-model"
    litellm.register_model({name: {"max_input_tokens": WINDOW, "litellm_provider": "openai", "mode": "chat"}})
    yield name
    litellm.model_cost.pop(name)


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        pytest.param("made-up-model", {}, id="registered"),
        pytest.param("openai/made-up-model", {}, id="registered, with its provider"),
        pytest.param("azure/mine", {"base_model": "made-up-model"}, id="base model"),
        pytest.param("nobody/knows", {"model_info": {"max_input_tokens": WINDOW}}, id="told in the call"),
        pytest.param("nobody/knows", {"model_info": {"base_model": "made-up-model"}}, id="base model told in the call"),
    ],
)
def test_litellm_knows_the_window(
    registered: str, model: str, arguments: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is printed, as `litellm.get_model_info` does of models it does not know."""
    sent = Model()
    hooks = CompactionController(summarizer=Scripted("- facts"))
    with_compaction(sent.completion, hooks, session_id="one")(model, task(TOO_LONG), **arguments)
    assert is_compacted(sent.sent[0])
    assert hooks.session("one").state().context_window == WINDOW
    assert capsys.readouterr() == ("", "")


# -- messages as litellm's objects


def _objects(messages: list[Chat]) -> list[Any]:
    """Assistant messages as a program gets and appends them: `response.choices[0].message`."""
    return [litellm.Message(**message) if message["role"] == "assistant" else message for message in messages]


def test_the_answers_themselves_may_be_appended() -> None:
    """They are kept as the same objects."""
    model, messages = Model(), _objects(task(TOO_LONG))
    with_compaction(model.completion, context_window=WINDOW, summarizer=Scripted("- facts"))("m", messages)
    [view] = model.sent
    kept = {id(message) for message in messages}
    assert [message for message in view if isinstance(message, litellm.Message)]
    assert all(id(message) in kept for message in view if isinstance(message, litellm.Message))


def test_objects_and_dicts_have_the_same_digests() -> None:
    """A record made of dicts is true of the objects, and the other way round."""
    for one, other in ((task(TOO_LONG), _objects(task(TOO_LONG))), (_objects(task(TOO_LONG)), task(TOO_LONG))):
        made = CompactionController(context_window=WINDOW, summarizer=Scripted("- facts")).session("one")
        made.transform_context_sync(one)
        used = CompactionController(context_window=WINDOW, summarizer=Scripted(AssertionError())).session("other")
        used.import_records(made.export_records())
        assert is_compacted([dict(message) for message in used.transform_context_sync(other)])


def test_the_format_reads_litellms_messages() -> None:
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "write", "arguments": '{"path": "a", "content": "xxxx"}'},
    }
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    samples: list[Any] = [
        user("Write."),
        litellm.Message(content="fine", role="assistant"),
        litellm.Message(content=None, role="assistant", tool_calls=[call]),
        litellm.Message(content="so", role="assistant", reasoning_content="hm", thinking_blocks=[thinking]),
        tool("1", "written"),
    ]
    check_format(OpenAIChatFormat(), samples)


# -- what litellm's own trimming gets wrong


def test_conversations_are_told_apart_by_all_they_begin_with() -> None:
    """Pictures and words up to the first user message; not by the system prompt, which may hold the time of day."""

    def picture(url: str) -> list[dict[str, Any]]:
        said = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
        return [{"role": "system", "content": "It is noon."}, {"role": "user", "content": said}]

    one, other = picture("https://example.org/a.png"), picture("https://example.org/b.png")
    assert opening_key(one) == opening_key([{"role": "system", "content": "It is one."}, *one[1:], *other])
    assert opening_key(one) != opening_key(other)
    greeting = [{"role": "assistant", "content": "Hello."}]
    assert opening_key(greeting) == opening_key([*greeting]) != opening_key([*greeting, *one])
