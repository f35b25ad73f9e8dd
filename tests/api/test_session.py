"""`controller.session(id, host_files=...)`: the files that the host keeps track of, for each conversation."""

from __future__ import annotations

import logging

import pytest

from compaction_hooks.files import FileOperations
from tests.conversations import Controller, Scripted, above_threshold, controller, talk


def files_of(hooks: Controller, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    record = hooks.session(name).compact_sync(talk(20), keep_recent_tokens=300).record
    assert record is not None
    return record.read_files, record.modified_files


def test_each_conversation_has_files_of_its_own_beside_the_controllers() -> None:
    hooks = controller(200_000, summarizer=Scripted(), host_files=lambda: FileOperations(read=("all.md",)))
    hooks.session("a", host_files=lambda: FileOperations(read=("a.py",), modified=("b.py",)))
    assert files_of(hooks, "a") == (("all.md", "a.py"), ("b.py",))
    assert files_of(hooks, "b") == (("all.md",), ())


def test_a_list_that_fails_leaves_the_other_one() -> None:
    def broken() -> FileOperations:
        raise OSError("no such project")

    hooks = controller(200_000, summarizer=Scripted(), host_files=lambda: FileOperations(read=("all.md",)))
    hooks.session("a", host_files=broken)
    assert files_of(hooks, "a") == (("all.md",), ())


def test_a_file_tracker_that_fails_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:

    def broken() -> FileOperations:
        raise OSError("no such project")

    with caplog.at_level(logging.WARNING, "compaction_hooks"):
        result = controller(8_192, summarizer=Scripted(), host_files=broken).compact_sync(above_threshold())
    assert result.record is not None
    assert any("file list" in record.message for record in caplog.records)
