"""Inline code of the README and the pages that is a call: something of that name takes these arguments."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from inspect import Parameter, Signature

import pytest

import compaction_hooks
from tests.cases import folded
from tests.docs.test_docs import PAGES, ROOT, prose

OF_OTHERS = frozenset({
    "Agent", "AgentOptions", "ContextManagerCapability", "SummarizationMiddleware", "SummarizationNode",
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
