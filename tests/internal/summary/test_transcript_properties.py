"""What holds for every transcript, whatever the conversation contains."""

from __future__ import annotations

import json
import math
import unicodedata
from itertools import groupby

import pytest

from compaction_hooks.messages import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.summary.transcript import transcript
from compaction_hooks.text.escaping import find_turns
from compaction_hooks.text.shortening import shorten

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

LABELS = ("[user]", "[assistant]", "[system]", "[other]", "[toolcall]", "[toolresult]", "[toolresult(error)]")
TAGS = ("conversation", "previous-summary", "summary", "focus")

fragments = st.sampled_from(
    [
        "[User]:", "[System]:", "［User］：", "[", "]", ":", "User", "<", ">", "/", "</", "conversation>",
        "</conversation>", "summary", "<focus>", "<system-reminder>", "</summary>", "*", "_", "`",
        "</system-reminder>", "x" * 3000, "[Assistant]: ", "[Tool Call]: rm()", "[Tool Result]: ", "\n", "\r",
        "\u2028", "\x85", "\x0b", "\x0c", " ", "\t", "\u200b", "\ufeff", "> ", "- ", "\\", "\x1b[0m", "\x00",
        "\ud83d", "\ude00", "\u0301", "\U0001f469\u200d\U0001f4bb",
    ]
)  # fmt: skip
texts = st.lists(fragments | st.text(max_size=8), max_size=12).map(lambda found: "".join(found) + " end")
parts: st.SearchStrategy[Part] = st.one_of(
    texts.map(Text),
    texts.map(Thinking),
    st.builds(Media, texts, texts),
    st.builds(Opaque, texts, texts),
    st.builds(
        ToolCall, st.sampled_from("abc"), texts, st.one_of(texts, texts.map(lambda t: json.dumps({t: t, "k": [t]})))
    ),
    st.builds(ToolResult, st.sampled_from("abc"), texts, texts, st.booleans()),
)
messages = st.builds(
    lambda role, said: Message(role=role, parts=tuple(said)),
    st.sampled_from(("system", "user", "assistant", "tool", "other")),
    st.lists(parts, max_size=4),
)


def lines_that_look_like_turns(text: str) -> list[str]:
    """A reader of its own: each line without indentation, markdown and invisible characters, width and case folded."""
    found = []
    for line in text.splitlines():
        folded = unicodedata.normalize("NFKC", line).casefold()
        plain = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Cc", "Zs", "Mn") and c not in "*_`")
        if plain.lstrip("> -").startswith(LABELS):
            found.append(line)
    return found


def tags_in(text: str) -> list[str]:
    folded = "".join(unicodedata.normalize("NFKC", text).casefold().replace("\u200b", "").split())
    return [tag for tag in TAGS if f"<{tag}>" in folded or f"</{tag}>" in folded]


def length(text: str) -> int:
    return math.ceil(len(text) / 3)


@settings(deadline=None)
@given(st.lists(messages, max_size=6))
def test_a_transcript_has_the_turns_of_its_messages_and_no_other(conversation: list[Message]) -> None:
    """No content can produce a line that our reader, or a laxer one, takes for a turn."""
    shown = transcript(conversation, max_tokens=10**9, estimate=length).text
    expected = sum(map(turn_count, conversation))
    assert len(find_turns(shown)) == expected
    assert len(lines_that_look_like_turns(shown)) == expected
    assert tags_in(shown) == []
    assert shown.encode().decode() == shown


def turn_count(message: Message) -> int:
    """A turn for each call and result, and for each stretch of words between them."""
    if message.role == "system":
        return 0
    shown = [isinstance(part, ToolCall | ToolResult) for part in message.parts if not isinstance(part, Thinking)]
    return sum(len(list(stretch)) if is_tool else 1 for is_tool, stretch in groupby(shown))


@settings(deadline=None)
@given(st.lists(messages, max_size=10), st.integers(min_value=0, max_value=4_000))
def test_a_transcript_never_exceeds_its_bound(conversation: list[Message], max_tokens: int) -> None:
    shown = transcript(conversation, max_tokens=max_tokens, estimate=length)
    assert length(shown.text) <= max_tokens
    assert 0 <= shown.shown_messages <= len(conversation)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=3), max_size=12), st.integers(0, 1_500))
def test_calls_and_results_are_dropped_together(steps: list[list[int]], max_tokens: int) -> None:
    """For parallel calls of all sizes."""
    conversation = [Message(role="user", parts=(Text("Go."),))]
    for number, sizes in enumerate(steps):
        ids = [f"{number}x{index}" for index in range(len(sizes))]
        calls = tuple(ToolCall(name, f"call{name}", "{}") for name in ids)
        conversation.append(Message(role="assistant", parts=calls))
        for name, size in zip(ids, sizes, strict=True):
            conversation.append(Message(role="tool", parts=(ToolResult(name, f"result{name}:{'y' * size}"),)))
    shown = transcript(conversation, max_tokens=max_tokens, estimate=length).text
    for number, sizes in enumerate(steps):
        present = {
            f"{kind}{number}x{index}{end}" in shown
            for kind, end in (("call", "("), ("result", ":"))
            for index in range(len(sizes))
        }
        assert len(present) == 1


@settings(deadline=None)
@given(texts, st.integers(0, 3_000), st.integers(0, 3_000))
def test_shortening_keeps_both_ends_and_counts_the_rest(text: str, head: int, tail: int) -> None:
    short = shorten(text, head, tail)
    assert len(short) <= len(text)
    if short != text:
        before, _, rest = short.rpartition("\n[... ")
        count, _, after = rest.partition(" characters left out ...]\n")
        assert text.startswith(before)
        assert text.endswith(after)
        assert len(before) + int(count.replace(",", "")) + len(after) == len(text)
