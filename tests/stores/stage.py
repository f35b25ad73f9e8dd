"""The parent's side of worker processes: several at once on one store, and what must hold of what they answer."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.tokens import CharacterEstimator
from compaction_hooks.validity import worsened
from tests.conversations import system, talk, texts, user
from tests.stores.opened import open_store
from tests.stores.worker import WINDOW

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0

Chat = list[Mapping[str, object]]


class Worker:
    """A worker process. What it says is read by a thread, so that waiting for it ends."""

    def __init__(self, kind: str, where: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.stores.worker", kind, where],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line)
        self._said.put("")

    def tell(self, **what: object) -> None:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def hear(self) -> dict[str, Any]:
        line = self._said.get(timeout=PATIENCE_SECONDS)
        assert line, "the worker ended"
        heard: dict[str, Any] = json.loads(line)
        return heard

    def begin(self, messages: Chat, session: str = "shared") -> None:
        self.tell(session=session, messages=messages)

    def demand_asked(self) -> None:
        assert self.hear() == {"asked": True}

    def view(self, summary: str | None = None) -> Chat:
        """The view of the call it is in, once its summarizer has answered this."""
        if summary is not None:
            self.tell(summary=summary)
        heard = self.hear()
        assert "view" in heard, "a summary was asked for"
        assert heard["failed"] == []
        view: Chat = heard["view"]
        return view

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def demand_fit_and_valid(view: Chat, messages: Chat) -> None:
    """A view fits the window, is no worse than the host's list, and ends with it."""
    form, estimator = OpenAIChatFormat(), CharacterEstimator()
    pieces = [piece for message in view for piece in form.read(message)]
    assert sum(map(estimator.estimate_message_tokens, pieces)) <= WINDOW
    assert not worsened([piece for message in messages for piece in form.read(message)], pieces)
    assert view[0] == messages[0]
    assert view[-1] == messages[-1]
    assert len(view) < len(messages)


def with_ending(messages: Chat) -> Chat:
    """The same conversation, gone on by one request."""
    return [*messages, user("And what follows from that?")]


def check_two_workers(
    kind: str, where: str, *, ways: Sequence[str] = ("- by a", "- by b"), is_ahead: bool = False
) -> None:
    """Two workers compact one conversation at once; a third has edited it, a fourth comes late.

    All of them are in their summarizers at the same time, so none of them holds what another needs.

    Args:
        ways: What the two summarizers answer.
        is_ahead: Whether the second has seen a turn that the first has not.
    """
    messages: Chat = [system(), *talk(15)]
    further: Chat = [*messages, *talk(1, first=50)] if is_ahead else messages
    edited = [messages[0], user("Another beginning."), *messages[2:]]
    with Worker(kind, where) as a, Worker(kind, where) as b, Worker(kind, where) as c:
        c.begin(messages[:3])  # has asked the store before there was anything in it
        assert c.view() == messages[:3]
        a.begin(messages)
        a.demand_asked()
        b.begin(further)
        b.demand_asked()
        check_nothing_is_held(kind, where)
        c.begin(messages, "another session")
        c.demand_asked()
        assert "- by c" in texts(c.view("- by c"))
        first = [a.view(ways[0]), b.view(ways[1])]
        for view, whole in zip(first, (messages, further), strict=True):
            demand_fit_and_valid(view, whole)
            assert [way in texts(view) for way in dict.fromkeys(ways)].count(True) == 1
        later = with_ending(further)
        agreed = []
        for worker in (a, b, a):
            worker.begin(later)
            agreed.append(worker.view())
        assert agreed[0] == agreed[1] == agreed[2]
        assert any(agreed[0][:2] == view[:2] for view in first), "the record in force is one of the two"
        c.begin(later)
        assert c.view() == agreed[0], "a record of another worker's is looked for before a summary is asked for"
        c.begin(edited)
        c.demand_asked()
        others = c.view("- of the edited history")
        demand_fit_and_valid(others, edited)
        assert not any(way in texts(others) for way in ways)
        with Worker(kind, where) as late:
            late.begin(later)
            assert late.view() == agreed[0]
        a.begin(later)
        assert a.view() == agreed[0]


def check_nothing_is_held(kind: str, where: str) -> None:
    """While workers wait for summaries, others read and write the same session."""
    store: Any = open_store("redis" if kind == "redis.asyncio" else kind, where)
    store.append("shared", "probe", "not a record")
    assert "not a record" in store.load("shared")
    store.remove("shared", "probe")
    assert "not a record" not in store.load("shared")
    if hasattr(store, "close"):
        store.close()
