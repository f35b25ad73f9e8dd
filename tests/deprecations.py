"""The deprecations that the source declares, and whether each keeps the promise of `docs/versions.md`."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from compaction_hooks import __version__

VERSION = __version__.partition(".dev")[0]
"""The version that is being made."""


class Deprecation(NamedTuple):
    """A name that will go.

    Attributes:
        name: With its module; an argument is in brackets behind its function or class.
        instead: Of an argument its new name.
    """

    name: str
    since: str
    gone_in: str
    instead: str


def declared_in(module: str, source: ast.Module) -> Iterator[Deprecation]:
    """Yield the deprecations of a module: calls of `deprecation.warn` and `deprecation.renamed_argument`."""
    yield from _declared(source, module, module)


def _declared(node: ast.AST, owner: str, module: str) -> Iterator[Deprecation]:
    for child in ast.iter_child_nodes(node):
        inner = owner
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{owner}.{child.name}"
            for decorator in child.decorator_list:
                match decorator:
                    case ast.Call(func=ast.Attribute(ast.Name("deprecation"), "renamed_argument"), args=[old, new]):
                        yield _read(f"{inner}({ast.literal_eval(old)})", decorator, new)
        match child:
            case ast.Call(func=ast.Attribute(ast.Name("deprecation"), "warn"), args=[name]):
                yield _read(f"{module}.{ast.literal_eval(name)}", child)
        yield from _declared(child, inner, module)


def _read(name: str, call: ast.Call, instead: ast.expr | None = None) -> Deprecation:
    given = {each.arg: each.value for each in call.keywords}
    texts = [ast.literal_eval(value) for value in (given["since"], given["gone_in"], instead or given["instead"])]
    return Deprecation(name, *texts)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def faults(deprecations: list[Deprecation], version: str) -> list[str]:
    """Return what is wrong with deprecations in a version: those that should be gone, and those that go too soon."""
    found = [f"{one.name} should be gone" for one in deprecations if numbers(one.gone_in) <= numbers(version)]
    for one in deprecations:
        major, minor, *_ = numbers(one.since)
        if numbers(one.gone_in) < (major, minor + 2):
            found.append(f"{one.name} goes too soon: it works in two minor versions that warn")
    return found
