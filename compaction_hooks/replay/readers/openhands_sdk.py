"""Events of OpenHands' software-agent SDK (~/.openhands/conversations/*/events/*.json): each names its class under `kind`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compaction_hooks.replay.readers.builder import ConversationBuilder
from compaction_hooks.replay.readers.chat import add_message, calls_of, content_blocks
from compaction_hooks.replay.readers.lines import Line
from compaction_hooks.replay.readers.media import media_block
from compaction_hooks.replay.readers.values import blocks, fields, is_whole, items, one_or_more, result, text, thinking
from compaction_hooks.replay.recorded import Fields, RecordedSession

FORMAT_NAME: Final = "OpenHands events"

_TOLD: Final = "MessageEvent"
_ASKED: Final = "ActionEvent"
_SYSTEM: Final = "SystemPromptEvent"
_CONDENSED: Final = "Condensation"
_ANSWERED: Final[Mapping[str, str]] = {
    "ObservationEvent": "observation",
    "AgentErrorEvent": "error",
    "UserRejectObservation": "rejection_reason",
}
"""Events with the result of a tool call, and the field with its content."""


def is_event(value: Fields) -> bool:
    """Whether this is an event that belongs to a conversation."""
    return value.get("kind") in (_TOLD, _ASKED, _SYSTEM, _CONDENSED, *_ANSWERED) and "source" in value


def read(session_id: str, unit: str, events: Sequence[Line]) -> Iterator[RecordedSession]:
    """Yield the conversation of these events if a model answers in it."""
    builder = ConversationBuilder(unit)
    for event in events:
        if not _add(builder, event):
            builder.skipped.add_kind(text(event.value.get("kind")), event.number)
    if builder.has_answer:
        yield builder.session(session_id, FORMAT_NAME)


def _add(builder: ConversationBuilder, event: Line) -> bool:
    value, kind = event.value, text(event.value.get("kind"))
    if kind == _SYSTEM:
        parts = (fields(value.get(name)) for name in ("system_prompt", "dynamic_context"))
        builder.add_system([block for part in parts for block in content_blocks([part]) if part])
    elif kind == _CONDENSED:
        # No event has token counts, so kept events do not matter.
        builder.add_compaction(summary=text(value.get("summary")))
    elif kind == _ASKED:
        answer = [
            *_reasoning(value),
            *content_blocks(value.get("thought")),
            *calls_of({"tool_calls": [value.get("tool_call")]}),
        ]
        builder.add_answer(answer, key=text(value.get("llm_response_id")))
    elif kind == _TOLD:
        return _add_message(builder, event)
    elif kind in _ANSWERED:
        content = _result_content(value.get(_ANSWERED[kind]), value)
        block = result(value.get("tool_call_id"), content, is_error=kind != "ObservationEvent")
        builder.add_result(block, line=event.number)
    else:
        return False
    return True


def _add_message(builder: ConversationBuilder, event: Line) -> bool:
    message = fields(event.value.get("llm_message"))
    if message.get("content") is None or not is_whole(message["content"]):
        builder.skipped.add_kind("", event.number)

    content = _content([*one_or_more(message.get("content")), *items(event.value.get("extended_content"))])
    return add_message(
        builder, {**message, "content": content}, event.number, key=text(event.value.get("llm_response_id"))
    )


def _result_content(observed: object, value: Fields) -> object:
    """Return the text of an error, or the content of an observation."""
    if isinstance(observed, str):
        return observed
    observation = fields(observed)
    content = next((observation[name] for name in ("content", "output", "result") if observation.get(name)), observed)
    return _content([*one_or_more(content), *items(value.get("extended_content"))])


def _content(listed: Sequence[object]) -> list[Fields]:
    found: list[Fields] = []
    for each in listed:
        for block in [{"type": "text", "text": each}] if isinstance(each, str) else blocks([each]):
            images = (media_block("image", url=url) for url in items(block.get("image_urls")))
            found += content_blocks([block]) if block.get("type") != "image" else filter(None, images)
    return found


def _reasoning(value: Fields) -> list[Fields]:
    return blocks(value.get("thinking_blocks")) or thinking(text(value.get("reasoning_content")))
