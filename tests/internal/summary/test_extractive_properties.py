"""What must hold of every summary, whatever the conversation and the summary before it."""

from __future__ import annotations

import json
from typing import Literal

import pytest

pytest.importorskip("hypothesis")

from hypothesis import example, given
from hypothesis import strategies as st

from compaction_hooks.digest.outline import REQUESTS, parse
from compaction_hooks.digest.statements import OLD_REQUEST_CHARS
from compaction_hooks.harness import is_foreign_summary, is_request, strip_harness
from compaction_hooks.messages import Message, Role, Text, ToolCall, ToolResult, Usage
from compaction_hooks.summary.answers import refusal
from compaction_hooks.summary.extractive import ExtractiveSummarizer
from compaction_hooks.summary.request import Summary
from compaction_hooks.text.escaping import neutralize
from tests.internal.summary.test_extractive import TOKENS, request
from tests.strategies import examples

FRAGMENTS = st.sampled_from(
    [
        "fix the parser", "never use eval", "src/a.py", "user_id: ab_12", "## Goal", "### Done", "- [x] bash(ls) -> ok (x3)",
        "[User]: hi", "</request>", "<request>", "<system-reminder>", "<conversation>", "```", "**Note:**", "1. Next Steps:",
        "3 more steps, not listed: act 2 (A1, B2); read 1", "Error: no", "你好，朋友。", "《红字》", "🙂\u200d🙂", "\ud800", "\n",
        "\r\n", "\x00", " -> ", "(none)", "[... 12 characters left out ...]", "continue", "x" * 300, '{"id": "Q7"}', "- ", "[ ] a",
    ]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS | st.text(max_size=20), max_size=8).map(" ".join)
ROLES: tuple[Role | Literal["step"], ...] = ("user", "assistant", "system", "step", "other")
NAMES = st.sampled_from(["bash", "read_file", "edit", "cancel_order", "TodoWrite", "mcp__x__act", "f (x)", ""])
ARGUMENTS = st.one_of(
    st.dictionaries(
        st.sampled_from(["command", "path", "content", "order_id", "todos", "status", "subject"]), TEXTS
    ).map(json.dumps),
    st.just('{"todos": [{"content": "a", "status": "pending"}, {"content": "b", "status": "done"}]}'),
    TEXTS,
)


@st.composite
def messages(draw: st.DrawFn) -> tuple[Message, ...]:
    made: list[Message] = []
    for number in range(draw(st.integers(0, 8))):
        role: Role | Literal["step"] = draw(st.sampled_from(ROLES))
        if role == "step":
            call = ToolCall(str(number), draw(NAMES), draw(ARGUMENTS))
            made.append(Message(role="assistant", parts=(Text(draw(TEXTS)), call)))
            if draw(st.booleans()):
                result = ToolResult(str(number), draw(TEXTS), is_error=draw(st.booleans()))
                made.append(Message(role="tool", parts=(result,)))
        else:
            made.append(Message(role=role, parts=(Text(draw(TEXTS)),), is_summary=draw(st.booleans())))
    return tuple(made)


@given(messages(), st.none() | TEXTS, st.integers(0, 600), st.none() | TEXTS)
@examples(300)
def test_a_summary_is_accepted_by_its_caller_or_empty(
    said: tuple[Message, ...], previous: str | None, max_tokens: int, focus: str | None
) -> None:
    asked = request(said, previous, max_tokens=max_tokens, focus=focus, kind="update")
    answer = ExtractiveSummarizer()(asked)
    assert TOKENS(answer.text) <= max_tokens
    assert answer == Summary(text=answer.text, usage=Usage(input_tokens=0), finish_reason="stop", is_by_rule=True)
    assert refusal(answer, asked, TOKENS) in (None, "the summary is empty")
    assert ExtractiveSummarizer()(asked) == answer


@example([(), (Message(role="user", parts=(Text("</request> -  fix the parser"),)),), ()], 91)
@example([(Message(role="user", parts=(Text("Mend\x1f!\x9b@  the parser"),)),), (), ()], 60)
@given(st.lists(messages(), min_size=3, max_size=6), st.integers(60, 400))
@examples(60)
def test_round_after_round_it_stays_within_bounds_and_repeats_no_line(
    rounds: list[tuple[Message, ...]], max_tokens: int
) -> None:
    text = ""
    for said in rounds:
        text = ExtractiveSummarizer()(request(said, text or None, max_tokens=max_tokens)).text
        assert TOKENS(text) <= max_tokens
        items = [(item.section, item.text) for item in parse(text)]
        assert len(items) == len(set(items))


@given(st.lists(TEXTS.map(str.strip).filter(lambda text: len(text) < OLD_REQUEST_CHARS), min_size=1, max_size=5))
@examples(200)
def test_requests_are_read_back_word_for_word(texts: list[str]) -> None:
    said = tuple(Message(role="user", parts=(Text(text),)) for text in texts)
    step = (Message(role="assistant", parts=(ToolCall("1", "bash", '{"command": "ls"}'),)),)
    text = ExtractiveSummarizer()(request(said + step, max_tokens=20_000)).text
    cleaned = [strip_harness(one) for one in texts]
    wanted = [one for one in cleaned if is_request(one) and not is_foreign_summary(one)]
    latest = list(dict.fromkeys(reversed(wanted)))[::-1]
    assert [item.text for item in parse(text) if item.section in REQUESTS] == [neutralize(one) for one in latest]
