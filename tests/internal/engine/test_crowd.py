"""Many conversations at once on one controller, with fewer sessions in memory than conversations, and with more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crowd import CONVERSATIONS, crowd_with_file, crowd_with_memory


@pytest.mark.full
@pytest.mark.parametrize("limit", [32, 1_000])
def test_many_conversations_do_not_see_one_another(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compaction_hooks.session.controller.MAX_SESSIONS", limit)
    crowd = crowd_with_file(tmp_path / "records.db") if limit < CONVERSATIONS else crowd_with_memory()
    seen = crowd.run(rounds=2, calls=12, length=12)
    assert not seen.wrong
    assert seen.calls == CONVERSATIONS * 24
    assert crowd.summarizer.requests > CONVERSATIONS // 4
    assert seen.memory_growth < 1024 * 1024
