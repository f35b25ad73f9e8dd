"""A summary that the provider itself put into the history: what it says is in our next summary."""

from __future__ import annotations

from typing import Any

import pytest

from compaction_hooks import CompactionController, SummaryRequest
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from tests.conversations import prose

NAMES = ["src/parser/tokens.py", "ISSUE-4711", "read_header", "a3f9c2e1d4b5", "https://example.org/spec", "port 8443"]
TEXT = "The user wants the parser mended.\n" + "\n".join(f"- {name} matters" for name in NAMES)


def conversation(block: dict[str, Any]) -> list[Any]:
    """Return a conversation that the provider compacted itself after ten messages."""

    def talk(start: int) -> list[Any]:
        return [
            message
            for n in range(start, start + 10)
            for message in ({"role": "user", "content": f"Part {n}?"}, {"role": "assistant", "content": prose(400)})
        ]

    said = {"type": "text", "text": "Going on with the parser."}
    return [*talk(0), {"role": "user", "content": "Go on."}, {"role": "assistant", "content": [block, said]}, *talk(10)]


def controller(**keywords: Any) -> CompactionController[Any]:
    return CompactionController(format=AnthropicFormat(), context_window=8_000, **keywords)


@pytest.mark.parametrize("more", [{}, {"signature": "EuYB"}, {"encrypted_content": "gAAA"}])
def test_the_default_summary_keeps_the_names_of_the_providers_summary(more: dict[str, str]) -> None:
    messages = conversation({"type": "compaction", "content": TEXT, **more})
    result = controller().compact_sync(messages, keep_recent_tokens=500)
    assert result.record is not None
    assert [name for name in NAMES if name not in result.record.rendered] == []


def test_a_summarizer_updates_the_providers_summary_and_reads_only_what_came_after_it() -> None:
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return "- all so far"

    controller(summarizer=summarize).compact_sync(
        conversation({"type": "compaction", "content": TEXT}), keep_recent_tokens=500
    )
    (request,) = asked
    assert request.previous_summary == TEXT
    assert request.transcript.startswith("[Assistant]: Going on with the parser.")
    assert "Part 9?" not in request.transcript
    assert "Part 10?" in request.transcript


@pytest.mark.parametrize("failed", [{"content": None}, {"content": ""}, {"content": None, "encrypted_content": "gAAA"}])
def test_a_compaction_that_failed_is_no_summary(failed: dict[str, Any]) -> None:
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return "- all so far"

    controller(summarizer=summarize).compact_sync(
        conversation({"type": "compaction", **failed}), keep_recent_tokens=500
    )
    assert asked[0].previous_summary is None
    assert "Part 0?" in asked[0].transcript


def test_a_summary_in_a_field_of_litellm_is_updated() -> None:
    """LiteLLM keeps Anthropic's blocks in a field of the chat message, and sends them in front of its content."""
    asked: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        asked.append(request)
        return "- all so far"

    messages = conversation({"type": "compaction", "content": "unused"})
    blocks = [{"type": "compaction", "content": TEXT, "signature": "EuYB"}]
    messages[21] = {
        "role": "assistant",
        "content": "Going on.",
        "provider_specific_fields": {"compaction_blocks": blocks},
    }
    chat = CompactionController(format=OpenAIChatFormat(), context_window=8_000, summarizer=summarize)
    chat.compact_sync(messages, keep_recent_tokens=500)
    assert asked[0].previous_summary == TEXT
    assert asked[0].transcript.startswith("[Assistant]: Going on.")
