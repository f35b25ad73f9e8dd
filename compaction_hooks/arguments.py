"""The check of arguments: unknown ones and wrong kinds are refused; the error names the argument, its value and the fix.

Of a value that may hold text of a conversation, or a key, the error has the type alone: errors are logged, and sent to trackers.
So it shows numbers, and of texts a name in an argument that takes a name.

`KINDS` has the kinds of arguments that several functions have: a name means the same everywhere. Those of one function alone are in
a table next to it. An argument whose default is None may be None.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any, Final, TypeGuard, TypeVar, cast

from compaction_hooks.errors import ConfigurationError

__all__ = [
    "FUNCTION",
    "HANDLER",
    "KINDS",
    "RATIO",
    "SECONDS",
    "STRATEGY",
    "SWITCH",
    "TEXT",
    "TOKENS",
    "WINDOW",
    "Kind",
    "check",
    "check_messages",
    "check_names",
    "format_name",
    "format_path",
    "format_value",
    "instance_of",
    "is_model_name",
    "is_number",
    "refusal",
    "validate",
    "whole",
    "with_methods",
]

C = TypeVar("C", bound=Callable[..., object])
R = TypeVar("R")

_NAME: Final = re.compile(r"[\w.:/*-]{0,40}", re.ASCII)
"""A text that may be shown where a name is expected: a name, a pattern. Sentences and addresses with a password are none."""
MOST_OF_A_NAME: Final = 255
"""The most characters of a model's name, and of a path in an error: a text in the place of one is longer."""
MOST_SHOWN: Final = 4
"""The most values of a list in an error, and the most names that are suggested for a value without one."""
MOST_BITS: Final = 128
"""The largest number in an error: one of thousands of digits has no text in Python."""
NEAR_ENOUGH: Final = 0.5
"""From this similarity (1: the same) a known name is suggested for a wrong one; the standard library's 0.6 misses `windoww`."""


class Kind:
    """One kind of argument.

    Attributes:
        fits: Whether a value is of this kind.
        wanted: The requirement, as it follows "must" in the error.
    """

    def __init__(self, fits: Callable[[object], bool], wanted: str) -> None:
        self.fits = fits
        self.wanted = wanted


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number and no boolean."""
    return _is_whole(value) or isinstance(value, float)


def is_model_name(text: str) -> bool:
    """Return whether a text can be the name of a model: any other one is not given to a framework, whose error would quote it."""
    return len(text) <= MOST_OF_A_NAME and not any(map(str.isspace, text))


def whole(unit: str, *, least: int = 1) -> Kind:
    """Return the kind of a whole number of some unit, above zero or, with `least=0`, zero too."""
    bound = "above zero" if least else "from zero on"
    return Kind(lambda value: _is_whole(value) and value >= least, f"be a whole number of {unit} {bound}")


def instance_of(cls: type) -> Kind:
    """Return the kind of an object of this class."""
    return Kind(lambda value: isinstance(value, cls), f"be {cls.__name__}(...)")


def with_methods(wanted: str, *methods: str) -> Kind:
    """Return the kind of an object, not a class, that has these methods."""
    return Kind(
        lambda value: not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods),
        wanted,
    )


TEXT: Final = Kind(lambda value: isinstance(value, str), "be a text")
"""Any text, the empty one too."""
SWITCH: Final = Kind(lambda value: isinstance(value, bool), "be True or False")
"""A bool."""
TOKENS: Final = whole("tokens")
"""A whole number of tokens above zero."""
RATIO: Final = Kind(lambda value: is_number(value) and 0.1 <= value <= 1.0, "be a number between 0.1 and 1.0")
"""A part of a window, from 0.1 to 1.0."""
SECONDS: Final = Kind(lambda value: is_number(value) and value > 0, "be a number of seconds above zero")  # nan is not
"""A time limit in seconds, above zero."""
WINDOW: Final = Kind(
    # The smallest window that errors are believed, too (engine/call.py).
    lambda value: _is_whole(value) and value >= 1_024,
    "be a whole number of tokens from 1,024 on, such as 128_000",
)
"""The size of a context window, in tokens, from 1,024 on."""
FUNCTION: Final = Kind(callable, "be a function")
"""Any callable."""
HANDLER: Final = with_methods("be a callable that takes an event", "__call__")
"""An event handler, not a class of handlers."""
STRATEGY: Final = with_methods(
    "be a strategy with propose(snapshot, goal), such as ClearToolResults() of compaction_hooks.strategies", "propose"
)
"""A strategy, not a class of strategies."""

KINDS: Final[Mapping[str, Kind]] = {
    # of a controller and its conversations
    "id": Kind(TEXT.fits, 'be a text that names the conversation, such as "thread-1"'),
    "model": Kind(TEXT.fits, 'be the name of a model, such as "gpt-5.2"'),
    "context_window": WINDOW,
    "summarizer": with_methods(
        "be a callable that answers a SummaryRequest; an adapter's summarizer(model) makes one of a model", "__call__"
    ),
    "format": with_methods(
        "be a MessageFormat, such as AnthropicFormat() of compaction_hooks.formats",
        "read",
        "summary",
        "take",
        "rewrite",
    ),
    "store": with_methods(
        "have load, append and remove: SQLiteStore(path) of compaction_hooks.stores keeps records in a file",
        "load",
        "append",
        "remove",
    ),
    "path": Kind(lambda value: isinstance(value, str | os.PathLike), "be the path of a file"),
    "estimator": with_methods(
        "have estimate_tokens and estimate_message_tokens, as compaction_hooks.TokenEstimator says",
        "estimate_tokens",
        "estimate_message_tokens",
    ),
    "carry": FUNCTION,
    "before_compact": FUNCTION,
    "notice": Kind(
        lambda value: isinstance(value, bool) or (isinstance(value, str) and value.strip() != ""),
        "be True, False, or the text that tells the model",
    ),
    "clock": FUNCTION,
    # of a call
    "signal": with_methods("be an event with is_set(), such as an asyncio.Event", "is_set"),
    "request": Kind(lambda value: isinstance(value, Mapping), "be a dict of the model call's options"),
    "send": FUNCTION,
    "answer": FUNCTION,
    "focus": TEXT,
    "error": Kind(lambda value: isinstance(value, BaseException), "be the exception that the model call raised"),
    "max_output_tokens": TOKENS,
    "trigger_tokens": TOKENS,
    "trigger_ratio": RATIO,
    "repair": SWITCH,
}
"""The kinds of arguments that several functions have, by their names."""

_MEANT: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("window", "max_context_tokens", "max_input_tokens", "context_length"), ("context_window",)),
    "max_tokens": ("context_window", "trigger_tokens", "max_output_tokens"),
    "threshold": ("trigger_ratio", "trigger_tokens"),
    **dict.fromkeys(("keep", "keep_last", "messages_to_keep"), ("keep_recent_tokens", "keep_turns")),
    **dict.fromkeys(("tokenizer", "token_counter"), ("estimator",)),
    **dict.fromkeys(("on_compaction", "callback", "callbacks"), ("on_event",)),
    **dict.fromkeys(("llm", "summary_model"), ("summarizer",)),
    "prompt": ("summary_prompt",),
    **dict.fromkeys(("checkpointer", "database", "storage"), ("store",)),
}
"""Arguments of other libraries, by name: those of ours that may be meant."""

_WRAPPERS: Final[Mapping[str, str]] = {
    "langgraph": "BaseStoreRecordStore(...) of compaction_adapters.langgraph",
    "redis": "RedisStore(...) of compaction_adapters.redis",
    "psycopg": "PostgresStore(...) of compaction_adapters.postgres, with a text or a pool",
    "psycopg_pool": "PostgresStore(...) of compaction_adapters.postgres",
    "sqlite3": "SQLiteStore(path) of compaction_hooks.stores",
    "pathlib": "SQLiteStore(...) of compaction_hooks.stores",
}
"""The record store to suggest in place of another package's store, by the name of that package."""


def check(kinds: Mapping[str, Kind], given: Mapping[str, object], optional: Collection[str] = ()) -> None:
    """Refuse the first argument that is not of its kind; skip arguments without a kind.

    Args:
        optional: The arguments that may be None.

    Raises:
        ConfigurationError: an argument is of the wrong kind.
    """
    for name, value in given.items():
        is_left_out = value is None and name in optional
        if name in kinds and not is_left_out and not kinds[name].fits(value):
            raise refusal(name, value, kinds[name].wanted)


def validate(kinds: Mapping[str, Kind], others: Mapping[str, str] = MappingProxyType({})) -> Callable[[C], C]:
    """Return a decorator that makes a class or function refuse unknown keywords and values of the wrong kind.

    The signature stays the same for type checkers and `inspect.signature`.

    Args:
        kinds: The kind of each argument to check.
        others: As in `check_names`.
    """

    def decorate(target: C) -> C:
        made: Any = target
        if isinstance(target, type):
            made.__init__ = _wrap(made.__init__, kinds, others)
        else:
            made = _wrap(made, kinds, others)
        return cast("C", made)

    return decorate


def _wrap(function: Callable[..., R], kinds: Mapping[str, Kind], others: Mapping[str, str]) -> Callable[..., R]:
    parameters = inspect.signature(function).parameters
    optional = {name for name, parameter in parameters.items() if parameter.default is None}
    by_name = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    most = len(parameters) - len(by_name) - 1  # without self

    @functools.wraps(function)
    def call(self: object, *positional: Any, **keywords: Any) -> R:
        called = type(self).__name__ if function.__name__ == "__init__" else function.__name__
        if keywords:
            check_names(called, keywords, parameters, others)
        if len(positional) > most:
            fix = _name_value(positional[most], kinds, by_name)
            raise TypeError(f"{called} takes {most or 'no'} argument{'s' if most > 1 else ''} by position: {fix}")
        check(kinds, dict(zip(islice(parameters, 1, None), positional, strict=False)) | keywords, optional)
        return function(self, *positional, **keywords)

    return call


def _name_value(value: object, kinds: Mapping[str, Kind], names: Sequence[str]) -> str:
    """Return how to write a value that was given without its name."""
    fitting = [name for name in names if name in kinds and kinds[name].fits(value)]
    if 0 < len(fitting) <= MOST_SHOWN:
        # An argument that a text fits takes a text.
        return "write " + " or ".join(f"{name}={_write(format_name(value))}" for name in fitting)
    return f"it takes {', '.join(sorted(names))} by name"


def refusal(name: str, value: object, wanted: str) -> ConfigurationError:
    """Return the error for an argument of the wrong kind."""
    if isinstance(value, type):
        return ConfigurationError(f"{name}={value.__name__} is a class: write {name}={value.__name__}(...)")
    wrapper = _WRAPPERS.get(package_of(value, _WRAPPERS))
    if name == "store" and wrapper is not None:
        return ConfigurationError(f"{name}={format_value(value)} keeps no records by itself: wrap it in {wrapper}")
    return ConfigurationError(f"{name}={format_value(value)} must {wanted}")


def package_of(value: object, known: Collection[str]) -> str:
    """Return the package of a value's class or of one of its bases, if it is among these packages; else ""."""
    packages = (cls.__module__.partition(".")[0] for cls in type(value).__mro__)
    return next((name for name in packages if name in known), "")


def check_names(
    function: str, given: Mapping[str, object], known: Iterable[str], others: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse an argument that a function does not have, as Python does, and suggest one that was meant, or a similar one.

    Args:
        others: Arguments of other functions, each as it is written there: "..." in the place of the value.

    Raises:
        TypeError: a name is not known.
    """
    names = sorted(set(known) - {"self"})
    for name, value in given.items():
        if name not in names:
            written = {**others, **{each: each for each in names}}
            meant = [each for each in _MEANT.get(name, (name,)) if each in written]
            meant = meant or difflib.get_close_matches(name, written, n=1, cutoff=NEAR_ENOUGH)
            forms = [
                written[each].replace("...", _write(format_value(value)) if each == name else "...") for each in meant
            ]
            fix = f"did you mean {' or '.join(forms)}?" if forms else f"it takes {', '.join(names)}"
            shown = name if name.isidentifier() else format_name(name)  # of a dict that was unpacked
            raise TypeError(f"{function} got an unexpected argument {shown}={format_value(value)}: {fix}")


def check_messages(messages: object) -> None:
    """Refuse a value that is no list of messages. The error names only its type: the value may hold text of users.

    Raises:
        ConfigurationError: the value is no list.
    """
    if isinstance(messages, Sequence) and not isinstance(messages, str | bytes):
        return

    given = type(messages).__name__
    fixes = (
        (Mapping, "write [message]"),
        (str, "write [message]"),
        (Awaitable, "await it"),
        (Iterable, "write list(messages)"),
    )

    fix = next((f": {fix}" for kind, fix in fixes if isinstance(messages, kind)), "")
    raise ConfigurationError(f"messages must be the list of the conversation's messages, not {given}{fix}")


def format_value(value: object, known: Collection[str] = ()) -> str:
    """Return a value as an error shows it: a number or a few as they are, of all else the type alone.

    Args:
        known: The texts that may be shown: any other one may be a key, or a word of a conversation.

    >>> format_value(8_000), format_value("hunter2"), format_value(("tokens", "all"), {"tokens", "all"})
    ('8000', '<str>', "('tokens', 'all')")
    """
    if isinstance(value, FunctionType | BuiltinFunctionType | MethodType | type):
        return f"<{'class' if isinstance(value, type) else 'function'} {value.__name__}>"

    kind: type = type(value)
    items = [*cast("Sequence[object]", value)] if kind in (list, tuple) else [value]
    is_empty = kind is dict and not value
    if is_empty or (len(items) <= MOST_SHOWN and all(_is_plain(item, known) for item in items)):
        return repr(value)
    return f"<{kind.__name__}>"


def format_name(value: object) -> str:
    """Return the value of an argument that takes a name, as an error shows it: a text too if it can be a name.

    >>> format_name("gpt-5.2"), format_name("My password is hunter2."), format_name(["gpt-5.2"])
    ("'gpt-5.2'", '<str>', '<list>')
    """
    return repr(value) if type(value) is str and _NAME.fullmatch(value) else format_value(value)


def format_path(path: object) -> str:
    """Return the path of a file as an error shows it; of a text that is longer than paths are, the length alone."""
    shown = str(path)
    return shown if len(shown) <= MOST_OF_A_NAME else f"<path of {len(shown):,} characters>"


def _is_plain(value: object, known: Collection[str]) -> bool:
    """Return whether a value is None, a number or a known text: it may be shown."""
    if type(value) is str:
        return not value or value in known
    return value is None or type(value) in (bool, float) or (type(value) is int and value.bit_length() <= MOST_BITS)


def _write(shown: str) -> str:
    """Return a value as it is written in code, of its form in an error; "..." if that has the type alone."""
    return "..." if shown.startswith("<") else shown
