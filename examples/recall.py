"""An agent reads again what its view has left out. Its model is a script, so it needs no key and no network.

Run: python examples/recall.py     needs: pip install compaction-hooks. Prints the tool calls, the difference
between its messages and the last view, and the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from compaction_hooks import CompactionController
from compaction_hooks.recall import diff

ChatMessage = dict[str, Any]
PAGES = 8


def read_page(page: int) -> str:
    """Return a page of about 3,000 tokens. The code is on the first one."""
    first = "The code of the vault is TX-48213.\n" if page == 1 else ""
    return f"Page {page}\n{first}" + "\n".join(f"{line}: nothing of note" for line in range(600))


class ScriptedModel:
    """A model that reads all pages, then says the code if it sees it, and calls recall if it does not."""

    def __init__(self) -> None:
        self.read_pages = 0

    def __call__(self, view: list[ChatMessage]) -> ChatMessage:
        """Return the next message of the assistant."""
        if self.read_pages < PAGES:
            self.read_pages += 1
            return call_tool("read_page", page=self.read_pages)
        code = re.search(r"TX-\d+", json.dumps(view))
        return (
            {"role": "assistant", "content": f"It is {code[0]}."} if code else call_tool("recall", query="code vault")
        )


def call_tool(name: str, **arguments: object) -> ChatMessage:
    """Return a message of the assistant that calls a tool."""
    call = {"id": "call", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def main() -> None:
    """Run the agent on one request."""
    messages: list[ChatMessage] = [{"role": "user", "content": "Read all pages. Which code opens the vault?"}]
    session = CompactionController(context_window=16_384).session("vault")
    recall = session.recall_tool(lambda: messages)  # before the first call, so that views name it
    tools: dict[str, Callable[..., str]] = {"read_page": read_page, recall.name: recall}
    schema = {"name": recall.name, "description": recall.description, "parameters": dict(recall.parameters)}
    model = ScriptedModel()  # a real one gets the schema of each tool, of recall too

    while True:
        view = session.transform_context_sync(messages, tools=[{"type": "function", "function": schema}])
        answer = model(view)
        messages.append(answer)
        if "tool_calls" not in answer:
            break
        for call in answer["tool_calls"]:
            function = call["function"]
            result = tools[function["name"]](**json.loads(function["arguments"]))
            print(f"{function['name']}({function['arguments']}): {len(result):,} characters")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    print(diff(messages[:-1], view))
    print(answer["content"])


if __name__ == "__main__":
    main()
