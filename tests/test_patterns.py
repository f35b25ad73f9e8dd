"""Every pattern of the packages takes linear time, whatever text it reads.

Each is run over texts that repeat one of its own repeats, behind what leads there and before something that fails: the texts
with which a pattern whose time grows faster is found.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import thread_time
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import compaction_hooks
from compaction_hooks.reasoning import REFUSALS

parser: Any = importlib.import_module("re._parser")
code: Any = importlib.import_module("re._constants")

METHODS = frozenset({"search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split"})
AT_START = frozenset({"match", "fullmatch"})
ADAPTERS = Path(__file__).resolve().parents[1] / "adapters"
REPEATS = (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT)
FAILING = "\n\0\n\0"
"""Put behind what is repeated: breaks, and a character that hardly any pattern names."""
UNITS = (
    *("\n", " ", "_a", "aA", "a1", "7", "7,", "'", '"', "\\", '\\"', "\\n", "/", "/a", "a.", "-a", "a@", "a ", "a\n"),
    *("<", "<a>", "[", "{", "(", ")", ":", "=", "#", "- ", "* ", "`", "|", "&", "&amp;", "&#33;", "%"),
    *("\x1b[", "字", "é", "\u2028", "https://a"),
)
CHARS = " a\n7_-./A\"'\\<[](){}:;,#*+@&|=!?\t\x1b字"
"""The characters that stand for a set: the first that are in it."""
SETS = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
SIZES = (1_500, 3_000, 6_000)
SHORT_SIZES, SHORT_LIMIT = (*range(20, 121, 10), 480), 0.05
"""Characters, and the most seconds for so few: the time of some patterns doubles with each few characters."""
MOST_PUMPS = 40
"""The most texts for one pattern, evenly chosen: some are made of hundreds of words."""
QUICK = 0.0008
"""Seconds for the longest text that are no matter: a quadratic pattern takes at least 2 ms, most linear ones a tenth of one."""
GROWTH = 2.8
"""The most by which the time may grow when the text doubles: linear time doubles, quadratic time grows fourfold."""


class Use(NamedTuple):
    """A pattern, its name in the sources, and the methods that are called on it."""

    name: str
    pattern: re.Pattern[str]
    methods: frozenset[str] = frozenset({"search"})


# -- the patterns


def patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[str]]:
    """Yield the patterns in a module's value: also in tables, in fields, and behind a cached method."""
    value = getattr(value, "__wrapped__", value)
    value = value if isinstance(value, re.Pattern) else getattr(value, "__self__", value)
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, dict):
        yield from (found for inner in value.values() for found in patterns_in(inner, depth + 1))
    elif depth < 4 and isinstance(value, list | tuple | set | frozenset):
        yield from (found for inner in value for found in patterns_in(inner, depth + 1))
    elif depth < 4 and (type(value).__module__.startswith("compaction_") or isinstance(value, type)):
        slots = [getattr(value, name, None) for name in getattr(value, "__slots__", ())]
        inner = [*vars(value).values()] if hasattr(value, "__dict__") else []
        yield from (found for each in (*slots, *inner) for found in patterns_in(each, depth + 1))


def name_of(node: ast.expr) -> str:
    named = node.func if isinstance(node, ast.Call) else node
    return named.id if isinstance(named, ast.Name) else ""


def methods_by_name(tree: ast.Module) -> dict[str, set[str]]:
    """Return the methods that a module calls on its patterns, by their names; also those that its functions call on arguments."""
    calls: dict[str, set[str]] = {}
    inside: dict[str, set[str]] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        taken = {argument.arg for argument in function.args.args}
        called = [node for node in ast.walk(function) if isinstance(node, ast.Attribute) and node.attr in METHODS]
        inside[function.name] = {node.attr for node in called if name_of(node.value) in taken}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            calls.setdefault(name_of(node.value), set()).add(node.attr)
        if isinstance(node, ast.Call):
            for argument in node.args:
                calls.setdefault(name_of(argument), set()).update(inside.get(name_of(node.func), ()))
    return calls


def written_patterns(where: str, tree: ast.Module, methods: Iterable[str]) -> Iterator[Use]:
    """Yield the patterns that a source gives to these functions of `re` as plain text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and name_of(node.func.value) == "re":
            method, (given, *_) = node.func.attr, node.args
            if method in methods and isinstance(given, ast.Constant) and isinstance(given.value, str):
                yield Use(f"{where}:{node.lineno}", re.compile(given.value), frozenset({method}))


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(compaction_hooks.__path__, "compaction_hooks."):
        if not found.name.endswith(".__main__"):
            try:
                yield importlib.import_module(found.name)
            except ImportError:  # of what is not installed: Hypothesis, rich
                continue


def all_uses() -> Iterator[Use]:
    for refusal in REFUSALS:
        yield Use(refusal.source, re.compile(refusal.words))
    for path in sorted(ADAPTERS.rglob("*.py")):  # most cannot be imported without their frameworks
        yield from written_patterns(path.name, ast.parse(path.read_text(encoding="utf-8")), {*METHODS, "compile"})
    for module in modules():
        source = inspect.getsource(module)
        if "import re\n" not in source:
            continue
        tree = ast.parse(source)
        yield from written_patterns(module.__name__, tree, METHODS)
        methods = methods_by_name(tree)
        for name, value in vars(module).items():
            if not isinstance(value, ModuleType) and not name.startswith("__"):
                called = frozenset(methods.get(name) or {"search"})
                yield from (Use(f"{module.__name__}.{name}", pattern, called) for pattern in patterns_in(value))


def uses() -> list[Use]:
    """Return each pattern once, with all its methods."""
    found: dict[re.Pattern[str], Use] = {}
    for use in all_uses():
        before = found.setdefault(use.pattern, use)
        found[use.pattern] = before._replace(methods=before.methods | use.methods)
    return list(found.values())


# -- the texts


def characters(items: list[Any]) -> list[str]:
    """Return some characters of a set, given as the parser has it."""
    is_negated = items[0][0] is code.NEGATE
    found = [char for char in CHARS if any(has_character(item, char) for item in items) is not is_negated]
    ranged = (
        value if kind is code.LITERAL else value[0] for kind, value in items if kind in (code.LITERAL, code.RANGE)
    )
    return found or [chr(value) for value in ranged] or ["\u2028"]


def has_character(item: tuple[Any, Any], char: str) -> bool:
    kind, value = item
    if kind is code.LITERAL:
        return ord(char) == int(value)
    if kind is code.RANGE:
        return ord(char) in range(value[0], value[1] + 1)
    if kind is code.CATEGORY:
        *negated, name = str(value).removeprefix("CATEGORY_").split("_")
        return (re.match(SETS[name], char) is None) is bool(negated)
    return False


def sample(nodes: Iterable[tuple[Any, Any]], repeats: int, branch: int = 0) -> str:
    """Return a text that these nodes match, with so many rounds of an optional repeat; without what lookarounds ask for."""
    return "".join(sample_node(kind, value, repeats, branch) for kind, value in nodes)


def sample_node(kind: Any, value: Any, repeats: int, branch: int = 0) -> str:
    if kind is code.LITERAL:
        return chr(int(value))
    if kind in (code.ANY, code.NOT_LITERAL):
        return "a"
    if kind is code.IN:
        return characters(value)[0]
    if kind is code.BRANCH:
        return sample(value[1][branch % len(value[1])], repeats, branch)
    if kind in REPEATS:
        return sample(value[2], repeats, branch) * int(max(value[0], min(value[1], repeats)))
    return "".join(sample(inner, repeats, branch) for inner in inside(kind, value))


def inside(kind: Any, value: Any) -> list[Any]:
    """Return the parts of a group, without those of a lookaround."""
    return [value[3]] if kind is code.SUBPATTERN else [value] if kind is code.ATOMIC_GROUP else []


def units(repeated: Any) -> list[str]:
    """Return some texts of a repeat: characters of a set, or the branches of a group."""
    (kind, value), *rest = repeated
    return (
        characters(value)[:4] if kind is code.IN and not rest else [sample(repeated, 1, branch) for branch in range(4)]
    )


def repeats_in(nodes: Iterable[tuple[Any, Any]], before: str, repeats: int) -> Iterator[tuple[str, str]]:
    """Yield what leads to each repeat without an end, and what it repeats."""
    for kind, value in nodes:
        parts = inside(kind, value)
        if kind in REPEATS:
            parts = [value[2]]
            if value[1] is code.MAXREPEAT:
                yield from ((before, unit) for unit in units(value[2]))
        elif kind is code.BRANCH:
            parts = value[1]
        elif kind in (code.ASSERT, code.ASSERT_NOT):
            parts = [value[1]]
        for part in parts:
            yield from repeats_in(part, before, repeats)
        before += sample_node(kind, value, repeats)


def pumps(pattern: re.Pattern[str]) -> list[tuple[str, str, str]]:
    """Return (head, repeated unit, tail) of the texts for a pattern."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    found = [(before, unit) for rounds in (0, 1) for before, unit in repeats_in(tree, "", rounds) if unit]
    own = [text for before, unit in found for text in ((before, unit, FAILING), ("", before + unit, FAILING))]
    own = list(dict.fromkeys([*own, ("", sample(tree, 1) or "a", FAILING)]))
    own = [own[at * len(own) // MOST_PUMPS] for at in range(MOST_PUMPS)] if len(own) > MOST_PUMPS else own
    return [*own, *(("", unit, FAILING) for unit in UNITS)]


# -- the time


def seconds(use: Use, pump: tuple[str, str, str], size: int) -> float:
    head, unit, tail = pump
    text = head + unit * (size // len(unit)) + tail
    start = thread_time()
    for method in use.methods & AT_START:
        getattr(use.pattern, method)(text)
    if not use.methods <= AT_START:
        for _ in use.pattern.finditer(text):
            pass
    return thread_time() - start


def is_slow(use: Use, pump: tuple[str, str, str]) -> bool:
    """Return whether the time grows faster than the text. Small texts first: a pattern may take time without end."""
    for size in SHORT_SIZES:
        if seconds(use, pump, size) > SHORT_LIMIT < seconds(use, pump, size):
            return True
    longest = seconds(use, pump, SIZES[-1])
    if longest < QUICK or longest < GROWTH**2 * seconds(use, pump, SIZES[0]):
        return False
    for _ in range(2):  # a busy machine may double one of these times
        small, middle, large = (seconds(use, pump, size) for size in SIZES)
        if middle < GROWTH * small or large < GROWTH * middle:
            return False
    return True


@pytest.mark.full
def test_every_pattern_takes_linear_time() -> None:
    found = uses()
    assert len(found) > 150
    slow = {use.name: pump for use in found for pump in pumps(use.pattern) if is_slow(use, pump)}
    assert slow == {}


@pytest.mark.full
@pytest.mark.parametrize("pattern", [r"<a>[a<>]*</a>", r"(?:a|aa)+x"])
def test_a_slow_pattern_is_found(pattern: str) -> None:
    use = Use("own", re.compile(pattern, re.MULTILINE))
    assert any(is_slow(use, pump) for pump in pumps(use.pattern))
