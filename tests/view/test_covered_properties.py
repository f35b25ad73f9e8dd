"""Everything that is not in a view is covered, for every conversation, well-formed or broken."""

from collections.abc import Sequence
from contextlib import suppress

import pytest

from tests.conversations import Chat

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compaction_hooks import CompactionSession, CompactionSettings, ContextOverflowError
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message, Text, ToolResult
from tests.conversations import Scripted, controller
from tests.strategies import examples, histories, hostile_histories, openai_chats

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
CHAT = OpenAIChatFormat()

conversations = openai_chats(st.one_of(histories(most_turns=6), hostile_histories(most_beats=25))).filter(bool)


def texts_of(messages: Sequence[Chat]) -> list[str]:
    """Return the text of each part that a covered part may have."""
    read: list[Message] = [piece for message in messages for piece in CHAT.read(message)]
    said = [part.text for piece in read for part in piece.parts if isinstance(part, Text | ToolResult)]
    return [text for text in [*said, *(call.arguments for piece in read for call in piece.calls)] if text]


def demand_all(messages: list[Chat], view: Sequence[Chat], session: CompactionSession[Chat]) -> set[str]:
    """Demand that each text is in the view or covered; return the handles."""
    shown, covered = {*texts_of(view)}, session.covered(messages)
    gone = [text for text in texts_of(messages) if text not in shown]
    assert [text for text in gone if not any(text in part.text for part in covered)] == []
    assert all(covered.read(part.handle).part is part for part in covered)
    return {part.handle for part in covered}


@settings(examples(60), suppress_health_check=SLOW)
@given(conversations, st.sampled_from([2_048, 4_096, 8_192]), st.integers(100, 2_000), st.booleans())
def test_all_that_is_not_in_the_view_is_covered(messages: list[Chat], window: int, keep: int, has_tool: bool) -> None:
    chosen = CompactionSettings(keep_user_tokens=0)  # else a message of the user may come back into the view
    session = controller(window, summarizer=Scripted("- facts"), settings=chosen).session("thread", CHAT)
    if has_tool:
        session.recall_tool(lambda: messages)
    with suppress(ContextOverflowError):
        before = demand_all(messages, session.transform_context_sync(messages), session)
        view = session.compact_sync(messages, keep_recent_tokens=keep).messages
        assert before <= demand_all(messages, view, session)
