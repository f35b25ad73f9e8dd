"""Compaction in line with OpenAI's Responses: the server puts a sealed summary in front of an answer by itself.

The rules and wordings are those of `ItemCompactor`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.provider.item_compacting import ItemCompactor, unseal
from tests.provider.wordings import Rejection


@dataclass(slots=True)
class ItemSealer(ItemCompactor):
    """Puts a sealed summary in front of an answer after every few items, and rejects summaries that it did not make.

    Attributes:
        names: Texts that a summary keeps; all other words are lost.
        every: Items after the newest summary from which on an answer brings another one.
        read: For each accepted request, the names that the model could read in it.
        sealed: The number of summaries in each accepted request.
    """

    names: Sequence[str] = ()
    every: int = 20
    read: list[set[str]] = field(default_factory=list[set[str]])
    sealed: list[int] = field(default_factory=list[int])

    def refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        """Return the rejection of a request; None if its summaries are valid."""
        rejection = ItemCompactor.refusal(self, body)
        if rejection is None:
            self.read.append(self._names_in(body["input"]))
            self.sealed.append(sum(item.get("type") == "compaction" for item in body["input"]))
        return rejection

    def sign(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the summary in front of the answer to a request, if one is due."""
        items = body["input"]
        if len(items) - max(_newest(items), 0) < self.every:
            return []
        return [self.make_item(body, "\n".join(sorted(self._names_in(items))))]

    def dropped(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the reasoning that the provider leaves out: none."""
        return []

    def _names_in(self, items: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the names that the model can read: in the newest summary, and in the items that the provider takes with it."""
        first = _newest(items)
        text = json.dumps(items[first + 1 :] if self.mode == "dropped" else items)
        sealed = unseal(items[first]) if first >= 0 else ""
        return {name for name in self.names if name in text or name in sealed}


def _newest(items: Sequence[Mapping[str, Any]]) -> int:
    """Return the place of the newest summary; -1 if there is none."""
    return max((place for place, item in enumerate(items) if item.get("type") == "compaction"), default=-1)
