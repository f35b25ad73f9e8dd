"""The size of the house: statements, modules and floors of the core, and fields of one conversation.

    python -m tests.benchmarks.house

- A statement is one of Python's, docstrings left out. Counted is what an installed core imports: all but `command`, `replay` and
  `testing`.
- A floor is a row of rooms, each of which imports from the floors below only: the longest way of imports from room to room.
- A field is an attribute of the conversation, or of an object of ours in it that changes; a value (a named tuple, a format) is one.
  An owner is such an object that the conversation itself holds.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from compaction_hooks import CompactionController

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "compaction_hooks"
OUTSIDE = ("command", "replay", "testing")
"""Rooms that no core needs."""


def statements(paths: list[Path]) -> int:
    """Return the statements of these modules, docstrings left out."""
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for path in paths for node in ast.walk(_parse(path)))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def core_modules() -> list[Path]:
    """Return the modules of the core, without those of `OUTSIDE`."""
    return [path for path in sorted(CORE.rglob("*.py")) if path.relative_to(CORE).parts[0] not in OUTSIDE]


def _room(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py") if parts else "__init__"


def rooms() -> dict[str, set[str]]:
    """Return all rooms, each with the rooms it imports from, in functions and for types too; the adapters are one room."""
    found: dict[str, set[str]] = {}
    for path in [*sorted(CORE.rglob("*.py")), *adapter_modules()]:
        room = _room(path.relative_to(CORE).parts) if path.is_relative_to(CORE) else "adapters"
        names = found.setdefault(room, set())
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "compaction_hooks":
                parts = node.module.split(".")[1:]
                plain = [alias.name if _is_room(alias.name) else "__init__" for alias in node.names]
                names.update([parts[0]] if parts else plain)
    return {room: names - {room} for room, names in found.items()}


def adapter_modules() -> list[Path]:
    """Return the modules of the adapters."""
    return sorted((ROOT / "adapters").rglob("*.py"))


def _is_room(name: str) -> bool:
    return (CORE / name).is_dir() or (CORE / f"{name}.py").is_file()


def count_floors() -> int:
    """Return the rooms on the longest way of imports."""
    imports = rooms()

    @cache
    def height(room: str) -> int:
        return 1 + max((height(lower) for lower in imports.get(room, ()) if lower in imports), default=0)

    return max(map(height, imports))


def fields(value: object, path: str = "", seen: set[int] | None = None) -> Iterator[str]:
    """Yield the names of an object's fields, and of those of each changeable object of ours in them, also inside a value.

    An object that is held in two places counts once.
    """
    seen = set() if seen is None else seen
    for name, held in vars(value).items():
        parts: dict[str, object] = {name: held} if _is_owner(held) else _parts(held)
        inner = [part for part in parts.values() if _is_owner(part)]
        new = [part for part in inner if id(part) not in seen]
        seen.update(map(id, new))
        if not new:
            yield f"{path}{name}"
        for part in new:
            yield from fields(part, f"{path}{name}.", seen)


def _parts(value: object) -> dict[str, object]:
    """Return the named parts of a value; none for any other object."""
    return value._asdict() if isinstance(value, tuple) and hasattr(value, "_asdict") else {}


def _is_owner(value: object) -> bool:
    """Whether an object is of ours and holds state: no value, format, estimator or reader, which hold none."""
    is_ours = type(value).__module__.startswith("compaction_hooks.") and bool(getattr(value, "__dict__", None))
    return is_ours and not hasattr(type(value), "_fields") and type(value).__name__ not in STATELESS


STATELESS = {"OpenAIChatFormat", "CharacterEstimator", "LearnedMedia", "HistoryReader"}


def conversation() -> object:
    """Return the state of a conversation that has compacted once."""
    session = CompactionController(context_window=4_096).session("one")
    session.transform_context_sync(messages(200))
    return session.engine.conversation


def messages(count: int) -> list[dict[str, Any]]:
    """Return a conversation of an agent with so many messages: a request, then calls and their results."""
    found: list[dict[str, Any]] = [{"role": "user", "content": "Please fix the bug."}]
    while len(found) < count:
        found += step(len(found))
    return found[:count]


def step(number: int) -> list[dict[str, Any]]:
    """Return a call and its result."""
    function = {"name": "read_file", "arguments": f'{{"path": "src/a{number}.py"}}'}
    made = {"id": f"c{number}", "type": "function", "function": function}
    text = f"def f{number}(x):\n    return x + {number}\n" * 14
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


def main() -> None:
    """Print the table."""
    inside = core_modules()
    outside = [path for path in sorted(CORE.rglob("*.py")) if path not in inside]
    one = conversation()
    owners = [name for name, held in vars(one).items() if _is_owner(held)]
    named = [*fields(one)]
    rows: dict[str, object] = {
        "statements of the core": statements(inside),
        "modules of the core": len(inside),
        "floors": count_floors(),
        "statements of replay, testing and the adapters": statements([*outside, *adapter_modules()]),
        "fields of a conversation": len(named),
        "owners": len(owners),
    }
    for name, figure in rows.items():
        print(f"{name:<48} {figure:>8,}")
    if "--fields" in sys.argv:
        print(*named, sep="\n")


if __name__ == "__main__":
    main()
