"""Sessions: found again by their id, let go, closed; and no log line holds words of a conversation."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

import compaction_hooks.session.controller
from tests.conversations import (
    Chat,
    Scripted,
    above_threshold,
    controller,
    step,
    system,
    talk,
    user,
)

# -- stores


class Broken:
    """A store that is down."""

    def load(self, session_id: str) -> Sequence[str]:
        raise OSError("no such host")

    def append(self, session_id: str, record_id: str, record: str) -> None:
        raise OSError("disk full")

    def remove(self, session_id: str, record_id: str) -> None:
        raise OSError("disk full")


# -- many conversations


def test_a_session_is_the_same_each_time_it_is_asked_for() -> None:
    hooks = controller(8_192)
    assert hooks.session("a") is hooks.session("a")
    assert hooks.session("a") is not hooks.session("b")


def test_the_least_recently_used_session_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_hooks.session.controller, "MAX_SESSIONS", 2)
    hooks = controller(8_192, summarizer=Scripted())
    hooks.session("a").transform_context_sync(above_threshold())
    hooks.session("b")
    hooks.session("c")
    assert hooks.session("a").export_records() == []


def test_a_session_that_is_still_held_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_hooks.session.controller, "MAX_SESSIONS", 1)
    hooks = controller(8_192)
    held = hooks.session("a")
    hooks.session("b")
    assert hooks.session("a") is held


def test_close_frees_a_conversation() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    hooks.session("a").compact_sync(above_threshold())
    hooks.close("a")
    assert hooks.session("a").export_records() == []


# -- events


def test_no_log_line_holds_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    secret = "the secret word is xyzzy"
    messages = [user(secret), *talk(20)]
    with caplog.at_level(logging.DEBUG, "compaction_hooks"):
        controller(8_192, summarizer=Scripted(ConnectionError("down"))).transform_context_sync(messages)
        controller(8_192).transform_context_sync(messages)
    assert caplog.records
    assert "xyzzy" not in caplog.text


def test_steps_added_one_by_one_are_compacted_like_a_whole() -> None:
    hooks = controller(8_192, summarizer=Scripted())
    messages: list[Chat] = [system(), user("go")]
    for n in range(60):
        messages = [*messages, *step(n, 200)]
        view = hooks.transform_context_sync(messages)
        assert view[-1] is messages[-1]
