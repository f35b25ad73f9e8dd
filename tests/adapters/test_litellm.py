"""`with_compaction` around functions that make no request: ways of calling, the conversation, the facts in a call's arguments."""

import functools
import inspect
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from compaction_adapters.litellm import with_compaction

from compaction_hooks import CompactionController
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.testing import check_format
from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import TOO_LONG, WINDOW, Events, Model, got, is_compacted, litellm, offered, task
from tests.cases import folded
from tests.conversations import Chat, Scripted, assistant, prose, steps, system, tool, user

pytestmark = litellm_stage.QUIET


def compacted(function: Callable[..., Any], **keywords: Any) -> Any:
    return with_compaction(function, context_window=WINDOW, summarizer=Scripted("- facts"), **keywords)


# -- ways of calling


@pytest.mark.parametrize("name", ["completion", "acompletion", "hidden"])
@folded(
    "call",
    {
        "keywords": lambda function, messages: compacted(function)(model="m", messages=messages),
        "positions": lambda function, messages: compacted(function)("m", messages),
        "mixed": lambda function, messages: compacted(function)("m", messages=messages, temperature=0),
        "tuple": lambda function, messages: compacted(function)("m", tuple(messages)),
        "partial with a keyword": lambda function, messages: compacted(functools.partial(function, model="m"))(
            messages=messages
        ),
        "partial": lambda function, messages: compacted(
            functools.partial(functools.partial(function, "m"), temperature=0)
        )(messages=messages),
    },
)
async def test_every_way_to_call_is_compacted(name: str, call: Callable[..., Any]) -> None:
    model, messages = Model(), task(TOO_LONG)
    before = list(messages)
    assert await got(call(getattr(model, name), messages)) == "fine"
    [view] = model.sent
    assert is_compacted(view)
    assert view[0] is messages[0]
    assert view[-1] is messages[-1]
    assert messages == before


def test_name_signature_and_types_stay() -> None:
    def ask(messages: list[Chat], *, loudly: bool = False) -> int:
        return len(messages) if loudly else 0

    for function in (Model().completion, Model().acompletion, litellm.completion, litellm.acompletion, ask):
        made: Any = with_compaction(function, context_window=WINDOW)
        assert made.__name__ == function.__name__
        assert inspect.signature(made) == inspect.signature(function)
        assert inspect.iscoroutinefunction(made) == inspect.iscoroutinefunction(function)
    typed: Callable[[list[Chat]], int] = with_compaction(ask, context_window=WINDOW)  # for the type checkers
    assert typed(task(1)) == 0


async def test_an_object_with_an_async_call_is_awaited() -> None:
    class Client:
        async def __call__(self, *, messages: list[Chat]) -> bool:
            return is_compacted(messages)

    assert await compacted(Client())(messages=task(TOO_LONG))


def test_arguments_that_the_function_does_not_take_are_its_own_error() -> None:
    for arguments, text in ((("m",), "messages"), (("m", task(1), "more"), "too many positional arguments")):
        with pytest.raises(TypeError, match=text):
            compacted(Model().completion)(*arguments)


@folded(
    "use, text",
    {
        "a name": (lambda: compacted("gpt-4o"), "needs a function, not str"),  # type: ignore[arg-type]
        "no messages": (lambda: compacted(lambda prompt: prompt), "takes messages="),
        "an async function in disguise": (
            lambda: compacted(lambda messages: Model().acompletion("m", messages))(task(1)),
            "async def",
        ),
    },
)
def test_wrong_use_is_told(use: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        use()


# -- the conversation of a call


@folded(
    "arguments, expected",
    {
        "session_id": ({"metadata": {"session_id": "s"}}, "s"),
        "conversation_id first": ({"metadata": {"conversation_id": "c", "session_id": "s"}}, "c"),
        "a number": ({"metadata": {"thread_id": 7}}, "7"),
        "a UUID": ({"metadata": {"thread_id": UUID(int=1)}}, str(UUID(int=1))),
        "litellm_metadata": ({"litellm_metadata": {"session_id": "s"}}, "s"),
        "litellm_session_id": ({"litellm_session_id": "l"}, "l"),
        "metadata first": ({"litellm_session_id": "l", "metadata": {"thread_id": "t"}}, "t"),
    },
)
def test_the_call_names_its_conversation(arguments: dict[str, object], expected: str) -> None:
    events = Events()
    compacted(Model().completion, on_event=events)("m", task(TOO_LONG), user="somebody", **arguments)
    assert events.sessions == {expected}


def test_session_id_of_with_compaction_comes_first() -> None:
    events = Events()
    hooks = CompactionController(context_window=WINDOW, summarizer=Scripted("- facts"), on_event=events)
    with_compaction(Model().completion, hooks, session_id="mine")("m", task(TOO_LONG), metadata={"thread_id": "t"})
    by_tag = with_compaction(Model().completion, hooks, session_id=lambda call: str(call.get("tag") or ""))
    by_tag("m", task(TOO_LONG), tag="theirs")
    by_tag("m", task(TOO_LONG), metadata={"thread_id": "t"})
    assert events.sessions == {"mine", "theirs", "t"}


def test_without_an_id_the_beginning_names_the_conversation() -> None:
    """`user` names a person; a system prompt may tell the time."""
    events = Events()
    completion = compacted(Model().completion, on_event=events)

    def name(*beginning: Chat) -> str:
        completion("m", [*beginning, *steps(TOO_LONG)], user="somebody")
        return events[-1].session_id

    def ask_about(part: dict[str, object]) -> Chat:
        return {"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}

    one, other = [
        ask_about({"type": "image_url", "image_url": {"url": f"https://example.org/{name}.png"}}) for name in "ab"
    ]
    unknown = [ask_about({"type": "of_tomorrow", "data": data}) for data in "ab"]
    assert name(system("It is noon."), user("First.")) == name(system("It is one."), user("First."))
    names = [
        name(*beginning)
        for beginning in ([user("First.")], [user("Second.")], [one], [other], *([part] for part in unknown))
    ]
    assert names[0] == name(user("First."), assistant("Sure."))
    assert len({*names, name(assistant("Hello."), one)}) == 7


# -- the facts in a call's arguments


@folded(
    "arguments, is_larger",
    {
        "none": ({}, False),
        "tools": ({"tools": [{**offered("f"), "function": {"name": "f", "description": prose(4_000)}}]}, True),
        "max_tokens": ({"max_tokens": 5_000}, True),
        "max_completion_tokens": ({"max_completion_tokens": 5_000}, True),
    },
)
def test_tools_and_room_for_the_answer_count(arguments: dict[str, Any], is_larger: bool) -> None:
    model = Model()
    compacted(model.completion)("m", task(20), **arguments)
    assert is_compacted(model.sent[0]) is is_larger


@folded(
    "model, arguments",
    {
        "registered": ("made-up-model", {}),
        "registered, with its provider": ("openai/made-up-model", {}),
        "base model": ("azure/mine", {"base_model": "made-up-model"}),
        "told in the call": ("nobody/knows", {"model_info": {"max_input_tokens": WINDOW}}),
        "base model told in the call": ("nobody/knows", {"model_info": {"base_model": "made-up-model"}}),
    },
)
def test_litellm_knows_the_window(
    model: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is printed, as `litellm.get_model_info` does of models it does not know."""
    monkeypatch.setitem(litellm.model_cost, "made-up-model", {"max_input_tokens": WINDOW})
    hooks = CompactionController()
    with_compaction(Model().completion, hooks, session_id="one")(model, task(1), **arguments)
    assert hooks.session("one").state().context_window == WINDOW
    assert capsys.readouterr() == ("", "")


def test_litellms_messages_are_chat_messages() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "write", "arguments": '{"path": "a"}'}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    samples: list[Any] = [
        user("Write."),
        litellm.Message(content="fine", role="assistant"),
        litellm.Message(content=None, role="assistant", tool_calls=[call]),
        litellm.Message(content="so", role="assistant", reasoning_content="hm", thinking_blocks=[thinking]),
        tool("1", "written"),
    ]
    check_format(OpenAIChatFormat(), samples)
