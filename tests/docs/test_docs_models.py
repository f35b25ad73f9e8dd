"""The pages and examples name no model that is about to be retired, by the lists of the clients that are installed."""

import importlib
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.test_docs import PAGES, ROOT

SHOWN = [page for page in PAGES if page != "CHANGELOG.md"] + [
    path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").rglob("*.py"))
]
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


@pytest.mark.parametrize("find", [find_anthropic, find_litellm])
def test_no_page_names_a_model_that_is_about_to_be_retired(find: Callable[[], set[str]]) -> None:
    try:
        ending = find()
    except ImportError as missing:
        pytest.skip(str(missing))
    assert len(ending) > 3
    named = {page: {*NAME.findall((ROOT / page).read_text(encoding="utf-8"))} & ending for page in SHOWN}
    assert {page: sorted(names) for page, names in named.items() if names} == {}
