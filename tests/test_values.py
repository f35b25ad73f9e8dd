"""The cheap dataclass is a dataclass: whatever the standard library's does, it does too."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, Generic, TypeVar, get_type_hints

import pytest

from compaction_hooks.values import slotted

T = TypeVar("T")


class _Fields:
    name: str
    parts: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list[str])
    hidden: int = field(default=3, repr=False, compare=False)
    later: int = field(default=0, kw_only=True)
    made: list[int] = field(default_factory=list[int], init=False)


def _pair(**arguments: Any) -> tuple[type[Any], type[Any]]:
    """The standard library's class and ours, with the same fields, arguments and name."""
    made: list[type[Any]] = []
    for decorator in (dataclasses.dataclass, slotted):
        plain = type("Sample", (), {**vars(_Fields)} | {"__qualname__": "Sample"})
        made.append(decorator(slots=True, **arguments)(plain))
    return made[0], made[1]


WAYS = [
    pytest.param({}, id="plain"),
    pytest.param({"frozen": True}, id="frozen"),
    pytest.param({"kw_only": True}, id="keyword-only"),
    pytest.param({"eq": False}, id="by-identity"),
    pytest.param({"frozen": True, "kw_only": True}, id="frozen-keyword-only"),
]


@pytest.mark.parametrize("arguments", WAYS)
def test_shows_fields_signature_and_patterns_as_the_standard_library_does(arguments: dict[str, bool]) -> None:
    theirs, ours = _pair(**arguments)
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert get_type_hints(ours.__init__) == get_type_hints(theirs.__init__)
    assert ours.__match_args__ == theirs.__match_args__
    assert [(known.name, known.type, known.kw_only) for known in dataclasses.fields(ours)] == [
        (known.name, known.type, known.kw_only) for known in dataclasses.fields(theirs)
    ]
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)


USES: dict[str, Callable[[Any], object]] = {
    "repr": repr,
    "asdict": dataclasses.asdict,
    "equal-but-for-what-is-not-compared": lambda made: made == type(made)(name="a", hidden=9),
    "unequal": lambda made: made == type(made)(name="b"),
    "another-type": lambda made: made == ("a", (), [], 0),
    "replace": lambda made: repr(dataclasses.replace(made, parts=(1,))),
    "deepcopy": lambda made: repr(copy.deepcopy(made)),
    "slots": lambda made: hasattr(made, "__dict__"),
    "unhashable": lambda made: type(made).__hash__ is None,
    "factories-anew": lambda made: made.notes is type(made)(name="b").notes,
}


@pytest.mark.parametrize("arguments", WAYS)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_behaves_as_the_standard_library_does(arguments: dict[str, bool], use: Callable[[Any], object]) -> None:
    theirs, ours = _pair(**arguments)
    assert use(ours(name="a")) == use(theirs(name="a"))


MISUSES: dict[str, Callable[[Any], object]] = {
    "missing": lambda made: made(),
    "unknown": lambda made: made(name="a", other=1),
    "too-many": lambda made: made("a", (), [], 1, 2),
    "set": lambda made: setattr(made(name="a"), "name", "b"),
    "delete": lambda made: delattr(made(name="a"), "name"),
    "hash-of-a-list": lambda made: hash(made(name="a")),
}


@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES)
def test_refuses_what_the_standard_library_refuses(misuse: Callable[[Any], object]) -> None:
    theirs, ours = _pair(frozen=True)
    with pytest.raises((TypeError, AttributeError)) as expected:
        misuse(theirs)
    with pytest.raises(expected.type) as found:
        misuse(ours)
    assert str(found.value) == str(expected.value)


@slotted(frozen=True, slots=True)
class Point(Generic[T]):
    """A point, for pickles."""

    x: int
    y: T

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("below zero")


class Named(Point[int]):
    """A class of a user's that is no dataclass."""


make_point: Any = Point


def test_equal_values_have_one_hash() -> None:
    assert {make_point(1, 2), make_point(1, 2), make_point(2, 1)} == {make_point(2, 1), make_point(1, 2)}


def test_frozen_objects_survive_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(make_point(1, "y"))) == make_point(1, "y")


def test_checks_what_it_was_given() -> None:
    with pytest.raises(ValueError, match="below zero"):
        make_point(-1, 0)


def test_a_plain_subclass_may_have_attributes_of_its_own() -> None:
    make: Any = Named
    named = make(1, 2)
    named.label = "here"
    del named.label
    with pytest.raises(dataclasses.FrozenInstanceError):
        named.x = 3


def test_a_frozen_subclass_of_the_standard_library_inherits_the_fields() -> None:
    @dataclasses.dataclass(frozen=True)
    class Labelled(Point[int]):
        label: str = ""

    make: Any = Labelled
    assert make(1, 2, "here").x == 1


def test_shows_an_object_that_holds_itself() -> None:
    @slotted(slots=True)
    class Ring:
        to: object = None

    ring = Ring()
    ring.to = ring
    assert repr(ring).endswith("Ring(to=...)")


def test_a_class_keeps_the_methods_it_defines() -> None:
    @slotted(slots=True, frozen=True)
    class Own:
        x: int = 0

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert (repr(Own()), Own() == 3, hash(Own())) == ("own", True, 7)


def test_a_class_without_fields_has_equal_objects() -> None:
    @slotted(slots=True, frozen=True)
    class Now:
        pass

    assert Now() == Now()
    assert hash(Now()) == hash(Now())
