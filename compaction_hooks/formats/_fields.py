"""The fields of a host's message or object, read leniently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from compaction_hooks.arguments import package_of
from compaction_hooks.errors import FormatError

Fields: TypeAlias = Mapping[str, object]
"""One JSON object of the host: a message, a content block, a tool call."""

ADAPTERS: Final[Mapping[str, str]] = {
    "langchain_core": "compaction_adapters.langchain and .langgraph; without these, write format=LangChainFormat() from there",
    "pydantic_ai": "compaction_adapters.pydantic_ai; without its Compaction(), write format=PydanticAIFormat() from there",
    "tinyagent": "compaction_adapters.tinyagent; without its hook, write format=TinyAgentFormat() from there",
}
"""For each package of message objects, the adapter that reads them."""


def fields_of(value: object) -> Fields | None:
    """Return the fields of a dict or of an SDK object; None for anything else.

    The SDKs' own examples append their response objects to a list of dicts, so an object with pydantic's `model_dump` is read
    as its fields. None values are left out: providers refuse some of them when they are sent back.
    """
    # The check against the abstract class costs more than reading a whole plain message.
    if type(value) is dict or isinstance(value, Mapping):
        return cast("Fields", value)  # the keys of a JSON object are strings
    dump = getattr(value, "model_dump", None)
    return cast(Fields, dump(exclude_none=True)) if callable(dump) else None


def message_fields(message: object) -> Fields:
    """Return the fields of a host message.

    Raises:
        FormatError: it is neither a dict nor an SDK object, or one of a framework that has an adapter.
    """
    if type(message) is dict:
        return cast("Fields", message)
    adapter = ADAPTERS.get(package_of(message, ADAPTERS))
    if adapter is not None:
        raise FormatError(f"a {type(message).__name__} is read by {adapter}")
    fields = fields_of(message)
    if fields is None:
        raise FormatError(
            f"a message must be a dict, not {type(message).__name__}: convert it or give a fitting `format`"
        )
    return fields


def list_of(value: object) -> Sequence[object] | None:
    """Return a JSON array as a sequence; None for anything else."""
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def text_of(value: object) -> str:
    """Return a string as it is, and "" for anything else."""
    return value if isinstance(value, str) else ""
