"""What the deterministic summariser holds while it looks for identifiers: nothing that cannot be worth carrying."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest

from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.summary.extractive.identifiers import collect, identifier_items
from compaction_hooks.summary.extractive.outline import Item, Section


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text),))


def step(arguments: str, result: str) -> list[Message]:
    call = ToolCall(id="c", name="look_up", arguments=arguments)
    return [
        Message(role="assistant", parts=(call,)),
        Message(role="tool", parts=(ToolResult(call_id="c", text=result),)),
    ]


def values(messages: Sequence[Message], earlier: Sequence[Item] = ()) -> list[str]:
    return [item.text for item in identifier_items(collect(messages, earlier), frozenset())]


def conversation(seed: int) -> list[Message]:
    """Listings, records and edits that name the same few hundred things again and again, under keys and without."""
    chance = random.Random(seed)
    names = [f"{kind}_{number}" for number in range(60) for kind in ("src/a", "order", "isOpen", "x@y.org", "#4711")]

    def some(count: int) -> list[str]:
        return chance.sample(names, count)

    def record(count: int) -> str:
        keys = ("user_id", "note", "file", "limit")
        return "{" + ", ".join(f'"{chance.choice(keys)}": "{name}"' for name in some(count)) + "}"

    found = [user("Look at " + " ".join(some(3)))]
    for _ in range(12):
        found += step(record(2), " ".join(some(chance.choice((2, 40)))))
        found += step('{"content": "' + " ".join(some(8)) + '"}', record(chance.choice((3, 60))))
    return found


def always(*_: object) -> bool:
    return True


@pytest.mark.parametrize("seed", range(20))
def test_what_is_not_held_would_not_have_been_carried(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every name of every result held in full, the same are carried, in the same order and worth the same."""
    messages = conversation(seed)
    earlier = [
        Item(section=Section.IDENTIFIERS, text="file: order_3, isOpen_5"),
        Item(section=Section.DONE, text="a src/a_7 b"),
    ]
    chosen = identifier_items(collect(messages, earlier), frozenset())
    held = len(collect(messages, earlier))
    monkeypatch.setattr("compaction_hooks.summary.extractive.identifiers._Marks.has", always)
    everything = collect(messages, earlier)
    assert len(everything) > held
    assert identifier_items(everything, frozenset()) == chosen


def test_a_name_counts_from_its_second_result_on() -> None:
    once, twice = "order/12/a.txt", "order/13/b.txt"
    messages = [*step("{}", f"{once} {twice}"), *step("{}", twice)]
    assert values(messages) == [twice]


def test_what_a_result_named_before_it_was_spoken_of_counts_too() -> None:
    early = [*step("{}", "is_open shut_up"), user("Why is_open?")]
    (named,) = collect(early, []).values()
    assert [naming.place for naming in named] == [1, 2]


def test_what_an_earlier_summary_names_is_found_in_a_single_result() -> None:
    earlier = [Item(section=Section.NEXT, text="Call is_open")]
    assert [len(named) for named in collect(step("{}", "is_open"), earlier).values()] == [2]


@pytest.mark.parametrize("gap", [" ", "\n", "\n\n   "])
def test_long_texts_lose_no_word(gap: str) -> None:
    """They are split into words stretch by stretch."""
    names = [f"src/{'m' * (1 + number % 70)}/f{number}.py" for number in range(1_500)]
    assert set(collect([user(gap.join(names))], [])) == set(names)


def test_a_text_without_a_blank_is_read_whole() -> None:
    assert collect([user("," * 9_000 + "src/app.py" + "," * 9_000)], []).keys() == {"src/app.py"}


def test_listings_cost_little_more_memory_than_their_text() -> None:
    """A hundred listings of names that never come again: held as text, 1.8 times theirs; each as an object of its own 22 times."""
    listings = ["\n".join(f"src/part{n}/file_{n}_{k}.py" for k in range(100)) for n in range(100)]
    messages = [message for listing in listings for message in step("{}", listing)]
    collect(messages[:4], [])
    tracemalloc.start()
    try:
        collect(messages, [])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * sum(map(len, listings))
