"""Names and arguments that will go: they work as before, warn where they are used, and are gone in time."""

import ast
import inspect
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from compaction_hooks import deprecation
from tests.deprecations import VERSION, declared_in, faults
from tests.test_architecture import MODULES


@deprecation.renamed_argument("limit", "most", since="0.3.0", gone_in="0.5.0")
def take(count: int, *, most: int = 9) -> int:
    return min(count, most)


@deprecation.renamed_argument("limit", "most", since="0.3.0", gone_in="0.5.0")
async def take_later(count: int, *, most: int = 9) -> int:
    return min(count, most)


@deprecation.renamed_argument("limit", "most", since="0.3.0", gone_in="0.5.0")
@dataclass
class Taking:
    most: int = 9

    @property
    def limit(self) -> int:
        deprecation.warn("Taking.limit", since="0.3.0", gone_in="0.5.0", instead="most")
        return self.most


OLD = {"limit": 3}


async def test_an_argument_works_by_its_old_name_with_a_warning_at_the_place_of_the_call() -> None:
    with pytest.warns(DeprecationWarning, match="since 0.3.0") as heard:
        made: list[Any] = [take(5, **OLD), await take_later(5, **OLD), Taking(**OLD), Taking(3).limit]
    assert made == [3, 3, Taking(3), 3]
    said = "{} is deprecated since 0.3.0 and will be gone in 0.5.0: use most"
    names = ["take(limit)", "take_later(limit)", "Taking(limit)", "Taking.limit"]
    assert [str(each.message) for each in heard] == [said.format(name) for name in names]
    assert {each.filename for each in heard} == {__file__}


@pytest.mark.parametrize(
    ("target", "names"), [(take, ["count", "most"]), (take_later, ["count", "most"]), (Taking, ["most"])]
)
def test_a_signature_has_the_new_name_alone(target: Any, names: list[str]) -> None:
    assert [*inspect.signature(target).parameters] == names


async def test_an_argument_by_its_new_name_does_not_warn() -> None:
    assert [take(5, most=3), await take_later(5, most=3), Taking(most=3).most, Taking(3).most] == [3] * 4


def test_an_argument_by_both_names_is_an_error() -> None:
    with pytest.warns(DeprecationWarning, match="limit"), pytest.raises(TypeError, match="most"):
        take(5, most=3, **OLD)


def test_a_name_of_a_module_warns_where_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        if name != "Old":
            raise AttributeError(name)
        deprecation.warn("Old", since="0.3.0", gone_in="0.5.0", instead="Taking")
        return Taking

    module = ModuleType("with_an_old_name")
    monkeypatch.setattr(module, "__getattr__", find, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found: dict[str, Any] = {}
    with pytest.warns(DeprecationWarning, match=r"^Old is deprecated") as heard:
        exec(compile("from with_an_old_name import Old", "program.py", "exec"), found)
    assert found["Old"] is Taking
    assert {each.filename for each in heard} == {"program.py"}


DECLARED = """
class Session:
    @deprecation.renamed_argument("limit", "most", since="0.3.0", gone_in="0.5.0")
    def take(self, most): ...

    def leave(self):
        deprecation.warn("Session.leave", since="0.4.1", gone_in="0.5.0", instead="close()")
"""


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        ("0.4.9", ["m.Session.leave goes too soon"]),
        (
            "0.5.0",
            ["m.Session.take(limit) should be gone", "m.Session.leave should be gone", "m.Session.leave goes too soon"],
        ),
    ],
)
def test_a_deprecation_that_is_overdue_or_too_short_is_found(version: str, wrong: list[str]) -> None:
    found = faults([*declared_in("m", ast.parse(DECLARED))], version)
    assert [fault.partition(":")[0] for fault in found] == wrong


def test_no_deprecation_of_this_version_is_overdue_or_too_short() -> None:
    assert faults([one for module, source in MODULES.items() for one in declared_in(module, source)], VERSION) == []
