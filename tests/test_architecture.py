"""The rooms and the allowed imports between them.

    foreign  errors  interrupts
    messages  arguments  text
    formats  files  harness  history  native  overflow  reasoning  stores  validity
    tokens  repair
    triggers  view  tiktoken_estimator
    dress  digest  telling
    compact_tool  events  recall  summary
    strategies  runtime
    settings
    engine
    session
    __init__
    adapters  replay  testing
    command  __main__

Each row may import from its own row and the rows above it, never from a row below. The rooms of the last two rows use public names
only, but for the command, which may use all of `replay`, `interrupts` and the stores among the adapters; and no adapter imports
another. The tests below read this map; it is not repeated elsewhere.
"""

from __future__ import annotations

import ast
import graphlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import compaction_hooks
from tests.cases import folded
from tests.surface import public_modules

assert __doc__ is not None
ROWS = [line.split() for line in __doc__.splitlines() if line.startswith("    ")]
ROW_OF = {room: number for number, row in enumerate(ROWS) for room in row}

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"compaction_hooks": ROOT, "compaction_adapters": ROOT / "adapters"}

PUBLIC_MODULES = public_modules(ROOT)
PUBLIC_IN_CORE = {name for name in PUBLIC_MODULES if name.startswith("compaction_hooks")}
SHARED_BY_ADAPTERS = {
    "compaction_adapters.kit",
    "compaction_adapters.langchain_core",
    "compaction_adapters.langchain_core.channels",
}
"""What several adapters need: the kit, and langchain-core's messages for LangChain and LangGraph."""
PLUGINS = {"compaction_hooks.testing.plugin": {"pytest"}}
"""Modules that a host loads only with the package they extend."""
OF_THE_COMMAND = (
    "compaction_hooks.command",
    "compaction_hooks.interrupts",
    "compaction_hooks.replay",
    "compaction_adapters.postgres",
    "compaction_adapters.redis",
)
"""Next to public names: its own modules, all that replays, and the stores that it opens for `records`."""
DOOR = ["Facts", "complete", "facts", "write"]
"""The names of `digest` for other rooms."""


def _modules() -> dict[str, ast.Module]:
    """Return every module of both packages by its full name; a package is under its own name."""
    found: dict[str, ast.Module] = {}
    for package, folder in SOURCES.items():
        for path in sorted((folder / package).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return found


MODULES = _modules()


def _room(module: str) -> str:
    """Return the map's entry for a module: its first name below the package."""
    package, _, rest = module.partition(".")
    if package == "compaction_adapters":
        return "adapters"
    return rest.split(".")[0] or "__init__"


def _named_modules(node: ast.Import | ast.ImportFrom, importer: str) -> Iterator[str]:
    """Return the modules in an import statement."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert not node.level, f"{importer}:{node.lineno}: imports are absolute, so that this test can read them"
    base = node.module or ""
    for alias in node.names:
        full = f"{base}.{alias.name}"
        yield full if full in MODULES else base


def _imports(module: str) -> set[str]:
    """Return all imports of a module, including those in functions and under TYPE_CHECKING."""
    nodes = (node for node in ast.walk(MODULES[module]) if isinstance(node, ast.Import | ast.ImportFrom))
    return {name for node in nodes for name in _named_modules(node, module)}


def imported_rooms(room: str) -> set[str]:
    """Return the rooms that the modules of a room import from."""
    return {_room(name) for module in MODULES if _room(module) == room for name in _imports(module) if _is_ours(name)}


def _imports_at_import_time(module: str) -> set[str]:
    """Return the modules loaded on import: imports outside functions, and not under TYPE_CHECKING."""
    found: set[str] = set()
    waiting: list[ast.AST] = [MODULES[module]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(_named_modules(node, module))
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting.extend(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def exported(module: str | None) -> list[str]:
    """Return the names in `__all__` of a module; fail if it has none."""
    (names,) = (
        node.value
        for node in MODULES[module or ""].body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return list(ast.literal_eval(names))


def _is_ours(name: str) -> bool:
    return name.split(".")[0] in SOURCES


every_module = folded("module", sorted(MODULES))
core_module = folded("module", sorted(name for name in MODULES if _room(name) not in {"adapters", "command", "replay"}))


def test_map_names_every_room_and_no_other() -> None:
    assert {_room(module) for module in MODULES} == set(ROW_OF)


@every_module
def test_no_module_imports_from_a_row_below_its_own(module: str) -> None:
    row = ROW_OF[_room(module)]
    assert not [name for name in _imports(module) if _is_ours(name) and ROW_OF[_room(name)] > row]


def test_imports_hold_no_cycle() -> None:
    """Imports in functions count: move code to break a cycle, do not hide the import."""
    graph = {module: {name for name in _imports(module) if name in MODULES} - {module} for module in MODULES}
    assert set(graphlib.TopologicalSorter(graph).static_order()) == set(MODULES)


@folded("module", sorted(name for name in MODULES if _room(name) in {*ROWS[-2], *ROWS[-1]}))
def test_last_rows_use_public_names_only(module: str) -> None:
    own = [".".join(module.split(".")[:2]), *(OF_THE_COMMAND if _room(module) in ROWS[-1] else ())]
    prefixes = tuple(f"{package}." for package in own)
    foreign = {name for name in _imports(module) if _is_ours(name) and not f"{name}.".startswith(prefixes)}
    assert foreign - SHARED_BY_ADAPTERS <= PUBLIC_IN_CORE
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.ImportFrom) and node.module in PUBLIC_IN_CORE & foreign:
            names = {each.name for each in node.names if f"{node.module}.{each.name}" not in MODULES}
            assert names <= {"__version__", *exported(node.module)}


def test_the_digest_offers_the_names_of_its_door() -> None:
    assert exported("compaction_hooks.digest") == DOOR


@folded("module", sorted(name for name in MODULES if _room(name) != "digest"))
def test_other_rooms_enter_the_digest_by_its_door(module: str) -> None:
    """What is behind it may change with every summary that is read better, and no other room with it."""
    nodes = [node for node in ast.walk(MODULES[module]) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [f"{getattr(node, 'module', '')}.{each.name}".strip(".") for node in nodes for each in node.names]
    inside = {name for name in names if f"{name}.".startswith("compaction_hooks.digest.")}
    assert inside <= {f"compaction_hooks.digest.{name}" for name in DOOR}


@folded("module", sorted(name for name in MODULES if name.startswith("compaction_adapters.kit")))
def test_the_kit_of_adapters_needs_no_framework(module: str) -> None:
    foreign = {
        name for name in _imports(module) if not name.startswith(("compaction_hooks", "compaction_adapters.kit"))
    }
    assert {name.split(".")[0] for name in foreign} <= sys.stdlib_module_names


@folded("module", sorted(name for name in MODULES if _room(name) == "adapters"))
def test_adapters_reach_into_no_session_and_no_controller(module: str) -> None:
    """They use only public names, so that users can write adapters too."""
    inside = re.compile(r"\bengine$|(session|controller)\._[a-z]")
    nodes = (node for node in ast.walk(MODULES[module]) if isinstance(node, ast.Attribute))
    assert not [text for text in map(ast.unparse, nodes) if inside.search(text)]


@core_module
def test_core_imports_the_standard_library_only(module: str) -> None:
    names = {name.split(".")[0] for name in _imports_at_import_time(module) if not _is_ours(name)}
    assert names - PLUGINS.get(module, set()) <= sys.stdlib_module_names


@folded("module", sorted(PUBLIC_MODULES))
def test_a_public_module_lists_its_names(module: str) -> None:
    assert exported(module)


def test_names_of_the_package_are_complete() -> None:
    """Every name of the package without an underscore is public."""
    offered = {
        name
        for name in dir(compaction_hooks)
        if not name.startswith("_") and not inspect.ismodule(getattr(compaction_hooks, name))
    }
    assert offered - {"annotations"} == set(compaction_hooks.__all__)
