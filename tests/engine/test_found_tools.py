"""Tools that a search found stay known to the model: a provider hides the definition of a tool without the search in the list."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from compaction_hooks import CompactionController, CompactionSettings, MessageFormat, PinMissing
from compaction_hooks.events import CompactionEvent
from compaction_hooks.formats import AnthropicFormat, OpenAIResponsesFormat
from compaction_hooks.strategies import AnyStrategy, ClearToolResults, DropOldest, ShortenParts, Summarize
from compaction_hooks.validity import problems
from tests.cases import folded
from tests.conversations import prose

Item: TypeAlias = dict[str, Any]


def use(id_: str, name: str, **arguments: str) -> Item:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def answer(id_: str, content: object) -> Item:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": content}]}


def references(names: Sequence[str]) -> list[Item]:
    return [{"type": "tool_reference", "tool_name": name} for name in names]


def in_a_result(number: int, *names: str) -> list[Item]:
    """A search of the host's own tool, as Claude Code's ToolSearch."""
    asked = {"role": "assistant", "content": [use(f"s{number}", "ToolSearch", query=f"select:{number}")]}
    said = {"type": "text", "text": prose(500)}
    return [asked, answer(f"s{number}", [said, *references(names)])]


def by_anthropic(number: int, *names: str) -> list[Item]:
    search = {
        "type": "server_tool_use",
        "id": f"v{number}",
        "name": "tool_search_tool_regex",
        "input": {"query": f"weather{number}"},
    }
    found = {"type": "tool_search_tool_search_result", "tool_references": references(names)}
    result = {"type": "tool_search_tool_result", "tool_use_id": f"v{number}", "content": found}
    content = [search, result, use(f"w{number}", names[0])]
    return [{"role": "assistant", "content": content}, answer(f"w{number}", "sunny")]


def anthropic_steps(count: int, first: int) -> list[Item]:
    return [
        message
        for number in range(first, first + count)
        for message in (
            {"role": "assistant", "content": [use(f"t{number}", "read", path=f"src/{number}.py")]},
            answer(f"t{number}", prose(300)),
        )
    ]


def call(id_: str, name: str, output: str, **arguments: str) -> list[Item]:
    made = {"type": "function_call", "call_id": id_, "name": name, "arguments": json.dumps(arguments)}
    return [made, {"type": "function_call_output", "call_id": id_, "output": output}]


def search_items(number: int, names: Sequence[str], execution: str, id_: str | None) -> list[Item]:
    asked = {"type": "tool_search_call", "call_id": id_, "execution": execution, "arguments": {"paths": [f"p{number}"]}}
    tools: list[Item] = [
        {"type": "function", "name": name, "description": f"About {name}.", "parameters": {}} for name in names
    ]
    found = {"type": "tool_search_output", "call_id": id_, "execution": execution, "tools": tools}
    return [asked, found, *call(f"f{number}", names[0], "sunny")]


def by_openai(number: int, *names: str) -> list[Item]:
    return search_items(number, names, "server", None)


def by_the_client(number: int, *names: str) -> list[Item]:
    space = {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": name} for name in names]}
    asked, found, *behind = search_items(number, names, "client", f"s{number}")
    return [asked, {**found, "tools": [space]}, *behind]


def responses_steps(count: int, first: int) -> list[Item]:
    return [
        item
        for number in range(first, first + count)
        for item in call(f"c{number}", "read", prose(300), path=f"src/{number}.py")
    ]


KINDS: Mapping[str, tuple[Any, Any, MessageFormat[Any]]] = {
    "in a result": (in_a_result, anthropic_steps, AnthropicFormat()),
    "by Anthropic": (by_anthropic, anthropic_steps, AnthropicFormat()),
    "by OpenAI": (by_openai, responses_steps, OpenAIResponsesFormat()),
    "by the client": (by_the_client, responses_steps, OpenAIResponsesFormat()),
}
every_kind = pytest.mark.parametrize(("search", "steps", "format"), KINDS.values(), ids=KINDS)


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def session(
    format: MessageFormat[Any],
    strategy: AnyStrategy | None = None,
    events: list[CompactionEvent] | None = None,
    window: int = 8_000,
) -> Any:
    log: list[CompactionEvent] = [] if events is None else events
    settings = CompactionSettings(strategies=(strategy or Summarize(),))
    hooks = CompactionController[Any](context_window=window, settings=settings, format=format, on_event=log.append)
    return hooks.session("thread")


def searches(view: Sequence[Item]) -> list[int]:
    """Return the numbers of the searches whose tools a view makes known."""
    return [number for number in range(9) if has_search(json.dumps(view), number)]


def has_search(view: str, number: int) -> bool:
    told = [f'"query": "{word}{number}"' for word in ("select:", "weather")] + [f'"paths": ["p{number}"]']
    return any(each in view for each in told) and ("tool_reference" in view or "tool_search_output" in view)


def check(view: Sequence[Item], format: MessageFormat[Any]) -> None:
    assert not problems(
        [piece for message in view for piece in format.read(message)], getattr(format, "provider", None)
    )


@every_kind
@folded(
    "strategy",
    [
        Summarize(),
        DropOldest(),
        ClearToolResults(protect_tokens=300, minimum_gain_tokens=100),
        ShortenParts(least_chars=20),
    ],
)
def test_a_view_has_the_search_that_found_a_tool(
    strategy: AnyStrategy, search: Any, steps: Any, format: MessageFormat[Any]
) -> None:
    found = search(1, "weather", "mail")
    messages = [user("Port it."), *steps(2, 0), *found, *steps(20, 10)]
    view = session(format, strategy).transform_context_sync(messages)
    assert view != messages
    assert searches(view) == [1]
    assert all(item in view for item in found[:2])
    check(view, format)


@every_kind
def test_of_searches_that_found_the_same_tools_the_last_stays_over_three_compactions(
    search: Any, steps: Any, format: MessageFormat[Any]
) -> None:
    events: list[CompactionEvent] = []
    own, worker = session(format, events=events), session(format, events=events)
    messages = [user("Port it."), *search(1, "weather"), *search(2, "mail"), *steps(16, 10)]
    stored = own.compact_sync(messages, keep_recent_tokens=600).messages
    assert searches(stored) == [1, 2]

    messages += [user("Go on."), *search(3, "weather"), *steps(16, 50)]
    assert searches(own.compact_sync(messages, keep_recent_tokens=600).messages) == [2, 3]

    worker.import_records(own.export_records())
    messages += [*search(4, "weather", "mail"), *steps(16, 80)]
    view = worker.compact_sync(messages, keep_recent_tokens=600).messages
    assert searches(view) == [4]  # what found a tool is no pin of the host's
    check(view, format)

    again = session(format)
    again.import_records(own.export_records())
    view = again.compact_sync([*stored, user("Go on."), *steps(16, 50)], keep_recent_tokens=600).messages
    assert searches(view) == [1, 2]
    check(view, format)
    assert not [event for event in events if isinstance(event, PinMissing)]


def test_searches_take_a_quarter_of_the_room_at_most_the_newest_first() -> None:
    found = [item for number in range(9) for item in in_a_result(number, f"tool{number}")]
    messages = [user("Port it."), *found, *anthropic_steps(16, 10)]
    made = session(AnthropicFormat(), window=8_000).compact_sync(messages, keep_recent_tokens=600)
    assert searches(made.messages) == [7, 8]


def test_a_search_without_room_takes_none_from_older_ones() -> None:
    large = [in_a_result(1, "large")[0], answer("s1", [{"type": "text", "text": prose(9_000)}, *references(["large"])])]
    messages = [user("Port it."), *in_a_result(0, "old"), *large, *in_a_result(2, "new"), *anthropic_steps(16, 10)]
    made = session(AnthropicFormat(), window=8_000).compact_sync(messages, keep_recent_tokens=600)
    assert searches(made.messages) == [0, 2]
