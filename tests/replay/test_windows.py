import json
from pathlib import Path
from typing import Any

from compaction_hooks.replay import RecordedCompaction, SessionWindow, read_sessions, window_of
from tests.cases import folded
from tests.replay.samples import KINDS, session, short_conversation, write

OPUS = "claude-opus-4-6"
"""A model whose window of 1M agents use in part."""


def compacted(tokens: int, trigger: str) -> tuple[RecordedCompaction, ...]:
    return (RecordedCompaction(index=2, tokens_before=tokens, trigger=trigger),)


@folded(
    "fields, window",
    {
        "as the recording says": (
            {"window": 258_400, "model": OPUS},
            SessionWindow(258_400, "as the recording says"),
        ),
        "as the agent shows": (
            {"model": OPUS, "compactions": compacted(174_247, "auto")},
            SessionWindow(200_000, "since the recorded agent compacted by itself at 174k"),
        ),
        "a compaction by hand shows nothing": (
            {"model": OPUS, "compactions": compacted(60_000, "manual")},
            SessionWindow(1_000_000, f"that of {OPUS}"),
        ),
        "never more than the model's": (
            {"model": "gpt-4o", "compactions": compacted(130_000, "auto")},
            SessionWindow(128_000, "that of gpt-4o"),
        ),
        "an unknown model": ({"model": "m1"}, SessionWindow(200_000, "since that of m1 is unknown", is_known=False)),
        "no model": ({}, SessionWindow(200_000, "since the recording names no model", is_known=False)),
    },
)
def test_the_window_of_a_session(fields: dict[str, Any], window: SessionWindow) -> None:
    assert window_of(session(short_conversation(), **fields)) == window


def test_codex_records_its_window(tmp_path: Path) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == "codex")
    count = {"type": "event_msg", "payload": {"type": "token_count", "info": {"model_context_window": 258_400}}}
    rollout = write(tmp_path / "rollout.jsonl", kind.text(kind.records(2)), json.dumps(count))
    (recorded,) = read_sessions(rollout)
    assert recorded.window == 258_400
