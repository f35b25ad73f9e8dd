from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import pytest

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.history import History, HistoryReader, OwnTexts
from compaction_hooks.messages import Message, PartAddress, Text, ToolCall, ToolResult, as_format
from compaction_hooks.strategies.reduce_parts import choose_shortened, results_to_clear
from compaction_hooks.text.shortening import shorten
from compaction_hooks.view import ToolRule
from compaction_hooks.view.parts import (
    OF_TOOLS,
    RESULTS,
    TEXTS,
    PartKind,
    Reducible,
    Reduction,
    list_parts,
    measure,
)
from compaction_hooks.view.texts import MINIMUM_KEPT_CHARS, clearing_marker, shorten_arguments
from compaction_hooks.view.view_of import view_of
from tests.conversations import Chat, assistant, call, system, tool, user

TWO_TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]


def size(message: Message) -> int:
    """Ten characters a token."""
    texts = [message.text, *[part.text for part in message.results], *[part.arguments for part in message.calls]]
    return sum(map(len, texts)) // 10


def history(messages: Sequence[Chat]) -> History[Chat]:
    return HistoryReader(OpenAIChatFormat(), size, "[S]").read(messages, OwnTexts())


def find(
    read: History[Chat],
    kinds: tuple[PartKind, ...] = OF_TOOLS,
    reductions: Sequence[Reduction] = (),
    size: Callable[[Message], int] = size,
) -> list[Reducible]:
    shown = view_of(read, None, size, large=reductions)
    return [*measure(read, list_parts(read, range(read.run_count), kinds), size, shown.reduced)]


def results(*named: tuple[str, int]) -> list[Chat]:
    """A run of steps, each with one result of so many characters by the named tool."""
    messages: list[Chat] = [user("go")]
    for number, (name, chars) in enumerate(named):
        messages += [assistant(None, call(str(number), name)), tool(str(number), f"{number}" * chars)]
    return messages


def cleared_steps(
    messages: Sequence[Chat], protect_tokens: int, rules: Mapping[str, ToolRule] | None = None
) -> list[int]:
    read = history(messages)
    parts = find(read, RESULTS)
    chosen = results_to_clear(parts, protect_tokens=protect_tokens, rules=rules or {}, last_run=read.run_count - 1)
    return [(part.run - 2) // 2 for part in chosen]


def test_old_results_are_cleared_and_the_newest_protected() -> None:
    listed = results(*[("grep", 1_000)] * 6)
    assert cleared_steps(listed, protect_tokens=200) == [0, 1, 2, 3]
    assert cleared_steps(listed, protect_tokens=201) == [0, 1, 2]


def test_an_applied_reduction_counts_as_its_marker() -> None:
    read = history(results(("grep", 1_000), ("grep", 1_000)))
    part = next(part for part in find(read) if part.kind == "result")
    again = next(p for p in find(read, RESULTS, [part.reduction()]) if p.kind == "result")
    assert (part.tokens, again.tokens) == (100, len(clearing_marker("0" * 1_000)) // 10)


def test_a_cleared_result_is_not_cleared_again() -> None:
    """A marker is a few tokens, which clearing it once more would not gain; what was only shortened may still be cleared."""
    read = history(results(*[("grep", 12_345)] * 3))
    first, second, _ = find(read, RESULTS, size=lambda _: 30)
    in_force = [first.reduction(), second.reduction(600, 400)]
    parts = find(read, RESULTS, in_force, lambda _: 30)
    chosen = results_to_clear(parts, protect_tokens=1, rules={}, last_run=read.run_count - 1)
    assert [part.run for part in chosen] == [second.run]


def part(text: str, tool: str = "grep", ordinal: int = 0) -> Reducible:
    result = ToolResult("1", text, tool)
    return Reducible("result", 2, ordinal, 0, 0, result, text, tokens=len(text) // 4, shown_chars=len(text))


def test_the_largest_parts_are_shortened_to_one_length() -> None:
    parts = [part("a" * 40_000), part("b" * 20_000, ordinal=1), part("c" * 800, ordinal=2)]
    chosen = choose_shortened(parts, excess_tokens=12_000, rules={})
    kept = {reduction.head_chars + reduction.tail_chars for reduction in chosen}
    assert [reduction.ordinal for reduction in chosen] == [0, 1]
    assert kept == {5_924}, "a quarter of a token for each character left out, without the two markers"
    saved = sum(len(p.text) - len(r.apply(p.text)) for p, r in zip(parts, chosen, strict=False)) // 4
    assert 12_000 <= saved <= 12_200


def test_parts_of_a_protected_tool_and_small_ones_stay_whole() -> None:
    parts = [part("a" * 9_000, tool="plan"), part("b" * MINIMUM_KEPT_CHARS, ordinal=1)]
    assert choose_shortened(parts, excess_tokens=10**6, rules={"plan": "never"}) == []


def test_shortening_never_goes_below_its_floor() -> None:
    (reduction,) = choose_shortened([part("a" * 9_000)], excess_tokens=10**6, rules={})
    assert reduction.head_chars + reduction.tail_chars == MINIMUM_KEPT_CHARS


def test_shortening_never_shows_more_than_before() -> None:
    read = history(results(("grep", 9_000), ("grep", 9_000), ("grep", 300)))
    first, second = [p for p in find(read) if p.kind == "result"][:2]
    in_force = [first.reduction(), second.reduction(300, 100)]
    assert choose_shortened(find(read, OF_TOOLS, in_force), excess_tokens=10, rules={}) == []


SPOKEN = [
    system("s"),
    user("a" * 900),
    user("b" * 900),
    assistant("c" * 900, call("1")),
    tool("1", "r"),
    user("d" * 900),
]


def test_a_shortened_text_counts_as_its_visible_part() -> None:
    read = history(SPOKEN)
    first = find(read, TEXTS)[1]
    again = find(read, TEXTS, [first.reduction(60, 40)])[1]
    assert (first.tokens, first.shown_chars) == (90, 900)
    assert again.shown_chars == len(shorten("a" * 900, 60, 40))
    assert again.tokens == again.shown_chars // 10


def test_the_place_of_a_text_is_the_same_in_every_format() -> None:
    """Frameworks differ in empty texts and in how messages are cut; the texts themselves count."""
    one = history([user("go"), assistant("", call("1")), tool("1", "r"), user("a"), user("b")])
    two = history([user("go"), assistant(None, call("1")), tool("1", "r"), {"role": "user", "content": TWO_TEXTS}])
    names = [[(p.run, p.ordinal, p.text) for p in list_parts(h, range(3), TEXTS)] for h in (one, two)]
    assert names[0] == names[1] == [(0, 0, "go"), (2, 0, "a"), (2, 1, "b")]


@pytest.mark.parametrize("text", ["", "short", "x" * 430])
def test_a_text_that_would_not_get_smaller_stays(text: str) -> None:
    assert shorten(text, 300, 100) == text


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(json.dumps({"path": "a.py", "content": "x" * 5_000, "tags": ["y" * 5_000], "n": 3}), id="object"),
        pytest.param(json.dumps(["z" * 5_000]), id="a list"),
        pytest.param("not json " * 1_000, id="no JSON"),
        pytest.param(json.dumps({f"key{n}": "v" * 90 for n in range(200)}), id="many short strings"),
    ],
)
def test_shortened_arguments_are_still_a_json_object(arguments: str) -> None:
    small = shorten_arguments(arguments, 200, 100)
    shown = json.loads(small)
    assert isinstance(shown, dict)
    assert shown.get("n", 3) == 3
    assert len(small) < len(arguments) / 2


class StepFormat:
    """Reads a tool call with its result from one message."""

    name = "steps"

    def read(self, message: Chat, /) -> Sequence[Message]:
        if "said" in message:
            return [Message(role="user", parts=(Text(message["said"]),))]
        call = ToolCall(message["id"], "grep", message["arguments"])
        result = ToolResult(message["id"], message["result"], "grep")
        return [Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))]

    def summary(self, text: str, /) -> Chat:
        return {"said": text}

    def take(self, message: Chat, pieces: Sequence[int], /) -> Chat:
        raise AssertionError("no message is divided")

    def rewrite(self, message: Chat, texts: Mapping[PartAddress, str], /) -> Chat:
        names = {(0, 0): "arguments", (1, 0): "result"}
        return {**message, **{names[address]: text for address, text in texts.items()}}


def test_a_message_of_several_runs_keeps_its_reductions_when_another_part_is_reduced() -> None:
    form = as_format(StepFormat())
    steps = [{"id": str(n), "arguments": f'{{"pattern": "{n * 5_000}"}}', "result": "line " * 999} for n in range(1, 4)]
    read = HistoryReader(form, size, "[S]").read([{"said": "go"}, *steps], OwnTexts())
    parts = [*list_parts(read, range(read.run_count), OF_TOOLS)]

    cleared = [part.reduction() for part in parts if part.kind == "result"]
    before = view_of(read, None, size, large=cleared, format=form)
    first_call = next(part.reduction(5, 5) for part in parts if part.kind == "arguments")
    after, anew = (
        view_of(read, None, size, earlier, large=[*cleared, first_call], format=form) for earlier in (before, None)
    )
    assert after.messages(read) == anew.messages(read)
    assert len(after.reductions) == 4
