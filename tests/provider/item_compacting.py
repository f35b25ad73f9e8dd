"""The compaction of OpenAI and xAI: a sealed item, which only the account and the model that made it take back.

The rules are those of https://developers.openai.com/api/docs/guides/compaction and
https://docs.x.ai/developers/advanced-api-usage/context-compaction, the wording is that of
https://github.com/openai/codex/issues/36704; read 2026-11.
"""

import base64
import hashlib
import hmac
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.provider.wordings import Rejection, openai_error

SYSTEM_ROLES = ("system", "developer")


@dataclass(slots=True)
class ItemCompactor:
    """Makes compaction items, and rejects those that the API would reject.

    Attributes:
        mode: "billed": messages before an item count; "dropped": they do not; "xai": they are rejected, and an item comes alone.
        key: The account; items of another one are not accepted.
        failures: For the next requests that compact: a rejection, or any text for an answer without an item.
        refusals: The texts of the rejections so far.
    """

    mode: Literal["billed", "dropped", "xai"] = "billed"
    key: str = "first account"
    failures: deque[str | Rejection] = field(default_factory=deque[str | Rejection])
    refusals: list[str] = field(default_factory=list[str])
    _made: int = 0

    def refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        """Return the rejection of the first item that is not this account's and model's, or not at its place."""
        items = body.get("input") or ()
        for place, item in enumerate(items):
            if item.get("type") != "compaction":
                continue
            if item["encrypted_content"] != self._seal(body, item["id"], unseal(item)):
                text = (
                    f"The encrypted content for item {item['id']} could not be verified. Reason: Encrypted content could not "
                    "be decrypted or parsed."
                )
                return self._reject(text, "invalid_encrypted_content")
            if place and self.mode == "xai":
                return self._reject("A compaction item must be the first item of `input`.")
        return None

    def _reject(self, text: str, code: str | None = None) -> Rejection:
        self.refusals.append(text)
        return Rejection(400, openai_error(text, code=code))

    def seen(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the messages that the model sees, and that count."""
        items = [place for place, message in enumerate(messages) if message.get("is_compaction")]
        return messages[items[-1] :] if items and self.mode == "dropped" else messages

    def compact(self, body: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
        """Return the items for those of a request, and their text, which names the tools called."""
        lines = [f"The request asked to compact {len(body['input'])} items."]
        kept = [item for item in body["input"] if item.get("role") == "user" and self.mode != "xai"]
        for item in body["input"]:
            match item.get("type"):
                case "compaction":
                    lines += unseal(item).splitlines()
                case "function_call":
                    lines.append(f"Called {item['name']}({item['arguments']})")
        text = "\n".join(dict.fromkeys(lines))
        return [*map(_as_output, kept), self.make_item(body, text)], text

    def make_item(self, body: Mapping[str, Any], text: str) -> dict[str, Any]:
        """Return an item with this text, for the model of a request."""
        self._made += 1
        id_ = f"cmp_{self._made:04}"
        return {"type": "compaction", "id": id_, "encrypted_content": self._seal(body, id_, text)}

    def _seal(self, body: Mapping[str, Any], id_: str, text: str) -> str:
        signed = hmac.new(self.key.encode(), f"{id_}:{body['model']}:{text}".encode(), hashlib.sha256)
        return f"gAAAA{base64.b64encode(text.encode()).decode()}.{signed.hexdigest()}"


def is_ours(item: Mapping[str, Any]) -> bool:
    """Return whether an `ItemCompactor` made an item."""
    return "." in item["encrypted_content"]


def unseal(item: Mapping[str, Any]) -> str:
    """Return the text of an item."""
    return base64.b64decode(item["encrypted_content"].removeprefix("gAAAA").partition(".")[0]).decode()


def _as_output(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of the user as the API gives it back."""
    content = item["content"]
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    seal = hashlib.sha256(str(content).encode()).hexdigest()[:8]
    return {"id": f"msg_{seal}", "type": "message", "status": "completed", "role": "user", "content": parts}
