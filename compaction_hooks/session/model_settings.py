"""The settings of each model, chosen by patterns of names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from compaction_hooks import arguments
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.settings import CompactionSettings
from compaction_hooks.tokens.windows import names_of

ALL_MODELS = "*"


class ModelSettings:
    """The settings by patterns of model names; the first pattern that fits a model counts, and "*" is last.

    A pattern is written as for file names (`*`, `?`, `[...]`). Upper and lower case are alike, and a name fits with or without the
    provider in front of it ("openai/gpt-5", "anthropic:claude-opus-4-5").

    Args:
        given: The settings of all models, or those of each pattern. Without a "*", other models have the default settings.

    Raises:
        ConfigurationError: a key is no pattern, a value no settings, or a pattern is behind "*" and so never counts.
    """

    def __init__(self, given: CompactionSettings | Mapping[str, CompactionSettings] | None) -> None:
        self._is_one = not isinstance(given, Mapping)
        given = given if isinstance(given, Mapping) else {ALL_MODELS: given or CompactionSettings()}
        self._by_pattern = {**given, ALL_MODELS: given.get(ALL_MODELS) or CompactionSettings()}
        self._found: dict[str | None, tuple[str, CompactionSettings]] = {}
        self._check()

    def _check(self) -> None:
        for pattern, settings in self._by_pattern.items():
            arguments.check({"settings": _PATTERN}, {"settings": pattern})
            name = f"settings[{pattern!r}]"
            arguments.check({name: _SETTINGS}, {name: settings})
        patterns = [*self._by_pattern]
        if ALL_MODELS in patterns[:-1]:
            late = patterns[patterns.index(ALL_MODELS) + 1]
            raise ConfigurationError(
                f"settings[{late!r}] never counts: '*' in front of it fits all models; put '*' last"
            )

    @property
    def all(self) -> Collection[CompactionSettings]:
        """The settings of all patterns."""
        return self._by_pattern.values()

    def find(self, model: str | None) -> CompactionSettings:
        """Return the settings of a model; a model without a name fits "*" alone."""
        return self._find(model)[1]

    def error_prefix(self, model: str | None) -> str:
        """Return the beginning of an error about a model's settings: the key they have, if there are several."""
        return "" if self._is_one else f"settings[{self._find(model)[0]!r}]: "

    def _find(self, model: str | None) -> tuple[str, CompactionSettings]:
        found = self._found.get(model)
        if found is None:
            from fnmatch import fnmatchcase  # once for each model

            names = [*names_of(model.strip().lower())] if model is not None else [""]
            fitting = (
                (pattern, settings)
                for pattern, settings in self._by_pattern.items()
                if any(fnmatchcase(name, pattern.lower()) for name in names)
            )
            found = self._found[model] = next(fitting)
        return found

    def map_settings(self, change: Callable[[CompactionSettings], CompactionSettings]) -> ModelSettings:
        """Return the same patterns with changed settings."""
        return ModelSettings({pattern: change(settings) for pattern, settings in self._by_pattern.items()})


_PATTERN = arguments.Kind(
    lambda value: isinstance(value, str) and bool(value.strip()),
    'have names of models as keys, such as "gpt-5*" or "*"',
)
_SETTINGS = arguments.Kind(
    lambda value: isinstance(value, CompactionSettings),
    "be CompactionSettings(...): a dict has the settings of several models, by their names",
)
