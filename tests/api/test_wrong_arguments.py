"""A wrong argument is named in the error by its type: an error never quotes a conversation, in logs or in trackers of errors."""

import asyncio
import enum
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CallOptions, CompactionController
from compaction_hooks.errors import CompactionError
from tests.test_architecture import PUBLIC_MODULES

SECRET = "the passphrase is marmalade"
KEY = "hunter2-SECRET"
"""A text without spaces, such as a key: where an argument takes a name, it may be one."""


class Confidential:
    def __repr__(self) -> str:
        return SECRET


SAID = [{"role": "user", "content": SECRET}]
WRONG: list[Any] = [SAID, SAID[0], SECRET, ([SECRET],), {SECRET: None}, Confidential(), len(SECRET) * [SECRET]]
KEYS: list[Any] = [KEY, [KEY], (KEY, 1)]
TAKES_A_NAME = re.compile(r"model:|\bstr\b|\bPath\b|\bAny\b")
"""The arguments that take a name, or whatever a framework takes: a model, and those of such types."""
PYTHONS_OWN = (BaseException, dict, enum.Enum)
"""The bases of classes whose constructor is Python's own."""
VALID: dict[str, Any] = {
    "messages": [{"role": "user", "content": "hi"}],
    "message": {"role": "user", "content": "hi"},
    "send": len,
    "error": OverflowError("prompt is too long"),
    "model": "gpt-5",
    **dict.fromkeys(("id", "prefix", "session_id", "conversation_id", "record_id", "name", "text"), "thread-1"),
}
"""Right values of required arguments, so that the wrong one is the only mistake."""


def callables(module: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions and classes of a module, and the methods of objects that are made without an argument."""
    found = importlib.import_module(module)
    for name in found.__all__:
        value = getattr(found, name)
        is_ours = inspect.isfunction(value) or (isinstance(value, type) and not issubclass(value, PYTHONS_OWN))
        if not is_ours:
            continue
        yield name, value
        try:
            made = value() if isinstance(value, type) else None
        except Exception:  # noqa: BLE001 - it needs an argument, or its framework a key
            continue
        yield from ((f"{name}.{each}", getattr(made, each)) for each in methods_of(made))


def methods_of(made: object) -> list[str]:
    # A method of a framework's own class may show what it likes.
    ours = [vars(cls) for cls in type(made).__mro__ if cls.__module__.startswith("compaction_")]
    names = [name for name in dir(made) if name[0] != "_" and any(name in each for each in ours)]
    names = [name for name in names if not isinstance(inspect.getattr_static(made, name), property)]
    return [name for name in names if inspect.ismethod(getattr(made, name))]


def calls_with(function: Callable[..., Any], wrong: object) -> Iterator[Callable[[], Any]]:
    """Yield calls of a function in which one argument is wrong, each in turn."""
    parameters = inspect.signature(function).parameters.values()
    for tried in parameters:
        if (
            tried.kind is not tried.VAR_KEYWORD
            and wrong in KEYS
            and TAKES_A_NAME.search(f"{tried.name}: {tried.annotation}")
        ):
            continue
        positional, keywords = list[Any](), dict[str, Any]()
        for each in parameters:
            value = wrong if each is tried else VALID.get(each.name)
            if each is not tried and (
                each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            ):
                continue
            if each.kind is each.VAR_KEYWORD:
                options = {**CallOptions.__annotations__, "settings": None}
                names = [name for name, hint in options.items() if wrong in KEYS and TAKES_A_NAME.search(str(hint))]
                own = [other.name for other in parameters]  # tried by themselves
                keywords |= dict.fromkeys(options.keys() - {*names, *own}, wrong)
            elif each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
                positional.append(value)
            else:
                keywords[each.name] = value
        yield functools.partial(function, *positional, **keywords)


@pytest.mark.parametrize("module", sorted(PUBLIC_MODULES - {"compaction_hooks.testing"}))
def test_no_error_quotes_an_argument(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some take the text as the path of a file
    try:
        functions = dict(callables(module))
    except ImportError as missing:
        pytest.skip(str(missing))
    if module == "compaction_hooks":
        session = CompactionController(context_window=8_000).session("thread-1")
        functions |= {f"session.{name}": getattr(session, name) for name in methods_of(session)}

    told: set[str] = set()
    for name, function in functions.items():
        for wrong in [*WRONG, *KEYS]:
            for call in calls_with(function, wrong):
                try:
                    made = call()
                    if inspect.iscoroutine(made):
                        asyncio.run(made)
                except (CompactionError, LookupError, TypeError) as error:
                    text = f"{error}{error!r}"
                    told |= {f"{name}: {type(error).__name__}: {error}"} if SECRET in text or KEY in text else set()
                except Exception:  # noqa: BLE001 - of a framework, or of the host's own argument
                    continue
    assert sorted(told) == []
