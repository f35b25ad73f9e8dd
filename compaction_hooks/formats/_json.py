"""JSON text of what hosts hold, and the words in it that a reader may know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from compaction_hooks.formats._fields import Fields, fields_of, list_of
from compaction_hooks.text.json_text import is_nested, may_be_nested, parse_json


def to_json(value: object) -> str:
    """Return compact JSON with every character as it is; its strings and numbers in order if it cannot be JSON.

    JSON has no circles, no odd keys, and here no more than `MOST_NESTED` levels.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_jsonable)
    except (ValueError, TypeError, RecursionError):
        text = None
    if text is None or (may_be_nested(text) and is_nested(value)):
        leaves = _leaves(value, lambda fields: [("", either) for pair in fields.items() for either in pair])
        return " ".join(str(leaf) for _, leaf in leaves)
    return text


def _jsonable(value: object) -> object:
    fields = fields_of(value)
    return str(value) if fields is None else fields


def _leaves(value: object, children: Callable[[Fields], list[tuple[str, object]]]) -> Iterator[tuple[str, object]]:
    """Yield what is neither an object nor a list in a value, each with the key it is under; objects in a circle once.

    Args:
        children: Gives the keys and values of an object that count, in order.
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
    """Return arguments as JSON text: a string exactly as it is, nothing as "", anything else as compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value)


# fmt: off
_UNSAID: Final = frozenset({
    "type", "id", "call_id", "tool_use_id", "tool_call_id", "item_id", "file_id", "container_id", "encrypted_content",
    "encrypted_index", "encrypted_stdout", "signature", "status",
    "block_type", "name", "tool_name", "server_name", "server_label", "caller", "index",
    "citations", "annotations", "logprobs", "cache_control", "media_type", "detail",
})
# fmt: on
"""Keys under which providers and frameworks write ids, sealed texts and labels; each labels the same block in its own way."""


_AS_TEXT: Final = frozenset({"arguments", "partial_json"})
"""Keys under which OpenAI and LangChain write a JSON object as text."""


def block_content(value: object) -> str:
    """Return the words and numbers of a block that a reader may know: of a hosted tool its query, titles and output.

    Ids, sealed texts, labels and files are left out, so that all frameworks' forms of a block have the same content.

    >>> block_content({"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "parser"}})
    'parser'
    """
    return "\n".join(_words(value))


def _words(value: object) -> Iterator[str]:
    for key, leaf in _leaves(value, _said):
        if isinstance(leaf, str):
            yield from () if not leaf or leaf.startswith("data:") else (leaf,)
        elif leaf is not None and leaf is not False:
            yield f"{key}={to_json(leaf)}"


def _said(fields: Fields) -> list[tuple[str, object]]:
    """Return the fields of a block that a reader may know."""
    names = [] if fields.get("type") == "base64" else sorted(map(str, fields.keys() - _UNSAID))
    return [(name, _as_object(fields.get(name)) if name in _AS_TEXT else fields.get(name)) for name in names]


def _as_object(arguments: object) -> object:
    """The object in a JSON text; any other value as it is."""
    try:
        return parse_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
