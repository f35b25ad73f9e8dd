"""The tools that an adapter gives to the model: by one it reads again what its views leave out, by one it asks for a compaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from compaction_hooks import CompactionSession
from compaction_hooks.compact_tool import CompactTool
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.recall import RecallTool


@dataclass(frozen=True)
class ModelTool:
    """A tool of a session, as an adapter offers it to the model.

    Attributes:
        keyword: The keyword of adapters that turns it on.
        form: Its class, with name, description and parameters.
        make: Returns the tool of a session, given a function that returns the whole list.
        main_argument: The argument that takes what is no JSON object.
    """

    keyword: str
    form: type[RecallTool | CompactTool]
    make: Callable[[CompactionSession[Any], Callable[[], Sequence[Any]]], Callable[..., str]]
    main_argument: str

    @property
    def name(self) -> str:
        """The name under which the model calls it."""
        return self.form.name

    @property
    def description(self) -> str:
        """Tells the model what it is for."""
        return self.form.description

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of its arguments, as a dict of its own."""
        return {**self.form.parameters}

    def check_name(self, names: Collection[str]) -> None:
        """Refuse a tool of the agent's own under the name of this one.

        Raises:
            ConfigurationError: the agent has one.
        """
        if self.name in names:
            raise ConfigurationError(f"{self.keyword}=True adds a tool named {self.name!r}: rename the agent's own")

    def read_arguments(self, given: str | Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that a model gave, as JSON or read; what is no JSON object is the main one."""
        arguments: object = given
        if isinstance(given, str):
            with suppress(ValueError):
                arguments = json.loads(given)
        if isinstance(arguments, Mapping):
            return {**cast("Mapping[str, Any]", arguments)}
        return {self.main_argument: given}


RECALL: Final = ModelTool("recall", RecallTool, lambda session, messages: session.recall_tool(messages), "query")
"""The tool by which the model reads again what its views leave out."""
COMPACT: Final = ModelTool("compact", CompactTool, lambda session, _: session.compact_tool(), "note")
"""The tool by which the model asks for a compaction."""


def model_tools(*, recall: bool, compact: bool) -> list[ModelTool]:
    """Return the tools that the keywords of an adapter turn on."""
    return [tool for tool, is_on in ((RECALL, recall), (COMPACT, compact)) if is_on]
