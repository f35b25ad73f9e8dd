"""Requests that make the server compact, for the tests of every adapter: only overflows are recovered from."""

from collections.abc import Iterator
from typing import Any

from compaction_hooks import CompactionSettings, CompactionSkipped
from compaction_hooks.events import CompactionEvent
from tests.provider import Side

COMPACTS: dict[str, Any] = {"edits": [{"type": "compact_20260112"}]}
"""Anthropic's `context_management`."""
CLEARS: dict[str, Any] = {"edits": [{"type": "clear_tool_uses_20250919"}]}
"""A `context_management` that clears results, and does not compact."""
OPENAI_COMPACTS = [{"type": "compaction", "compact_threshold": 100_000}]
"""OpenAI's `context_management`."""
WINDOW = 40_000
SETTINGS = CompactionSettings(trigger_tokens=8_000)
"""The conversation fits the window, and is above the threshold."""

NAMES = ("src/parser/tokens.py", "ISSUE-4711", "read_header", "a3f9c2e1d4b5", "https://example.org/spec", "port 8443")
READABLE = {"type": "compaction", "content": "\n".join(f"- {name} matters" for name in NAMES)}
"""Anthropic's own summary."""
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA" + "sealed" * 40}
"""OpenAI's own summary."""


def three_requests(side: Side) -> Iterator[int]:
    """Yield the number of each of three requests; the provider's window is too small for the last one."""
    for number in range(3):
        side.window = 7_000 if number == 2 else 200_000
        yield number


def check_left_to_server(side: Side, events: list[CompactionEvent], option: str) -> None:
    """Check that three requests were sent whole, the last one again after an overflow; and that this was reported once."""
    assert [request.status for request in side.requests] == [200, 200, 400, 200]
    first, second, third, recovered = (request.input_tokens for request in side.requests)
    assert recovered < first < second < third
    skipped = [event.why for event in events if isinstance(event, CompactionSkipped)]
    assert skipped == [f"left to the server ({option})"]
