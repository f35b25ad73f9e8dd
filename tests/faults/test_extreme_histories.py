"""Histories at the edges: nothing in them, far too much in them, or texts that no encoder likes. The rest is as by default."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from compaction_hooks import ContextOverflowError
from tests.cases import crossed, sampled_rows
from tests.conversations import assistant, call, prose, step, steps, system, talk, tool, user
from tests.faults.harness import OVERFLOW, PATHS, SIDES, WINDOW, Chat, Path, Side, leaving_threads, rig

DEPTH = 10_000


def deep(depth: int = DEPTH) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def deep_object(depth: int = DEPTH) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def picture(kilobytes: int = 1) -> Chat:
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo=" * (85 * kilobytes)}}


def raw_call(id: str, name: str, arguments: object) -> Chat:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


ODD = "half \ud83d an emoji, \udc00 the other, \x00 a zero, \u202e reversed, \ufffe no character, \x1b[2J"

SMALL: dict[str, Callable[[], list[Chat]]] = {
    "an empty list": list,
    "one request": lambda: [user("hello")],
    "an empty request": lambda: [user("")],
    "system messages only": lambda: [system(), system("and be kind")],
    "one answer only": lambda: [assistant("hello")],
    "nothing in anything": lambda: [system(""), user(""), assistant(None), assistant(""), user("")],
}
"""By id: lists in which there is nothing to do."""

LARGE: dict[str, Callable[[], list[Chat]]] = {
    "system messages larger than the window": lambda: [system(prose(9_000)), user("go"), *steps(5, 400)],
    "only system messages, larger than the window": lambda: [system(prose(9_000)), system(prose(200))],
    "one request larger than the window": lambda: [system(), user(prose(12_000))],
    "one old request larger than the window": lambda: [system(), user(prose(12_000)), *talk(3)],
    "one result larger than the window": lambda: [user("go"), *step(1, 12_000)],
    "one answer larger than the window": lambda: [user("go"), assistant(prose(12_000)), user("and?")],
    "one call larger than the window": lambda: [
        user("go"),
        assistant(None, call("w", "write_file", path="a.py", text=prose(12_000))),
        tool("w", "written"),
    ],
    "a request in one word": lambda: [user("a" * 60_000), assistant("yes"), *talk(4)],
    "surrogates, NUL and controls everywhere": lambda: [
        system(ODD),
        *[
            message
            for n in range(60)
            for message in (
                user(f"{ODD} {n} {prose(30)}"),
                assistant(ODD, call(f"{ODD}{n}", ODD, path=ODD)),
                tool(f"{ODD}{n}", f"{ODD}{prose(120)}"),
            )
        ],
        user(ODD),
    ],
    "arguments nested ten thousand deep": lambda: [
        user("go"),
        *[
            message
            for n in range(4)
            for message in (assistant(None, raw_call(f"d{n}", "write_file", deep())), tool(f"d{n}", prose(900)))
        ],
    ],
    "arguments that are no JSON": lambda: [
        user("go"),
        *[
            message
            for n in range(20)
            for message in (assistant(None, raw_call(f"d{n}", "run", '{"a": ' + "[" * 50)), tool(f"d{n}", prose(450)))
        ],
    ],
    "an argument that is an object nested ten thousand deep": lambda: [
        user("go"),
        assistant(None, raw_call("d", "write_file", deep_object())),
        tool("d", prose(9_000)),
    ],
    "results nested ten thousand deep": lambda: [
        user("go"),
        *[m for n in range(6) for m in (assistant(None, call(f"d{n}", "read")), tool(f"d{n}", deep(2_000)))],
    ],
    "hundreds of images in one message": lambda: [
        user("look"),
        assistant("at what?"),
        {"role": "user", "content": [{"type": "text", "text": "at these"}, *[picture()] * 300]},
        assistant("nice"),
        *talk(4),
    ],
    "hundreds of images, one each": lambda: [
        message
        for n in range(300)
        for message in ({"role": "user", "content": [picture()]}, assistant(f"picture {n}"))
    ],
    "images in the current request, larger than the window": lambda: [
        *talk(4),
        {"role": "user", "content": [{"type": "text", "text": "what is this?"}, *[picture()] * 30]},
    ],
    "hundreds of calls in one message": lambda: [
        user("go"),
        assistant(None, *[call(f"p{n}", "read_file", path=f"src/{n}.py") for n in range(300)]),
        *[tool(f"p{n}", prose(60)) for n in range(300)],
        assistant("read"),
        user("and now?"),
    ],
    "the same objects again and again": lambda: [user("go"), *[assistant("yes " * 20), user("more")] * 400],
    "one id for every call": lambda: [
        user("go"),
        *[m for n in range(40) for m in (assistant(None, call("same", "read_file", path=f"{n}.py")), tool("same", prose(300)))],
    ],
    "calls without results": lambda: [
        user("go"),
        *[assistant(f"step {n} {prose(300)}", call(f"lost{n}", "run", n=n)) for n in range(40)],
        user("why?"),
    ],
    "results without calls": lambda: [user("go"), *[tool(f"lost{n}", prose(300)) for n in range(40)], user("why?")],
    "white space only": lambda: [user(" \n" * 40_000), assistant("\t" * 9_000), user(" ")],
    "contents of no type": lambda: [
        user("go"),
        *[{"role": "user", "content": None, "number": n} for n in range(40)],
        *talk(20),
    ],
}  # fmt: skip
"""By id: lists above the threshold of `WINDOW`."""


def check_run(side: Side, path: Path, messages: list[Chat]) -> None:
    """Take a path; a list that cannot fit gives a typed error that names the part and the remedy, or the host's own error."""
    driven = rig(side)
    error: Exception | None = None
    with leaving_threads():
        try:
            driven.go(path, messages)
        except (ContextOverflowError, ValueError) as raised:
            error = raised
    driven.check_idle()
    assert error is None or (error is OVERFLOW and path == "recover") or names_the_part(error, path)


def names_the_part(error: Exception, path: Path) -> bool:
    said = (
        isinstance(error, ContextOverflowError) and error.window == WINDOW and f"shorten the {error.part}" in str(error)
    )
    return said and path in ("manual", "recover")


@crossed(name=SMALL, side=SIDES)
def test_a_list_with_nothing_to_do_comes_back_as_it_is(name: str, side: Side) -> None:
    for path in PATHS[:3]:
        messages = SMALL[name]()
        driven = rig(side)
        driven.go(path, messages)
        assert driven.transform(messages) is messages
    check_run(side, "recover", SMALL[name]())


@pytest.mark.parametrize(("name", "side"), sampled_rows(product(LARGE, SIDES), 9))
def test_an_extreme_list_is_compacted_or_is_said_not_to_fit(name: str, side: Side) -> None:
    """On each path: it fits and is valid, or comes back as it was with an event, or an error names the part that cannot shrink."""
    for path in PATHS:
        check_run(side, path, LARGE[name]())


@crossed(side=SIDES, name=["surrogates, NUL and controls everywhere", "arguments nested ten thousand deep"])
def test_an_extreme_record_survives_json(name: str, side: Side) -> None:
    messages = LARGE[name]()
    driven, other = rig(side), rig(side)
    view = driven.transform(messages)
    stored = json.dumps(driven.session.export_records())
    assert other.session.import_records(json.loads(stored)) == 1
    assert [*map(json.dumps, other.transform(list(messages)))] == [*map(json.dumps, view)]


def large_result(characters: int) -> list[Chat]:
    return [
        user("go"),
        *step(1, 50),
        assistant(None, call("big", "cat", path="dump")),
        tool("big", "x y\n" * (characters // 4)),
    ]


def large_request(characters: int) -> list[Chat]:
    return [system(), user("x y\n" * (characters // 4)), assistant("read"), *talk(2)]


def many(count: int) -> list[Chat]:
    return [system(), *[m for n in range(count // 2) for m in (user(f"question {n}"), assistant(f"answer {n}"))]]


@pytest.mark.parametrize(("make", "side"), sampled_rows(product([large_result, large_request], SIDES), 1))
def test_megabytes_in_one_message(make: Callable[[int], list[Chat]], side: Side) -> None:
    check_run(side, "over the window", make(1_000_000))


@pytest.mark.full
@pytest.mark.parametrize("side", SIDES)
def test_many_thousands_of_messages(side: Side) -> None:
    check_many(side, 6_000)


def check_many(side: Side, count: int) -> None:
    messages = many(count)
    driven = rig(side)
    assert len(driven.transform(messages)) < 3_000
    messages.append(user("and now?"))
    driven.handed_in.clear()
    assert driven.transform(messages)[-1] is messages[-1]
    assert driven.hooks.state().compaction_count == 1


def test_a_message_of_no_known_shape_is_a_typed_error_that_names_the_field() -> None:
    for odd, named in (
        ({"content": "no role"}, "role"),
        ({"role": "user", "content": 7}, "content"),
        (7, "message"),
        (None, "message"),
    ):
        driven = rig("sync")
        with pytest.raises(ValueError, match=named):
            driven.session.transform_context_sync([odd])
        driven.check_idle()
        driven.transform([user("x")])
