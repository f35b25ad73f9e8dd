"""The pages, examples, forms and docstrings name no model that is about to be retired, by the lists of the installed clients."""

import ast
import importlib
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.test_docs import PAGES, ROOT

SHOWN = [ROOT / page for page in PAGES if page != "CHANGELOG.md"]
SHOWN += [path for folder in ("examples", ".github") for path in sorted((ROOT / folder).rglob("*.*")) if path.is_file()]
SOURCES = [path for folder in ("compaction_hooks", "adapters") for path in sorted((ROOT / folder).rglob("*.py"))]
NAME = re.compile(r"[a-z][\w.-]*\d(?:[\w.-]*\w)?(?![\w*-]|\.\d)")
"""A name with a number. With a star behind it, it is a pattern, and fits the models that follow too."""
PROVIDERS = ("anthropic", "gemini", "openai")
"""Those whose own end of a model counts; a model may go earlier or later at others."""


def find_anthropic() -> set[str]:
    return {*importlib.import_module("anthropic.resources.messages").DEPRECATED_MODELS}


def find_litellm() -> set[str]:
    """Return the models with a date of their end in litellm's data, which is read as a file: the import takes seconds."""
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        raise ImportError("litellm is not installed")
    data = Path(package.origin).with_name("model_prices_and_context_window_backup.json")
    models = json.loads(data.read_text(encoding="utf-8"))
    return {
        name.rpartition("/")[2]
        for name, fields in models.items()
        if fields.get("deprecation_date") and fields.get("litellm_provider") in PROVIDERS
    }


def read_docstrings(path: Path) -> str:
    """Return the docstrings of a module without the lines of doctests, which also try older models."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    values = [node.value.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    lines = [line for value in values if isinstance(value, str) for line in value.splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith(">>>"))


@pytest.mark.parametrize("find", [find_anthropic, find_litellm])
def test_no_page_names_a_model_that_is_about_to_be_retired(find: Callable[[], set[str]]) -> None:
    try:
        ending = find()
    except ImportError as missing:
        pytest.skip(str(missing))
    assert len(ending) > 3
    texts = {path: path.read_text(encoding="utf-8") for path in SHOWN if path.suffix != ".jsonl"}
    texts |= {path: read_docstrings(path) for path in SOURCES}
    named = {path: {*NAME.findall(text)} & ending for path, text in texts.items()}
    assert {path.relative_to(ROOT).as_posix(): sorted(names) for path, names in named.items() if names} == {}
