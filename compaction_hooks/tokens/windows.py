"""What is known of a model by its name: the size of its context window, and its prices. A provider's error corrects a window.

A window is given by the host, told by a provider's error, or from tables. genai-prices and litellm each hold one, and a small one
of current models is part of this package. Nothing is downloaded, and litellm is not imported, for that takes seconds and goes to
the network; its table is a JSON file in its wheel.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from compaction_hooks.errors import ConfigurationError
from compaction_hooks.tokens.known_windows import KNOWN_WINDOWS

T = TypeVar("T")

logger = logging.getLogger("compaction_hooks")

_LITELLM_TABLE: Final = "model_prices_and_context_window_backup.json"
_TEXT_MODES: Final = ("chat", "completion", "responses")
_INPUT_PART: Final = {400_000: 272_000, 1_050_000: 922_000}
"""OpenAI's windows since GPT-5 hold 128,000 tokens that only the answer may use. OpenAI's model pages name the sum, its errors the
rest ("Input tokens exceed the configured limit of 272,000 tokens", community.openai.com thread 1344734); tables have either."""
_SPLIT_WINDOW_NAME: Final = r"(?:^|[/:.])gpt-(?:[5-9]|\d\d)"
_DECORATIONS: Final = (
    r"^ft:([^:]+)",  # OpenAI's fine-tuned models: ft:gpt-4.1-2025-04-14:organization:...
    r"^[a-z][a-z_-]*:(.*[-\d].*)",  # a provider before a colon: anthropic:claude-sonnet-5-5; not a variant behind it
    r"^(?:[a-z]{2,6}\.)?(?:amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.(.+)",  # Bedrock
    r"(.+)-v\d+:\d+$",  # Bedrock's versions
    r"(.+):[a-z]+$",  # OpenRouter's variants, ":free"
    r"(.+)[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest)$",
)
"""Additions around a model's name, in the order they are removed."""


class ModelWindow(NamedTuple):
    """A model's context window.

    Attributes:
        tokens: Its size.
        is_input_only: Whether the answer takes nothing from it; otherwise input and answer share it.
        source: The origin of the number, for people.
    """

    tokens: int
    is_input_only: bool
    source: str


class Windows:
    """The windows of the models that one controller serves.

    Args:
        model: The controller's own model, or None.
        given: The window of that model in tokens, or None if the host did not say.
    """

    def __init__(self, model: str | None, given: int | None) -> None:
        self._model = model
        self._given = None if given is None else ModelWindow(given, is_input_only=False, source="given")
        self._learned: dict[str | None, int] = {}
        self._warned: set[str | None] = set()
        self._warned_of_cut: set[str | None] = set()

    def find(self, model: str | None, known: int | None, default: int | None) -> ModelWindow | None:
        """Return the window of a model: given, or less if an error said so; else learned, known to the caller, or looked up.

        Args:
            model: None: the controller's own.
            known: The window that the caller of this very call knows, in tokens. A smaller one of
                the tables goes before it: frameworks tell input and output together, and some models take less input.
            default: The window of a model that no table knows, in tokens, or None.
        """
        name = model or self._model
        is_own = model is None or self._model is None or model == self._model
        given = self._given if is_own else None
        learned = self._learned.get(_bare_name(name))
        if learned is not None and (given is None or learned < given.tokens):
            return ModelWindow(learned, is_input_only=False, source="a provider's error")

        # A model that no table knows gets the window given for the controller's own: without one it has no threshold.
        window = given or _look_up(name, known) or self._given
        if window is None and default is not None:
            window = ModelWindow(default, is_input_only=False, source="default_context_window")
        return window

    def learn(self, model: str | None, tokens: int) -> None:
        """Correct the window of a model by the number in an error."""
        self._learned[_bare_name(model or self._model)] = tokens

    def warn_once(self, model: str | None) -> None:
        """Log that the window of a model is unknown, at the first time."""
        name = model or self._model
        if name in self._warned:
            return

        self._warned.add(name)
        logger.warning(
            "the context window of %s is unknown: no threshold compaction, overflow recovery only. Set context_window=... on "
            "the CompactionController%s",
            f"model {name!r}" if name else "the model (no name given)",
            unknown_window_advice() if name else ", or model=...",
        )

    def warn_of_cut(self, model: str | None, tokens: int) -> None:
        """Log that the server of a model seems to cut prompts at so many tokens, at the first time."""
        name = model or self._model
        if name in self._warned_of_cut:
            return

        self._warned_of_cut.add(name)
        logger.warning(
            "the server%s seems to cut prompts at %s tokens: set context_window=%d, or its own setting (num_ctx of Ollama). Until "
            "then sizes are estimated, since its counts are those of cut prompts",
            f" of model {name!r}" if name else "",
            f"{tokens:,}",
            tokens,
        )


def _bare_name(model: str | None) -> str | None:
    """Return a model's name without the provider in front of it."""
    return model and model.rpartition("/")[2].lower()


def _look_up(name: str | None, known: int | None) -> ModelWindow | None:
    """Return the smaller of the window that the tables know and the one that the caller does."""
    window = find_window(name) if name is not None else None
    if known is not None and (window is None or known < window.tokens):
        return window_from(name or "", known, "the host's framework")
    return window


@lru_cache(maxsize=1024)
def find_window(model: str) -> ModelWindow | None:
    """Return the window of a model by genai-prices and litellm, as far as they are installed; the smaller if they differ.

    If neither knows the model, the table of this package counts, which goes by the beginnings of names.
    A provider in front ("openai/", "anthropic:", "bedrock/us.anthropic."), a date or a version behind are left out if the full
    name is unknown. If a part of the window is for the answer alone, the result leaves it out.

    Returns:
        None when no table knows the model.
    """
    name = model.strip().lower()
    windows = [
        _from_table(name, _genai_prices_tokens, "genai-prices"),
        _from_table(name, _litellm_tokens().get, "litellm"),
    ]
    smallest = min(filter(None, windows), key=lambda window: window.tokens, default=None)
    return smallest or _from_table(name, _known_tokens, "compaction-hooks' own table")


def _from_table(model: str, tokens_of: Callable[[str], int | None], source: str) -> ModelWindow | None:
    tokens = next(filter(None, map(tokens_of, names_of(model))), None)
    return window_from(model, tokens, source) if tokens else None


def _known_tokens(name: str) -> int | None:
    """Return the window of the longest known beginning of a name, word by word."""
    words = (name.replace(".", "-") if "claude" in name else name).split("-")  # only OpenRouter writes claude-opus-5.5
    begins = ("-".join(words[:count]) for count in range(len(words), 0, -1))
    return next(filter(None, map(_known_windows().get, begins)), None)


@cache
def _known_windows() -> Mapping[str, int]:
    return {name: tokens for tokens, names in KNOWN_WINDOWS.items() for name in names.split()}


def unknown_window_advice() -> str:
    """Return a clause for errors and warnings: a package to install that may know more models; empty if it is installed."""
    return "" if _genai_prices() else ", or install genai-prices, which knows more models"


def unknown_window_error(written: str, model: str | None) -> ConfigurationError:
    """Return the error for a trigger that is a part of a window, if the window of the model is unknown.

    Args:
        written: The trigger as it is in the settings.
    """
    whose = f"that of model={model!r} is unknown" if model else "it is unknown here, for no model is named"
    return ConfigurationError(
        f"{written} is a part of the context window, and {whose}: "
        f"set context_window=... (tokens), or default_context_window in the settings{unknown_window_advice()}"
    )


def window_from(model: str, tokens: int, source: str) -> ModelWindow:
    """Return the window for a table's number: input and answer together, except for some of OpenAI's models."""
    if not re.search(_SPLIT_WINDOW_NAME, model):
        return ModelWindow(tokens, False, source)
    input_tokens = _INPUT_PART.get(tokens, tokens)
    return ModelWindow(input_tokens, input_tokens in _INPUT_PART.values(), source)


def names_of(model: str) -> Iterator[str]:
    """Yield the names that a table may know a model by, the most exact first: "a/b.c-v1:0", then "b.c-v1:0", "c-v1:0", "c"."""
    provider, slash, rest = model.partition("/")
    if slash:
        yield model
        yield from names_of(rest)
        return

    yield provider
    bare = provider
    for decoration in _DECORATIONS:
        if match := re.match(decoration, bare):
            bare = match[1]
            yield bare


def _positive_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


@cache
def _genai_prices() -> Any:
    try:
        return importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except (ModuleNotFoundError, AttributeError):
        return None


def genai_prices_of(name: str, read: Callable[[Any], T]) -> T | None:
    """Return the value that `read` finds in genai-prices' entry of a model; None if it is not installed or has no such entry."""
    provider, _, bare = name.rpartition("/")
    try:
        return read(_genai_prices().find_provider_model(bare, None, provider or None, None)[1])
    except (LookupError, AttributeError, TypeError, ValueError):
        # Not installed, the model is unknown, or its interface has changed: no reason to fail an agent.
        return None


def _genai_prices_tokens(name: str) -> int | None:
    return genai_prices_of(name, lambda entry: _positive_int(entry.context_window))


@cache
def _litellm_tokens() -> Mapping[str, int]:
    """Return litellm's input limits in tokens by model name in lower case, for models that answer with text."""
    folder = package_folder("litellm")
    try:
        table: object = json.loads((folder / _LITELLM_TABLE).read_text("utf-8")) if folder else None
    except (OSError, ValueError):
        table = None

    entries = cast("dict[str, object]", table) if isinstance(table, dict) else {}
    limits = {name.lower(): _input_limit(entry) for name, entry in entries.items()}
    return {name: tokens for name, tokens in limits.items() if tokens}


def _input_limit(entry: object) -> int | None:
    """Return one entry's limit. The entry that describes the others holds sentences in place of numbers."""
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, object]", entry)
    return _positive_int(fields.get("max_input_tokens")) if fields.get("mode") in _TEXT_MODES else None


def package_folder(name: str) -> Path | None:
    """Return the folder of a top-level package, or None if it is not installed. No code of the package runs."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:
        # It is imported already, and the module has no spec, such as a stub.
        return None
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None


# -- prices


_DEARER_ABOVE: Final = {"claude-haiku-5-5": 100_000}
"""By the beginnings of names, the length in tokens above which a request is dearer as a whole, if that is below the trigger of
large windows: five times (https://platform.claude.com/docs/en/about-claude/pricing; compared with genai-prices by a test)."""


@lru_cache(maxsize=1024)
def find_price_step(model: str) -> int | None:
    """Return the length in tokens above which a model's requests are dearer; None if that is above the trigger of large windows."""
    names = [name.replace(".", "-") for name in names_of(model.strip().lower())]
    steps = (step for begin, step in _DEARER_ABOVE.items() if any(name.startswith(begin) for name in names))
    return next(steps, None)


class Prices(NamedTuple):
    """The prices of one model, in US dollars per million tokens; of a short request, if long ones cost more.

    Attributes:
        input: Of input that is not read from the cache.
        cached_input: Of input that the provider reads from its cache; as `input` if it has no price of its own.
        output: Of the answer.
    """

    input: float
    cached_input: float
    output: float


@lru_cache(maxsize=1024)
def find_prices(model: str) -> Prices | None:
    """Return a model's prices at the time of the first call, by any of its names; None if no table that is installed has them."""
    return next(filter(None, (genai_prices_of(name, _prices) for name in names_of(model.strip().lower()))), None)


def _prices(entry: Any) -> Prices:
    listed = entry.get_prices(datetime.now(UTC))
    return Prices(
        input=_dollars(listed.input_mtok),
        cached_input=_dollars(getattr(listed, "cache_read_mtok", None) or listed.input_mtok),
        output=_dollars(listed.output_mtok),
    )


def _dollars(price: Any) -> float:
    """Return a price; of prices in tiers, that of the lowest."""
    return float(getattr(price, "base", price))


# -- names


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: they differ at most in a provider's prefix and a date or version at the end.

    >>> same_model("openai/gpt-5", "gpt-5-2025-08-07"), same_model("gpt-5", "gpt-5-mini")
    (True, False)
    """
    short, long = sorted((one.rpartition("/")[2].lower(), other.rpartition("/")[2].lower()), key=len)
    rest = long.removeprefix(short)
    return rest == "" or (
        rest != long and all(part.isdigit() or part in ("latest", "v1") for part in rest.strip("-@:.").split("-"))
    )
