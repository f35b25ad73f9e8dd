"""What a store holds of some conversations, and their views: `python -m tests.kept_records` writes what this version makes.

`tests/stores/test_kept_records.py` reads `tests/fixtures/records/0.2.0.json`, which stays as 0.2.0 wrote it.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from compaction_hooks import CompactionController, CompactionSettings, Summary, SummaryRequest, Usage, __version__
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.stores import KeyValueStore
from compaction_hooks.strategies import ClearToolResults, ShortenParts
from compaction_hooks.testing import as_anthropic
from tests.conversations import Clock, assistant, call, prose, steps, system, talk, tool, user
from tests.stores.test_stores_key_value import Folders

FOLDER = Path(__file__).with_name("fixtures") / "records"
MODEL = "my-gateway-model"
"""Unknown to all tables: only a refusal tells that it binds reasoning."""


class RefusedError(Exception):
    """A refusal, as an SDK raises it."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class Summarizer:
    """A summarizer that tells its cost, and whose provider compacts lists in Anthropic's form by itself."""

    issuer = Issuer("anthropic", "https://api.anthropic.com")

    def __call__(self, request: SummaryRequest) -> Summary:
        text = f"## Goal\n- port the parser, {len(request.messages)} messages on"
        cost = Usage(input_tokens=900, output_tokens=20)
        if request.live is None or request.live.provider != "anthropic":
            return Summary(text, usage=cost)
        block = {"type": "compaction", "content": text, "signature": "EuYB" * 10}
        return Summary(text, usage=cost, native=NativeItems(self.issuer._replace(model=MODEL), (block,), 40))


def compact(session: Any, messages: list[Any]) -> list[Any]:
    """Return the view after a compaction to a few recent messages."""
    result = session.compact_sync(messages, keep_recent_tokens=150)
    assert result.record is not None, result
    view: list[Any] = result.messages
    return view


def summarize_a_stored_view(session: Any, messages: list[Any]) -> None:
    """A message is pinned, the provider counts more than was estimated, and the list goes on from the view."""
    session.pin(messages[1])
    session.transform_context_sync(messages)
    session.report_usage(Usage(input_tokens=2 * session.state().context_tokens, output_tokens=9))
    messages[:] = [*compact(session, messages), *talk(4, 60, first=6)]
    compact(session, messages)


def clear_for_recall(session: Any, messages: list[Any]) -> None:
    session.recall_tool(lambda: messages)
    compact(session, messages)


def shorten(session: Any, messages: list[Any]) -> None:
    assert session.transform_context_sync(messages, trigger_tokens=1_500) != messages


def leave_out_images(session: Any, messages: list[Any]) -> None:
    def send(view: list[Any]) -> str:
        if json.dumps(view).count("base64") > 1:
            raise RefusedError("Request exceeds the maximum size", 413)
        return "Seen."

    session.call_sync(messages, send)


def refuse(kind: str, session: Any, messages: list[Any]) -> None:
    """The provider refuses its blocks of a kind, as it does after a rotation of its key."""

    def send(view: list[Any]) -> dict[str, Any]:
        if kind in json.dumps(view):
            raise RefusedError(f"messages.0.content.0: Invalid `signature` in `{kind}` block", 400)
        return {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}

    compact(session, messages)
    session.call_sync(messages, send, model=MODEL)


def say_behind_a_sealed_item(session: Any, messages: list[Any]) -> None:
    """The model that answers behind the item is its issuer."""
    session.transform_context_sync(messages, model="gpt-5.6")


def picture(number: int) -> Any:
    url = {"url": f"data:image/png;base64,{str(number) * 64}"}
    return {"role": "user", "content": [{"type": "text", "text": "See."}, {"type": "image_url", "image_url": url}]}


def with_reasoning() -> list[Any]:
    """Return a list in Anthropic's form, each answer of which begins with reasoning."""
    chat = [user("Port the parser."), *steps(5, 60)]
    thought = {"type": "thinking", "thinking": "First the tokens.", "signature": "EuYB" * 10}
    messages: list[Any] = as_anthropic(piece for message in chat for piece in OpenAIChatFormat().read(message))
    return [
        {**message, "content": [thought, *message["content"]]} if message["role"] == "assistant" else message
        for message in messages
    ]


class Case(NamedTuple):
    """A conversation, and what is done with it.

    Attributes:
        act: Gets the session and the list, which it may extend.
        reader: The model of the call that asks for the view.
    """

    messages: list[Any]
    act: Callable[[Any, list[Any]], object]
    reader: str = MODEL
    settings: CompactionSettings = CompactionSettings(clear_tool_results=False)


WORK = [system(), user("Port the parser. Never touch the public API."), *steps(6, 60)]
WRITING = [
    user("go"),
    assistant(None, call("a", "write", path="a.py", text=prose(900))),
    tool("a", prose(900)),
    user("on"),
]
SAID = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Port the parser."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]},
]
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" * 40}
CASES = {
    "a stored view": Case([system(), *talk(6, 60)], summarize_a_stored_view),
    "cleared results": Case(WORK, clear_for_recall, settings=CompactionSettings(strategies=[ClearToolResults(0, 0)])),
    "shortened parts": Case(WRITING, shorten, settings=CompactionSettings(strategies=[ShortenParts()])),
    "images left out": Case([one for n in range(4) for one in (picture(n), assistant("Seen."))], leave_out_images),
    "native summary": Case(with_reasoning(), compact),
    "refused native summary": Case(with_reasoning(), partial(refuse, "compaction")),
    "refused reasoning": Case(with_reasoning(), partial(refuse, "thinking")),
    "sealed item": Case([*SAID, SEALED, *SAID], say_behind_a_sealed_item, reader="grok-5"),
}


def view_of(name: str, model: str, messages: list[Any], folders: dict[str, dict[str, str]]) -> list[Any]:
    """Return the view of a list in a new process whose store has these records."""
    return _controller(folders, model=model).session(name).transform_context_sync(messages)


def _controller(folders: dict[str, dict[str, str]], **more: Any) -> CompactionController[Any]:
    entries = Folders()
    entries.folders = folders
    # The window is far larger than the conversations: nothing is compacted by itself.
    return CompactionController(
        context_window=100_000, store=KeyValueStore(entries), summarizer=Summarizer(), clock=Clock(), **more
    )


def _write(name: str, case: Case) -> dict[str, Any]:
    messages, folders = [*case.messages], dict[str, dict[str, str]]()
    case.act(_controller(folders, settings=case.settings).session(name), messages)
    kept: dict[str, Any] = {"model": case.reader, "messages": messages, "folders": folders}
    return {**kept, "view": view_of(name, **kept)}


if __name__ == "__main__":
    text = json.dumps({name: _write(name, case) for name, case in CASES.items()}, indent=1)
    (FOLDER / f"{__version__}.json").write_text(text + "\n", encoding="utf-8")
