"""A dataclass that costs little to make: the standard library's fields, with methods that all classes share.

`dataclasses.dataclass` compiles up to seven functions for each class, 0.3 to 0.6 ms in all; for the hundred classes of this package
that was 40 % of its import. Here `__init__` alone is compiled, when it is first needed, and it sets the slots of a frozen object
directly, which takes three fifths of the time. What the class is to others stays the same: `fields`, `replace`, `asdict`, `match`,
`==`, `hash`, `repr`, `inspect.signature`, copies, pickles and subclasses. Type checkers read the standard library's.
"""

from __future__ import annotations

import dataclasses
import reprlib
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

T = TypeVar("T")
_Field: TypeAlias = "dataclasses.Field[Any]"


class _Factory:
    """Stands for an argument that was not given, whose value is made anew each time."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Factory()


def slotted(
    *, slots: Literal[True], frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a class what `dataclasses.dataclass` with these arguments makes it."""

    def decorate(cls: type[T]) -> type[T]:
        own = {*vars(cls)}
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        params = made.__dataclass_params__
        params.init, params.repr, params.eq, params.frozen = True, True, eq, frozen
        methods: dict[str, Any] = {"__init__": _Init(made, frozen=frozen), "__repr__": _repr}
        if eq:
            methods |= _comparing(made, frozen=frozen)
        if frozen:
            methods |= _FROZEN
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return cast("type[T]", made)

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = slotted


class _Init:
    """Stands for the `__init__` of a class until somebody asks for it: most are never called in one program."""

    def __init__(self, made: Any, *, frozen: bool) -> None:
        self._made, self._frozen = made, frozen

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        self._made.__init__ = init = _init(self._made, frozen=self._frozen)
        return init.__get__(instance, owner)


def _init(made: Any, *, frozen: bool) -> Any:
    """Compile the `__init__` of a class."""
    fields = dataclasses.fields(made)
    positional = [field for field in fields if field.init and not field.kw_only]
    keyword = [field for field in fields if field.init and field.kw_only]
    body = [line for field in fields if (line := _assignment(field, frozen=frozen))]
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ["self", *map(_parameter, positional), *(["*"] if keyword else []), *map(_parameter, keyword)]
    given = {f"_make_{field.name}": field.default_factory for field in fields} | {"_made": _MADE}
    if frozen:
        given |= {f"_set_{field.name}": getattr(made, field.name).__set__ for field in fields}
    lines = [f"def make({', '.join(given)}):", f" def __init__({', '.join(parameters)}):"]
    lines += [f"  {line}" for line in body or ["pass"]]
    scope: dict[str, Any] = {}
    exec("\n".join([*lines, " return __init__"]), vars(sys.modules[made.__module__]), scope)
    init: Any = scope["make"](**given)
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    init.__defaults__ = tuple(_default(field) for field in positional if _has_default(field))
    init.__kwdefaults__ = {field.name: _default(field) for field in keyword if _has_default(field)}
    return init


def _assignment(field: _Field, *, frozen: bool) -> str:
    value = field.name
    if field.default_factory is not dataclasses.MISSING:
        value = f"_make_{field.name}()" + (f" if {field.name} is _made else {field.name}" if field.init else "")
    elif not field.init:
        return ""
    return f"_set_{field.name}(self, {value})" if frozen else f"self.{field.name} = {value}"


def _has_default(field: _Field) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _parameter(field: _Field) -> str:
    return f"{field.name}=_made" if _has_default(field) else field.name


def _default(field: _Field) -> object:
    return _MADE if field.default is dataclasses.MISSING else field.default


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparing(made: Any, *, frozen: bool) -> dict[str, Any]:
    """Return how objects of a class are compared and, frozen, hashed: by the values of their fields."""
    values = _values([field.name for field in dataclasses.fields(made) if field.compare])

    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed if frozen else None}


def _values(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """Return what reads these attributes as a tuple; a single one twice, which compares alike."""
    return attrgetter(*names, *names[: len(names) == 1]) if names else lambda _: ()


def _refuse_setting(self: Any, name: str, value: object) -> None:
    if _is_sealed(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deleting(self: Any, name: str) -> None:
    if _is_sealed(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_sealed(self: Any, name: str) -> bool:
    """A class that inherits from a frozen one without being one itself may have attributes of its own."""
    return name in self.__dataclass_fields__ or "__dataclass_fields__" in type(self).__dict__


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: Sequence[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN: dict[str, Any] = {
    "__setattr__": _refuse_setting,
    "__delattr__": _refuse_deleting,
    "__getstate__": _state,
    "__setstate__": _restore,
}
