"""The messages of Strands Agents, and the blocks in them that are no history."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from compaction_hooks.formats import BedrockConverseFormat

StrandsMessage: TypeAlias = Mapping[str, Any]
"""A message: role and content as in Bedrock's Converse API, and the framework's `tracking_id` and `metadata`."""
_PLACEHOLDER: Final = b64encode(b"skip_thought_signature_validator").decode()
"""Google's placeholder for a signature (https://ai.google.dev/gemini-api/docs/thought-signatures), as Strands holds signatures."""


class StrandsFormat(BedrockConverseFormat):
    """The format of Strands' messages: those of Bedrock's Converse API, whichever model they are for."""

    def untie(self, message: StrandsMessage, /) -> StrandsMessage:
        """Return a copy with Google's placeholder as signature of tool calls; the message itself if it has no signature."""
        untied = [_untie(block) for block in message["content"]]
        return message if untied == message["content"] else {**message, "content": untied}


FORMAT = StrandsFormat()


def _untie(block: Mapping[str, Any]) -> Mapping[str, Any]:
    call = block.get("toolUse", {})
    return {**block, "toolUse": {**call, "reasoningSignature": _PLACEHOLDER}} if "reasoningSignature" in call else block


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
