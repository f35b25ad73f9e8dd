"""The messages of Strands Agents, and the blocks in them that are no history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from compaction_hooks.formats import BedrockConverseFormat
from compaction_hooks.messages import PlainMessage

StrandsMessage: TypeAlias = Mapping[str, Any]
"""A message: role and content as in Bedrock's Converse API, and the framework's `tracking_id` and `metadata`."""


class StrandsFormat(BedrockConverseFormat):
    """The format of Strands' messages, which are sent without their `tracking_id` and `metadata`."""

    def read_plain(self, message: StrandsMessage, /) -> PlainMessage | None:
        """Return the texts of a message of plain blocks; None for any other message."""
        return super().read_plain({"role": message.get("role"), "content": message.get("content")})


FORMAT = StrandsFormat()


def split_injected(messages: list[StrandsMessage], count: int) -> tuple[list[StrandsMessage], list[Any]]:
    """Return the messages without the last blocks of the last one, and these blocks.

    Args:
        count: Number of blocks that plugins add anew for every call (`dynamic_trailing_blocks`), so that they are no history.
    """
    if not count:
        return messages, []
    *earlier, last = messages
    return [*earlier, {**last, "content": last["content"][:-count]}], last["content"][-count:]


def with_injected(view: list[StrandsMessage], blocks: list[Any]) -> list[StrandsMessage]:
    """Return a view with these blocks at its end; the same list if there are none."""
    if not blocks:
        return view
    *earlier, last = view
    return [*earlier, {**last, "content": [*last["content"], *blocks]}]
