"""Encrypted reasoning items of OpenAI's Responses: bound to an account, and to the items after them.

The rules and wordings are those of https://github.com/openai/codex/issues/8145 and https://github.com/continuedev/continue/issues/8933."""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tests.provider.item_compacting import ItemCompactor, unseal
from tests.provider.wordings import Rejection, openai_error


@dataclass(slots=True)
class ItemSigner:
    """Encrypts the reasoning of answers, and rejects reasoning of other accounts, and reasoning and items without their partners.

    Attributes:
        account: Names the account; reasoning of earlier ones is rejected.
        stores: Whether items are stored, so that reasoning has no encrypted content.
        refusals: The texts of all rejections.
        sent: For each accepted request, the number of reasoning items in it.
    """

    account: str = "first"
    stores: bool = False
    refusals: list[str] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    _made: int = 0

    def refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        """Return the rejection of the first such item; None if all are valid."""
        items = body.get("input") if isinstance(body.get("input"), list) else []
        runs = [list(run) for is_output, run in groupby(items or (), _is_output) if is_output]
        for run in runs:
            if text := self._broken(run):
                self.refusals.append(text)
                code = "invalid_encrypted_content" if "encrypted content" in text else None
                status = 404 if "not found" in text else 400
                return Rejection(status, openai_error(text, None if code else "input", code))
        self.sent.append(sum(item.get("type") == "reasoning" for run in runs for item in run))
        return None

    def sign(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the reasoning of the answer to a request."""
        self._made += 1
        id_ = f"rs_{self._made:04}_{self.account}"
        sealed = {} if self.stores else {"encrypted_content": self._encrypt(id_)}
        return [{"type": "reasoning", "id": id_, "summary": [], **sealed}]

    def dropped(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the reasoning that the provider leaves out: none."""
        return []

    def _encrypt(self, id_: str) -> str:
        return "gAAAA" + hmac.new(self.account.encode(), id_.encode(), hashlib.sha256).hexdigest()

    def _broken(self, run: list[Mapping[str, Any]]) -> str | None:
        """Return the reason why items of the model in a row are rejected; None if they are valid."""
        reasoning = [item for item in run if item.get("type") == "reasoning"]
        for item in reasoning:
            if self.stores and not item["id"].endswith(self.account):
                return _NOT_FOUND.format(**item)
            if not self.stores and item["encrypted_content"] != self._encrypt(item["id"]):
                return _UNREADABLE.format(**item)
            if item is run[-1]:
                return _ALONE.format(**item)
        named = next((item for item in run if item.get("id")), None)
        if named is not None and named["type"] != "reasoning":
            return _WITHOUT.format(**named)
        return None


_UNREADABLE = (
    "The encrypted content for item {id} could not be verified. "
    "Reason: Encrypted content could not be decrypted or parsed."
)
_NOT_FOUND = "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
_ALONE = "Item '{id}' of type 'reasoning' was provided without its required following item."
_WITHOUT = "Item '{id}' of type '{type}' was provided without its required 'reasoning' item."


def _is_output(item: Mapping[str, Any]) -> bool:
    """Return whether the model made an item."""
    is_input = str(item.get("type")).endswith("_output") or item.get("type") == "compaction"
    return item.get("role", "assistant") == "assistant" and not is_input


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
