"""docs/architecture.md and its long tables in docs/figures/ are true of the code: picture, traces, tables, every name."""

import ast
import asyncio
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType

import pytest

from compaction_hooks import CompactionController
from tests.test_architecture import MODULES, ROW_OF, imported_rooms

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "compaction_hooks"
PAGES = ("architecture.md", "figures/architecture.md")
TEXT = "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES)


def section(heading: str) -> str:
    return TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(heading: str) -> list[list[str]]:
    lines = re.findall(r"^\| (.*) \|$", section(heading), re.MULTILINE)
    return [re.split(r" \| ", line) for line in lines[1:]]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


# -- rooms


def test_every_room_is_in_the_picture_or_below() -> None:
    drawn = {
        name
        for caption in re.findall(r'\["(.*?)"\]', section("The picture"))
        for name in caption.split(":")[0].split(" · ")
    }
    told = [name for first, *_ in rows("The picture") for name in quoted(first)]
    assert sorted([*drawn, *told]) == sorted(set(ROW_OF) - {"__init__", "__main__"})


def test_each_arrow_of_the_picture_is_an_import_and_none_goes_up() -> None:
    arrows = re.findall(r"^    (\w+)(?:\[.*?\])? --> (\w+)", section("The picture"), re.MULTILINE)
    assert len(arrows) > 12
    assert not [
        (one, other) for one, other in arrows if ROW_OF[one] < ROW_OF[other] or other not in imported_rooms(one)
    ]


# -- traces: the functions that a real call and a real compaction run through


class Trace:
    """Collects those functions of the page that run, each with its file and the functions around it."""

    wanted = frozenset(
        called.rpartition(".")[2] for called in re.findall(r"^ *([\w.]+)\(.*\) {2,}", TEXT, re.MULTILINE)
    )

    def __init__(self) -> None:
        self.found: list[tuple[str, str, set[str]]] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name in self.wanted and (file := self._file(frame)):
            around, outer = set[str](), frame.f_back
            while outer is not None:
                if self._file(outer):
                    around.add(outer.f_code.co_name)
                outer = outer.f_back
            self.found.append((frame.f_code.co_name, file, around))

    @staticmethod
    def _file(frame: FrameType) -> str:
        path = Path(frame.f_code.co_filename)
        return path.relative_to(CORE).as_posix() if path.is_relative_to(CORE) else ""


def trace(call: Callable[[], object]) -> list[tuple[str, str, set[str]]]:
    traced = Trace()
    sys.setprofile(traced)
    try:
        call()
    finally:
        sys.setprofile(None)
    return traced.found


@pytest.fixture(scope="module")
def runs() -> dict[str, list[tuple[str, str, set[str]]]]:
    """A call that compacts, by a summarizer, and the quiet call after it."""
    hooks = CompactionController(
        context_window=8_000,
        summarizer=lambda _: "## Goal\n- go on",
        before_compact=lambda _: None,
        carry=lambda _: None,
    )
    session = hooks.session("traced")
    words = "Name each part, and what it is for. " * 100
    turns = [
        [{"role": "user", "content": f"{turn}: {words}"}, {"role": "assistant", "content": "Done."}]
        for turn in range(9)
    ]
    whole = [message for turn in turns for message in turn]

    compacting = trace(lambda: session.transform_context_sync(whole))
    quiet = trace(lambda: asyncio.run(session.transform_context([*whole, {"role": "user", "content": "Thanks."}])))
    return {"One call": quiet, "A view": compacting, "One compaction": compacting}


@pytest.mark.parametrize(("heading", "count"), [("One call", 8), ("A view", 9), ("One compaction", 14)])
def test_functions_run_in_the_order_of_the_page(
    runs: dict[str, list[tuple[str, str, set[str]]]], heading: str, count: int
) -> None:
    steps = re.findall(r"^( *)([\w.]+)\(.*?\) +([\w/.]+)", section(heading), re.MULTILINE)
    assert len(steps) == count

    place = -1
    above: list[str] = []
    for indent, called, file in steps:
        name = called.rpartition(".")[2]
        later = enumerate(runs[heading][place + 1 :], place + 1)
        found = (at for at, (run, where, _) in later if run == name and where.startswith(file))
        place = next(found, -1)
        assert place >= 0, called
        above[len(indent) // 2 :] = [name]
        # In a compaction the driver calls what is planned and written in a thread.
        assert heading == "One compaction" or {*above[:-1]} <= runs[heading][place][2], (called, above)


# -- the code's names


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that code defines, imports or reads from an object; not those of variables, comments and texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=name):
                owner = (
                    value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
                )
                yield from (name, f"{owner}.{name}")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.alias(name=name):
                yield name
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.ClassDef(name=owner):
                yield owner
                fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
                members = [each.id for each in fields if isinstance(each, ast.Name)] + [
                    f.name for f in _functions(node)
                ]
                yield from (form for member in members for form in (member, f"{owner}.{member}"))
            case ast.Module(body=body):
                assigned = [each for each in body if isinstance(each, ast.Assign | ast.AnnAssign)]
                targets = [
                    each for one in assigned for each in (one.targets if isinstance(one, ast.Assign) else [one.target])
                ]
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case _:
                pass


NAMES = {name: {*_names(tree)} for name, tree in MODULES.items()}


def _files_with(names: Collection[str]) -> str:
    """Return the files of the core that have one of these names, by room, as the page writes them."""
    found = defaultdict[str, list[str]](list)
    for module, has in NAMES.items():
        path = module.split(".")[1:]
        if has.isdisjoint(names) or not path or path[0] in ("testing", "replay", "command") or "adapters" in module:
            continue
        is_package = (CORE.joinpath(*path) / "__init__.py").exists()
        found[path[0] if is_package or path[1:] else ""].append("__init__" if is_package else path[-1])
    return "; ".join(
        f"{room}: {', '.join(sorted(files))}".removeprefix(": ") for room, files in sorted(found.items(), key=_last)
    )


def _last(item: tuple[str, object]) -> tuple[bool, str]:
    return not item[0], item[0]


def test_every_file_that_a_feature_touches_is_named() -> None:
    told = {feature: (names, files) for feature, names, files in rows("What each feature touches")}
    assert len(told) > 12
    assert {feature: files for feature, (_, files) in told.items()} == {
        feature: _files_with(quoted(names)) for feature, (names, _) in told.items()
    }


def test_all_state_is_told_and_modules_that_change_it_begin_with_rules() -> None:
    table = rows("Who may change what")
    told = {name for state, *_ in table for name in quoted(state)}
    for function in _functions(MODULES["compaction_hooks.engine.conversation"]):
        if function.name in ("__init__", "_begin"):
            assert {target.attr for target in _changed(function)} <= told | {"id", "begun_at", "estimator", "lock"}

    named = {name for row in table for cell in row for name in quoted(cell)}
    for module in (name for name in MODULES if name.startswith("compaction_hooks.engine.")):
        tree, file = MODULES[module], module.removeprefix("compaction_hooks.").replace(".", "/") + ".py"
        if any(function.name != "__init__" and [*_changed(function)] for function in _functions(tree)):
            assert file in named
            assert re.search(r"^1\. ", ast.get_docstring(tree) or "", re.MULTILINE), file


def _changed(function: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes that a function assigns to."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else targets
        yield from (target for target in targets if isinstance(target, ast.Attribute))


def test_every_name_of_the_page_is_in_the_code() -> None:
    known = {name for names in NAMES.values() for name in names} | {
        part for name in MODULES for part in name.split(".")
    }
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    words = {word for text in quoted(prose) for word in re.findall(r"^[\w./]+(?=(?:\(.*\))?$)", text)}
    assert len(words) > 100
    places = (ROOT, CORE)
    missing = [word for word in words if word not in known and not any((place / word).exists() for place in places)]
    assert not [word for word in missing if "/" in word or word.rpartition(".")[2] not in known]


def test_the_glossary_is_in_order() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^- \*\*(.+?)\*\*: ", glossary, re.MULTILINE)
    assert len(words) > 30
    assert words == sorted({*words})
