"""A summary that the provider itself put into the history: what it says is in our next summary."""

from typing import Any

import pytest

from compaction_hooks import CompactionController
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from tests.conversations import Scripted, prose

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
    asked = Scripted()
    controller(summarizer=asked).compact_sync(
        conversation({"type": "compaction", "content": TEXT}), keep_recent_tokens=500
    )
    (request,) = asked.requests
    assert request.previous_summary == TEXT
    assert request.transcript.startswith("[Assistant]: Going on with the parser.")
    assert "Part 9?" not in request.transcript
    assert "Part 10?" in request.transcript


@pytest.mark.parametrize("failed", [{"content": None}, {"content": ""}, {"content": None, "encrypted_content": "gAAA"}])
def test_a_compaction_that_failed_is_no_summary(failed: dict[str, Any]) -> None:
    asked = Scripted()
    controller(summarizer=asked).compact_sync(conversation({"type": "compaction", **failed}), keep_recent_tokens=500)
    assert asked.requests[0].previous_summary is None
    assert "Part 0?" in asked.requests[0].transcript


def conversation_of_litellm(block: dict[str, Any]) -> list[Any]:
    """LiteLLM keeps Anthropic's blocks in a field of the chat message, and sends them in front of its content."""
    messages, fields = conversation(block), {"provider_specific_fields": {"compaction_blocks": [block]}}
    return [*messages[:21], {"role": "assistant", "content": "Going on.", **fields}, *messages[22:]]


def test_a_summary_in_a_field_of_litellm_is_updated() -> None:
    asked = Scripted()
    messages = conversation_of_litellm({"type": "compaction", "content": TEXT, "signature": "EuYB"})
    chat = CompactionController(format=OpenAIChatFormat(), context_window=8_000, summarizer=asked)
    chat.compact_sync(messages, keep_recent_tokens=500)
    assert asked.requests[0].previous_summary == TEXT
    assert asked.requests[0].transcript.startswith("[Assistant]: Going on.")


def test_words_before_the_summary_in_its_own_message_are_covered_by_it() -> None:
    asked = Scripted()
    messages = conversation({"type": "compaction", "content": TEXT})
    messages[21]["content"].insert(0, {"type": "text", "text": "Before."})
    controller(summarizer=asked).compact_sync(messages, keep_recent_tokens=500)
    assert "Before." not in asked.requests[0].transcript
    assert asked.requests[0].transcript.startswith("[Assistant]: Going on with the parser.")


def test_files_touched_before_the_summary_stay_in_the_lists_of_ours() -> None:
    messages = conversation({"type": "compaction", "content": TEXT})
    use = {"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {"path": "src/old.py", "content": "1"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    messages[2:2] = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    made = controller().compact_sync(messages, keep_recent_tokens=500)
    assert made.record is not None
    assert made.record.modified_files == ("src/old.py",)


def test_messages_before_an_unsigned_summary_stay_in_the_list_and_weigh_nothing() -> None:
    """Anthropic ignores them, but reasoning after them is bound to the list that was sent."""
    session = controller().session("one")
    block = {"type": "compaction", "content": "Short."}
    messages = conversation(block)
    assert session.transform_context_sync(messages) is messages
    tokens = session.state().context_tokens or 0
    session.transform_context_sync(messages[21:])
    assert tokens == session.state().context_tokens

    long = [*messages[:20], *messages]
    assert session.transform_context_sync(long) is long, "more messages before the summary make no compaction due"
    cleared = session.transform_context_sync([*long, *messages[-20:], *messages[-20:]])
    assert len(cleared) < len(long), "more messages after it do"
    assert block not in [part for message in cleared for part in message["content"]]


def test_only_pins_of_messages_before_a_signed_summary_are_sent_and_behind_it() -> None:
    """Anthropic refuses messages before a signed summary."""
    messages = conversation({"type": "compaction", "content": TEXT, "signature": "EuYB"})[:22]
    assert controller().transform_context_sync(messages) == [messages[21], messages[20]]


class HeaderMissingError(Exception):
    """Anthropic's refusal of a block on a request without its beta header."""

    status_code = 400

    def __init__(self) -> None:
        super().__init__("messages.21.content.0: `compaction` is not one of the expected content block types")


def test_a_refused_summary_is_sent_as_text() -> None:
    sent: list[list[Any]] = []

    def send(view: list[Any]) -> str:
        sent.append(view)
        if "'compaction'" in str(view):
            raise HeaderMissingError
        return "Done."

    messages = conversation({"type": "compaction", "content": TEXT, "signature": "EuYB"})
    session = controller().session("one")
    for _ in range(2):
        assert session.call_sync(messages, send) == "Done."
    assert len(sent) == 3
    assert [name for name in NAMES if name not in sent[-1][0]["content"]] == []
    assert sent[-1][1] == {"role": "assistant", "content": [{"type": "text", "text": "Going on with the parser."}]}
    assert sent[-1][2:] == messages[22:]


def test_a_model_of_another_provider_gets_the_text_of_litellms_field() -> None:
    messages = conversation_of_litellm({"type": "compaction", "content": TEXT})
    session = CompactionController(format=OpenAIChatFormat(), context_window=8_000).session("one")
    for accepted in ("anthropic/claude-opus-5", "an-alias-of-the-router"):
        assert session.transform_context_sync(messages, model=accepted) is messages
    view = session.transform_context_sync(messages, model="gpt-5")
    assert [name for name in NAMES if name not in view[0]["content"]] == []
    assert view[1]["content"] == "Going on."
    assert "compaction_blocks" not in str(view)
    assert view[2:] == messages[22:]
