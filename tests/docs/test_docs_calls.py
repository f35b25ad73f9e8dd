"""What pages say: calls in inline code take these arguments; the outcomes, the table of reasoning and the tutorial are true."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, get_args

import pytest

import compaction_hooks
from compaction_hooks import CompactionOutcome, CompactionReason, SessionState, errors, events
from compaction_hooks.validity import FAMILIES, REFUSALS
from tests.cases import folded
from tests.docs.test_docs import PAGES, ROOT, programs, prose, text

OF_OTHERS = frozenset({
    "Agent", "AgentOptions", "App", "ClearToolUsesEdit", "ContextEditingMiddleware", "ContextManagerCapability", "ModelSettings",
    "SessionSettings", "SummarizationMiddleware", "SummarizationNode", "clear_session", "run",
    "SummarizingCompaction", "SummarizingConversationManager", "add_node", "all_messages", "all_messages_json", "compaction",
    "create_agent", "create_react_agent", "loads", "new_messages", "pick", "print", "str", "to_thread",
})  # fmt: skip
"""Functions and classes of Python, frameworks and your own program."""
ANYTHING = inspect.signature(lambda *positional, **keywords: None)
_KINDS = {"posonlyargs": Parameter.POSITIONAL_ONLY, "args": Parameter.POSITIONAL_OR_KEYWORD}
_REST = {"vararg": Parameter.VAR_POSITIONAL, "kwonlyargs": Parameter.KEYWORD_ONLY, "kwarg": Parameter.VAR_KEYWORD}


def signature_of(function: Callable[..., object], *, is_method: bool = False) -> Signature:
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except ValueError:  # of a class that is made in C, such as an error without `__init__`
        return ANYTHING
    return Signature(parameters[1:] if is_method else parameters)


def read_signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    """Return a function's signature as it is written, without `self`: its framework may not be installed."""
    given = function.args
    lists = [(getattr(given, name), kind) for name, kind in (_KINDS | _REST).items()]
    flat = [(each, kind) for found, kind in lists for each in (found if isinstance(found, list) else [found]) if each]
    return Signature([Parameter(each.arg, kind) for each, kind in flat if each.arg not in ("self", "cls")])


def read_fields(dataclass: ast.ClassDef) -> list[Parameter]:
    fields = [each.target for each in dataclass.body if isinstance(each, ast.AnnAssign)]
    return [Parameter(each.id, Parameter.POSITIONAL_OR_KEYWORD) for each in fields if isinstance(each, ast.Name)]


def ours() -> Iterator[tuple[str, Signature]]:
    """Yield the name and the signature of every function, class and method of the core."""
    for module in pkgutil.walk_packages(compaction_hooks.__path__, "compaction_hooks."):
        try:
            names = vars(importlib.import_module(module.name))
        except ImportError:  # an extra that is not installed
            continue
        for name, value in names.items():
            if getattr(value, "__module__", "") == module.name and callable(value):
                yield name, signature_of(value)
                for method, function in vars(value).items() if isinstance(value, type) else ():
                    plain = getattr(function, "__func__", function)
                    if inspect.isfunction(plain):
                        yield method, signature_of(plain, is_method=not isinstance(function, staticmethod))


def adapters() -> Iterator[tuple[str, Signature]]:
    for path in (ROOT / "adapters").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
                yield node.name, read_signature(made[0]) if made else Signature(read_fields(node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, read_signature(node)


@cache
def signatures() -> dict[str, list[Signature]]:
    found: dict[str, list[Signature]] = defaultdict(list)
    for name, signature in (*ours(), *adapters()):
        found[name].append(signature)
    return found


def calls(page: str) -> Iterator[ast.Call]:
    for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(page)):
        try:
            tree = ast.parse(" ".join(code.split()).removeprefix("await "))
        except SyntaxError:
            continue
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def fault(call: ast.Call) -> str:
    """Return why a call cannot be as written, or an empty text; `...` means any arguments."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in OF_OTHERS or not name:
        return ""
    positional = [given for given in call.args if not (isinstance(given, ast.Constant) and given.value is ...)]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    why = "nothing has this name"
    for signature in signatures().get(name, ()):
        try:
            signature.bind_partial(*positional, **keywords)
        except TypeError as error:
            why = str(error)
        else:
            return ""
    return f"{ast.unparse(call)}: {why}"


@folded("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_inline_calls_can_be_made(page: str) -> None:
    assert [why for why in map(fault, calls(page)) if why] == []


@pytest.mark.parametrize("code", ["Summary(text, is_made=True)", "Summary(text, usage)", "session.undone()"])
def test_a_wrong_call_would_be_found(code: str) -> None:
    (call,) = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    assert fault(call)


TEXT = (ROOT / "docs" / "outcomes.md").read_text(encoding="utf-8")
ENGINE = ROOT / "compaction_hooks" / "engine"


def names(place: str, indent: str = "") -> list[str]:
    """Return the words in backticks that begin the items of the first list behind these words of the page."""
    items = TEXT.split(place, 1)[1].split("\n\n", 2)[1]
    return re.findall(rf"^{indent}- `(.*?)`", items, re.MULTILINE)


def texts(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def skip_calls(path: Path) -> set[str]:
    """Return the reasons that a module gives where it skips a compaction or begins a pause."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    skips = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in ("_skip", "Pause")]
    values = [value for call in skips for value in call.args if isinstance(value, ast.Constant)]
    return {value.value for value in values if isinstance(value.value, str)}


def test_every_reason_and_outcome_is_listed() -> None:
    assert names("its `CompactionReason`:") == [*CompactionReason]
    assert names("Its `CompactionOutcome`") == [*CompactionOutcome]


def test_every_skip_reason_is_listed_and_no_other() -> None:
    listed = set(names("`CompactionSkipped.why` is one of these texts."))
    check = texts(ROOT / "compaction_hooks" / "strategies" / "candidate.py")
    modules = [*ENGINE.glob("*.py")]
    assert listed <= check | {text for module in modules for text in texts(module)}
    given = {reason for module in modules for reason in skip_calls(module)}
    assert len(given) > 5
    assert (
        given | {"too large", "no gain", "invalid: ", "undone", "aborted", "left to the server (", "vetoed: "} == listed
    )


def test_every_event_is_listed() -> None:
    assert names("`on_event=`") == [event.__name__ for event in get_args(events.CompactionEvent)]


def test_every_attribute_of_the_state_is_listed() -> None:
    assert names("returns a `SessionState`:") == [field.name for field in fields(SessionState)]


def test_every_error_is_listed() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    raised = {each.__name__ for each in classes if issubclass(each, errors.CompactionError)}
    assert {*names("The errors are in")} == raised - {"CompactionError"}


def test_every_part_that_cannot_shrink_is_listed() -> None:
    documented = (errors.ContextOverflowError.__doc__ or "").split("part:", 1)[1]
    assert set(names("The errors are in", "  ")) == set(re.findall(r'"([a-z ]+)"', documented))


PAGE = (Path(__file__).parents[2] / "docs" / "reasoning.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]


def test_every_family_of_models_has_its_row() -> None:
    found = [[*row[:-1], *re.findall(r"\((https://.*)\)", row[-1])] for row in ROWS]
    for family in FAMILIES:
        assert [family.name, family.stale, family.needed, family.earlier, family.unit, family.source] in found


def test_every_refusal_has_its_row_and_no_other() -> None:
    rows = [(re.sub("'", "", words).lower(), source) for words, _, source in (row for row in ROWS if len(row) == 3)][1:]
    assert len(rows) == len(REFUSALS)
    for refusal, (words, source) in zip(REFUSALS, rows, strict=True):
        assert re.search(refusal.words, words), words
        assert refusal.source in source


def test_the_tutorial_runs_as_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {}
    exec("\n".join(programs("docs/tutorial.md")), shown)
    outputs = re.findall(r"^```$\n\n```\n(.*?)^```$", text("docs/tutorial.md"), re.DOTALL | re.MULTILINE)
    assert len(outputs) == 4
    assert capsys.readouterr().out == "".join(outputs) + "True\n"
    assert shown["request"] in shown["view"]
