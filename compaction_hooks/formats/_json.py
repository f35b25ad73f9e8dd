"""JSON text of the host's values, the readable words in it, and fields of unknown values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

from compaction_hooks.arguments import package_of
from compaction_hooks.errors import FormatError
from compaction_hooks.text.json_text import is_nested, may_be_nested, parse_json

Fields: TypeAlias = Mapping[str, object]
"""One JSON object of the host: a message, a content block, a tool call."""

ADAPTERS: Final[Mapping[str, str]] = {
    "langchain_core": "compaction_adapters.langchain and .langgraph; without these, write format=LangChainFormat() from there",
    "pydantic_ai": "compaction_adapters.pydantic_ai; without its Compaction(), write format=PydanticAIFormat() from there",
    "agent_framework": "compaction_adapters.agent_framework; without it, write format=AgentFrameworkFormat() from there",
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


def to_json(value: object) -> str:
    """Return a value as compact JSON, not escaped to ASCII; its strings and numbers in order if it cannot be JSON.

    JSON has no circles, only keys of simple types, and here no more than `MOST_NESTED` levels.
    """
    try:
        text = _ENCODER.encode(value)
    except (ValueError, TypeError, RecursionError):
        text = None

    if text is None or (may_be_nested(text) and is_nested(value)):
        leaves = _leaves(value, lambda fields: [("", either) for pair in fields.items() for either in pair])
        return " ".join(str(leaf) for _, leaf in leaves)
    return text


def _jsonable(value: object) -> object:
    fields = fields_of(value)
    return str(value) if fields is None else fields


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_jsonable)


def _leaves(value: object, children: Callable[[Fields], list[tuple[str, object]]]) -> Iterator[tuple[str, object]]:
    """Yield the values inside a value that are neither object nor list, each with its key; objects in a circle once.

    Args:
        children: Returns the keys and values of an object to visit, in order.
    """
    seen = set[int]()
    stack: list[tuple[str, object]] = [("", value)]
    while stack:
        key, node = stack.pop()
        fields, items = fields_of(node), list_of(node)
        if fields is None and items is None:
            yield key, node
        elif id(node) not in seen:
            seen.add(id(node))
            stack += reversed([(key, item) for item in items or ()] if fields is None else children(fields))


def as_json_text(value: object) -> str:
    """Return arguments as JSON text: a string exactly as it is, None as "", any other value as compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value)


# fmt: off
_UNSAID: Final = frozenset({
    "type", "id", "call_id", "tool_use_id", "tool_call_id", "approval_request_id", "item_id", "file_id", "container_id",
    "encrypted_content", "encrypted_index", "encrypted_stdout", "signature", "status",
    "block_type", "name", "tool_name", "server_name", "server_label", "caller", "index",
    "citations", "annotations", "logprobs", "cache_control", "media_type", "detail",
})
# fmt: on
"""Keys of ids, encrypted texts and labels, in which frameworks differ for the same block."""

_AS_TEXT: Final = frozenset({"arguments", "partial_json"})
"""Keys under which OpenAI and LangChain write a JSON object as text."""


def block_content(value: object) -> str:
    """Return the readable words and numbers of a block: for a hosted tool its query, titles and output.

    Ids, encrypted texts, labels and files are left out, so that all frameworks' forms of a block have the same content.

    >>> block_content({"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "parser"}})
    'parser'
    """
    return "\n".join(_words(value))


def _words(value: object) -> Iterator[str]:
    for key, leaf in _leaves(value, _readable_fields):
        if isinstance(leaf, str):
            yield from () if not leaf or leaf.startswith("data:") else (leaf,)
        elif leaf is not None and leaf is not False:
            yield f"{key}={to_json(leaf)}"


def _readable_fields(fields: Fields) -> list[tuple[str, object]]:
    names = [] if fields.get("type") == "base64" else sorted(map(str, fields.keys() - _UNSAID))
    return [(name, _as_object(fields.get(name)) if name in _AS_TEXT else fields.get(name)) for name in names]


def _as_object(arguments: object) -> object:
    """Return the object in a JSON text; any other value as it is."""
    try:
        return parse_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
