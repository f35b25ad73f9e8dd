"""`format=`: named, or told by the first list of a conversation; and what another format's parts are answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, MessageFormat, Usage, project
from compaction_hooks.errors import FormatError
from compaction_hooks.formats import (
    AnthropicFormat,
    BedrockConverseFormat,
    GeminiFormat,
    OpenAIChatFormat,
    OpenAIResponsesFormat,
)
from compaction_hooks.messages import Provider
from compaction_hooks.stores import MemoryStore
from compaction_hooks.validity import problems
from tests.cases import folded
from tests.conversations import PLAIN, Scripted, prose, steps, talk, user

Dicts = list[Mapping[str, Any]]


def chat(count: int) -> Dicts:
    """Return an agent's run in the form of OpenAI chat: a request in plain text, then tool calls and results."""
    return [user("Fix the parser."), *steps(count)]


def anthropic(count: int) -> Dicts:
    """Return the same run in Anthropic's form."""
    run: Dicts = [user("Fix the parser.")]
    for n in range(count):
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "read_file", "input": {"path": f"src/{n}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": prose(300)}
        run += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return run


def responses(count: int) -> Dicts:
    run: Dicts = [user("Fix the parser.")]
    for n in range(count):
        run += [
            {
                "type": "function_call",
                "call_id": f"fc_{n}",
                "name": "read_file",
                "arguments": f'{{"path": "src/{n}.py"}}',
            },
            {"type": "function_call_output", "call_id": f"fc_{n}", "output": prose(300)},
        ]
    return run


def gemini(count: int) -> Dicts:
    run: Dicts = [{"role": "user", "parts": [{"text": "Mend the parser."}]}]
    for n in range(count):
        call = {"functionCall": {"name": "read_file", "args": {"path": f"src/{n}.py"}}, "thoughtSignature": "c2ln"}
        response = {"functionResponse": {"name": "read_file", "response": {"output": prose(300)}}}
        run += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]
    return run


def converse(count: int) -> Dicts:
    run: Dicts = [{"role": "user", "content": [{"text": "Mend the parser."}]}]
    for n in range(count):
        call = {"toolUse": {"toolUseId": f"t{n}", "name": "read_file", "input": {"path": f"src/{n}.py"}}}
        result = {"toolResult": {"toolUseId": f"t{n}", "content": [{"text": prose(300)}]}}
        run += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return run


RUNS: dict[str, tuple[Callable[[int], Dicts], MessageFormat[Mapping[str, object]]]] = {
    "chat": (chat, OpenAIChatFormat()),
    "anthropic": (anthropic, AnthropicFormat()),
    "responses": (responses, OpenAIResponsesFormat()),
    "gemini": (gemini, GeminiFormat()),
    "converse": (converse, BedrockConverseFormat()),
}
each = pytest.mark.parametrize("name", RUNS)


@dataclass
class Tagged(OpenAIChatFormat):
    """A format of a host's own, which cannot be hashed."""

    tag: str = ""


def controller(**keywords: Any) -> CompactionController[Any]:
    return CompactionController(context_window=8_192, **{"settings": PLAIN, **keywords})


def find_breaches(view: list[Any], format: MessageFormat[Any]) -> list[str]:
    """Return the rules that a view breaks."""
    pieces = [piece for message in view for piece in format.read(message)]
    return [problem.rule for problem in problems(pieces, _PROVIDERS.get(format.name, "openai_chat"))]


_PROVIDERS: dict[str, Provider] = {"anthropic": "anthropic", "gemini": "gemini", "bedrock_converse": "bedrock"}


@each
def test_without_a_format_a_run_is_compacted_as_with_its_own(name: str) -> None:
    """Calls stay with their results in every view, in a controller that was told nothing of the messages.

    The first list has plain words alone, which tell no format.
    """
    made, format = RUNS[name]
    own, told, messages = controller(), controller(format=format), made(60)
    for end in range(1, len(messages), 2):
        view = own.transform_context_sync(messages[:end])
        assert view == told.transform_context_sync(messages[:end])
        assert find_breaches(view, format) == []
    assert own.state().compaction_count > 1


@pytest.mark.parametrize("name", ["chat", "anthropic", "responses", "converse"])
def test_plain_text_leaves_open_how_the_rest_is_written(name: str) -> None:
    """A chat is compacted before its first tool call: the record stays valid for the messages after it."""
    made, format = RUNS[name]
    talk = [message for n in range(20) for message in (user(prose(400)), {"role": "assistant", "content": f"No {n}."})]
    hooks = controller()
    hooks.transform_context_sync(talk)
    assert hooks.state().compaction_count == 1
    grown = [*talk, *made(3)]
    view = hooks.transform_context_sync(grown)
    assert hooks.state().compaction_count == 1
    assert view == project(grown, hooks.history()[-1], format=format)
    assert find_breaches(view, format) == []
    assert len(view) < len(talk)


@folded("first, then", [(a, b) for a in RUNS for b in RUNS if a != b])
def test_a_part_of_another_format_is_refused_with_the_line_to_write_before_anything_is_sent(
    first: str, then: str
) -> None:
    own, other = RUNS[first][0](2), RUNS[then][0](2)[first == "gemini" :]  # which takes no plain text
    line = f"write format={type(RUNS[then][1]).__name__}()"
    sent: list[Any] = []
    hooks = controller()
    hooks.transform_context_sync(own)
    mixed = [*own, *other[1:]]
    for hand_over in (
        lambda: hooks.call_sync(mixed, sent.append),  # in a later list
        lambda: hooks.call_sync(other, sent.append),  # in another list
        lambda: controller().call_sync(mixed, sent.append),  # in the first one
        lambda: project(mixed, None),
        lambda: controller(format=RUNS[first][1]).call_sync(mixed, sent.append),  # in spite of a named format
    ):
        with pytest.raises(FormatError) as raised:
            hand_over()
        assert line in str(raised.value)
    assert sent == []
    assert hooks.call_sync(own, lambda view: "an answer") == "an answer"


@each
def test_a_view_is_projected_from_messages_as_they_are_written(name: str) -> None:
    made, format = RUNS[name]
    session = controller().session("a")
    view = session.transform_context_sync(made(60))
    record = session.history()[-1]
    assert project(made(60), record) == view
    assert project(made(60), record, format=format) == view


@each
def test_a_conversation_is_the_same_one_whether_its_format_is_named_or_told(name: str) -> None:
    made, format = RUNS[name]
    hooks = controller()
    session = hooks.session("a")
    session.transform_context_sync(made(60))
    assert hooks.session("a", format=format) is session
    assert hooks.session("a") is session


def test_a_format_that_is_named_later_holds_for_open_sessions() -> None:
    hooks = controller()
    session = hooks.session("a")
    session.transform_context_sync([user("hi")])
    assert hooks.session("a", format=OpenAIChatFormat()) is session
    with pytest.raises(FormatError, match="AnthropicFormat"):
        session.transform_context_sync(anthropic(2))


@each
async def test_the_calibration_is_there_again_in_the_next_process(name: str) -> None:
    """Its part that holds for one format only, too: the messages tell which before the records are read."""
    made, _ = RUNS[name]
    store = MemoryStore()
    first = controller(store=store)
    first.transform_context_sync(made(8))
    first.report_usage(Usage(input_tokens=(first.state().context_tokens or 0) + 1_500))
    first.transform_context_sync(made(60))
    sizes: list[int | None] = []
    for load_first in (False, True):
        second = controller(store=store)
        if load_first:
            await second.load()
        second.transform_context_sync(made(60))
        sizes.append(second.state().context_tokens)
    first.transform_context_sync(made(60))
    assert sizes == [first.state().context_tokens] * 2


def test_a_pin_tells_the_format_as_a_list_does() -> None:
    hooks = controller()
    messages = anthropic(60)
    hooks.pin(messages[2])
    view = hooks.transform_context_sync(messages)
    assert messages[2] in view
    assert find_breaches(view, AnthropicFormat()) == []


class Gateway(AnthropicFormat):
    """Anthropic's messages under a name of the user's own."""

    name = "gateway"


class SayingGateway(Gateway):
    provider = "anthropic"


class OldGateway(Gateway):
    """Without `provider` the name says whose rules hold."""

    name = "anthropic"


@pytest.mark.parametrize(("format", "is_repaired"), [(Gateway(), False), (SayingGateway(), True), (OldGateway(), True)])
def test_a_format_says_whose_rules_its_views_obey_by_its_provider_or_else_by_its_name(
    format: AnthropicFormat, is_repaired: bool
) -> None:
    """Anthropic refuses a dot in a call's id; a client library that translates for any provider rewrites it."""
    call = {"type": "tool_use", "id": "read.1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "read.1", "content": "found"}
    messages: Dicts = [user("Go."), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    view = controller(format=format, settings=CompactionSettings(repair=True)).transform_context_sync(messages)
    assert (view != messages) == is_repaired


def test_one_conversation_may_be_written_in_several_formats() -> None:
    """Each has a session of its own, and a summary made for one is not asked for again by the other."""
    asked = Scripted()
    hooks = controller(summarizer=asked)
    talked = talk(12, 400)
    hooks.session("same").transform_context_sync(talked)
    session = hooks.session("same", format=AnthropicFormat())
    view = session.transform_context_sync([{**message} for message in talked])
    assert len(view) < len(talked)
    assert len(asked.requests) == 1
    assert hooks.session("same") is session
    hooks.close("same")
    assert hooks.session("same", format=AnthropicFormat()) is not session


def test_a_format_that_cannot_be_hashed_is_used_like_any_other() -> None:
    view = controller(format=Tagged()).transform_context_sync(chat(60))
    assert view == controller(format=OpenAIChatFormat()).transform_context_sync(chat(60))
    assert len(view) < len(chat(60))
