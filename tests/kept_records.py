"""Records as a version writes them, with the views they give: `python -m tests.kept_records` keeps those of this version.

They go into `tests/fixtures/records/`: a JSON file with the conversations, the texts of their records and their views, the same
records in a SQLite file, and in the folders and names that `KeyValueStore` gives to a key-value store. A file that a released
version wrote is never written again: `tests/stores/test_kept_records.py` reads all of them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compaction_hooks import CompactionController, CompactionSettings, Summary, SummaryRequest, Usage, __version__
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.stores import KeyValueStore, SQLiteStore
from compaction_hooks.strategies import ClearToolResults, ShortenParts
from compaction_hooks.testing import as_anthropic
from tests.conversations import Chat, Clock, Scripted, assistant, call, prose, steps, system, talk, tool, user
from tests.sealed_runs import BINDING, HIDDEN

FOLDER = Path(__file__).with_name("fixtures") / "records"
WINDOW = 100_000
"""Far larger than the conversations: nothing is compacted by itself."""
ISSUER = Issuer("anthropic", "https://api.anthropic.com")
IDS = ("thread/1 ü", "long" * 40)
"""Ids that cannot be keys as they are."""


class Folders:
    """A key-value store in a dict."""

    def __init__(self, folders: dict[str, dict[str, str]]) -> None:
        self.folders = folders

    def values(self, folder: str) -> Iterable[str]:
        return [*self.folders.get(folder, {}).values()]

    def add(self, folder: str, name: str, value: str) -> None:
        self.folders.setdefault(folder, {}).setdefault(name, value)

    def delete(self, folder: str, name: str) -> None:
        del self.folders[folder][name]


class RefusedError(Exception):
    """A refusal, as an SDK raises it."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class Issuing:
    """A summarizer whose provider compacts by itself."""

    issuer = ISSUER

    def __call__(self, request: SummaryRequest) -> Summary:
        assert request.live is not None
        block = {"type": "compaction", "content": "The parser is ported in part.", "signature": "EuYB" * 10}
        items = NativeItems(ISSUER._replace(model=request.live.model or ""), (block,), 40)
        return Summary(text="The parser is ported in part.", native=items)


@dataclass(frozen=True)
class Case:
    """A conversation, and what is done with it.

    Attributes:
        act: Gets the session and the list, which it may extend.
        model: The model of the call that asks for the view.
    """

    messages: Sequence[Any]
    act: Callable[[Any, list[Any]], object]
    model: str = "gpt-5"
    summarizer: Callable[[SummaryRequest], str | Summary] | None = None
    settings: CompactionSettings = field(default_factory=lambda: CompactionSettings(clear_tool_results=False))


def compact(session: Any, messages: list[Any], **options: Any) -> Any:
    """Compact to a few recent messages; fail if nothing is compacted."""
    result = session.compact_sync(messages, keep_recent_tokens=150, **options)
    assert result.record is not None, result
    return result


def compact_twice(session: Any, messages: list[Any]) -> None:
    compact(session, messages)
    messages += talk(4, 60, first=6)
    compact(session, messages, focus="the numbers")


def compact_with_pins(session: Any, messages: list[Any]) -> None:
    session.pin(messages[1])
    compact(session, messages)
    session.pin(messages[4])


def undo_the_second(session: Any, messages: list[Any]) -> None:
    compact_twice(session, messages)
    assert session.undo() is not None


def compact_measured(session: Any, messages: list[Any]) -> None:
    session.transform_context_sync(messages)
    session.report_usage(Usage(input_tokens=2 * session.state().context_tokens, output_tokens=9))
    compact(session, messages)


def compact_a_stored_view(session: Any, messages: list[Any]) -> None:
    """The program stores the view in place of its list, and goes on from there."""
    messages[:] = [*compact(session, messages).messages, *talk(4, 60, first=6)]
    compact(session, messages)


def compact_for_recall(session: Any, messages: list[Any]) -> None:
    session.recall_tool(lambda: messages)
    compact(session, messages)


def shorten(session: Any, messages: list[Any]) -> None:
    assert session.transform_context_sync(messages, trigger_tokens=1_500) != messages


def leave_out_images(session: Any, messages: list[Any]) -> None:
    """The provider refuses a request with more than one image for its bytes."""

    def send(view: list[Any]) -> str:
        if json.dumps(view).count("base64") > 1:
            raise RefusedError("Request exceeds the maximum size", 413)
        return "Seen."

    session.call_sync(messages, send)


def issue(session: Any, messages: list[Any]) -> None:
    """A model answers behind a sealed item, which then is known to be its own."""
    session.transform_context_sync(messages, model="gpt-5.6")


def refuse_native_items(session: Any, messages: list[Any]) -> None:
    """The provider refuses its own summary, as after a rotation of its key."""

    def send(view: list[Any]) -> dict[str, Any]:
        if "compaction" in json.dumps(view):
            raise RefusedError("messages.0.content.0: Invalid `signature` in `compaction` block", 400)
        return {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}

    compact(session, messages)
    session.call_sync(messages, send)


def refuse_reasoning(session: Any, messages: list[Any]) -> None:
    """A provider that binds reasoning to the messages before it refuses that of the first call behind a summary."""

    def send(view: list[Any]) -> dict[str, Any]:
        if "thinking" in json.dumps(view):
            raise RefusedError("messages.1.content.0: Invalid `signature` in `thinking` block", 400)
        return {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}

    compact(session, messages)
    session.call_sync(messages, send, model=HIDDEN)


THOUGHT = {"type": "thinking", "thinking": "First the tokens.", "signature": "EuYB" * 10}
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" * 40}


def said(role: str, *content: Any) -> Any:
    return {"type": "message", "role": role, "content": [*content]}


def picture(number: int) -> Chat:
    url = {"url": f"data:image/png;base64,{str(number) * 64}"}
    return {"role": "user", "content": [{"type": "text", "text": "See."}, {"type": "image_url", "image_url": url}]}


def as_anthropic_steps(*reasoning: Any) -> list[Any]:
    """Return a list in Anthropic's form, each answer of which begins with these blocks."""
    chat = [user("Port the parser."), *steps(5, 60)]
    messages: list[Any] = as_anthropic(piece for message in chat for piece in OpenAIChatFormat().read(message))
    return [
        {**message, "content": [*reasoning, *message["content"]]} if message["role"] == "assistant" else message
        for message in messages
    ]


SAID = [
    said("user", {"type": "input_text", "text": "Port the parser."}),
    said("assistant", {"type": "output_text", "text": "Ported.", "annotations": []}),
    said("user", {"type": "input_text", "text": "Go on."}),
]
WORK = [system(), user("Port the parser. Never touch the public API."), *steps(6, 60)]
TALK = [system(), *talk(6, 60)]
WRITING = [
    user("go"),
    assistant(None, call("a", "write", path="a.py", text=prose(900))),
    tool("a", prose(900)),
    user("on"),
]
PICTURES = [message for n in range(4) for message in (picture(n), assistant("Seen."))]
CLEARED = CompactionSettings(strategies=[ClearToolResults(0, 0)])
COUNTED = Summary(text="## Goal\n- numbers", usage=Usage(input_tokens=900, output_tokens=20))
CASES = {
    "by rule": Case(WORK, compact),
    "by a model, twice": Case(TALK, compact_twice, summarizer=Scripted(COUNTED, "## Goal\n- more")),
    "cleared results": Case(WORK, compact, settings=CLEARED),
    "cleared results with handles": Case(WORK, compact_for_recall, settings=CLEARED),
    "shortened parts": Case(WRITING, shorten, settings=CompactionSettings(strategies=[ShortenParts()])),
    "images left out": Case(PICTURES, leave_out_images),
    "pins": Case(TALK, compact_with_pins, summarizer=Scripted()),
    "undone": Case(TALK, undo_the_second, summarizer=Scripted()),
    "learned sizes": Case(TALK, compact_measured, summarizer=Scripted()),
    "a stored view": Case(TALK, compact_a_stored_view, summarizer=Scripted()),
    "native summary": Case(as_anthropic_steps(), compact, "claude-opus-5", Issuing()),
    "refused native summary": Case(as_anthropic_steps(), refuse_native_items, "claude-opus-5", Issuing()),
    "sealed item": Case([*SAID, SEALED, *SAID], issue, "grok-5"),
    "sealed reasoning": Case(as_anthropic_steps(THOUGHT), compact, BINDING),
    "refused reasoning": Case(as_anthropic_steps(THOUGHT), refuse_reasoning, HIDDEN),
}


def written(name: str, case: Case, store: Any) -> dict[str, Any]:
    """Do what a case does, and return its list, its records as a program would export them, and its view."""
    messages = [*case.messages]
    hooks = CompactionController[Any](
        context_window=WINDOW,
        model=case.model,
        summarizer=case.summarizer,
        settings=case.settings,
        store=store,
        clock=Clock(),
    )
    session = hooks.session(name)
    case.act(session, messages)
    kept = {
        "model": case.model,
        "is_issuer": isinstance(case.summarizer, Issuing),
        "messages": messages,
        "records": session.export_records(),
    }
    return {**kept, "view": view_of(kept)}


def view_of(kept: Mapping[str, Any], store: Any = None, id: str = "new") -> list[Any]:
    """Return the view of a kept list in a new process, which has this store, or without one the kept records."""
    summarizer: Any = Issuing() if kept["is_issuer"] else None
    hooks = CompactionController[Any](context_window=WINDOW, model=kept["model"], store=store, summarizer=summarizer)
    session = hooks.session(id)
    if store is None:
        session.import_records(kept["records"])
    return session.transform_context_sync(kept["messages"])


def main() -> None:
    """Write the records of this version."""
    FOLDER.mkdir(exist_ok=True)
    version = __version__.partition(".dev")[0]
    database = FOLDER / f"{version}.sqlite3"
    database.unlink(missing_ok=True)
    with SQLiteStore(database) as store:
        cases = {name: written(name, case, store) for name, case in CASES.items()}
    folders: dict[str, dict[str, str]] = {}
    for id in IDS:
        written(id, CASES["by rule"], KeyValueStore(Folders(folders)))
    content = {"cases": cases, "ids": IDS, "folders": folders}
    (FOLDER / f"{version}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
