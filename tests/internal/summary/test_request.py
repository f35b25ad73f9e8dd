"""The request to a summarizer, and the answers that are used."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from itertools import pairwise

import pytest

from compaction_hooks.messages import Message, Text, ToolCall, ToolResult
from compaction_hooks.summary.answers import refusal, unwrap_answer
from compaction_hooks.summary.prompts import SYSTEM_PROMPT
from compaction_hooks.summary.request import LazyRequest, Summary, SummaryKind, SummaryRequest
from tests.cases import folded


def quarter(text: str) -> int:
    return math.ceil(len(text) / 4)


def conversation(steps: int = 3, size: int = 10) -> list[Message]:
    messages = [Message(role="user", parts=(Text("The task."),))]
    for number in range(steps):
        messages.append(Message(role="assistant", parts=(ToolCall(f"c{number}", "run", json.dumps({"n": number})),)))
        messages.append(Message(role="tool", parts=(ToolResult(f"c{number}", f"result {number} " + "x" * size),)))
    return messages


def ask(
    messages: list[Message] | None = None,
    *,
    kind: SummaryKind = "history",
    previous_summary: str | None = None,
    focus: str | None = None,
    request_tokens: int = 100_000,
) -> LazyRequest:
    return LazyRequest(
        conversation() if messages is None else messages,
        kind=kind,
        previous_summary=previous_summary,
        focus=focus,
        max_tokens=100,
        request_tokens=request_tokens,
        estimate=quarter,
        deadline=7.5,
    )


# -- the question


def counted(seen: list[str]) -> Callable[[str], int]:
    """An estimate that keeps what it was asked about."""

    def estimate(text: str) -> int:
        seen.append(text)
        return quarter(text)

    return estimate


def lazily(seen: list[str]) -> LazyRequest:
    return LazyRequest(
        conversation(),
        kind="update",
        previous_summary="- earlier",
        focus=None,
        max_tokens=100,
        request_tokens=100_000,
        estimate=counted(seen),
    )


def test_a_transcript_is_made_at_its_first_use_and_once() -> None:
    """A summarizer that is no model reads the messages: nothing is rendered, escaped and measured for it."""
    seen: list[str] = []
    request = lazily(seen)
    assert refusal(Summary(text="- a fact " * 12), request, quarter) is None
    assert request.seen_messages == 7
    assert not seen
    assert "result 2" in request.prompt
    count = len(seen)
    assert request.transcript in request.prompt
    assert (request.omitted_items, len(seen)) == (0, count)


def replaced(request: SummaryRequest) -> SummaryRequest:
    return request.replace(focus=None)


def pickled(request: SummaryRequest) -> SummaryRequest:
    copy: SummaryRequest = pickle.loads(pickle.dumps(request))
    return copy


@pytest.mark.parametrize("copied", [replaced, pickled])
def test_a_request_that_was_not_looked_at_is_a_value_like_any_other(
    copied: Callable[[SummaryRequest], SummaryRequest],
) -> None:
    request = ask()
    copy = copied(ask())
    assert copy == request
    assert hash(copy) == hash(request)
    assert repr(copy) == repr(request)
    assert (copy.prompt, copy.transcript) == (request.prompt, request.transcript)


def test_a_request_has_all_fields_that_a_summarizer_needs() -> None:
    """No word about a model; the focus is there as text too; messages uncut for summarizers without a model."""
    messages = conversation(size=5000)
    request = ask(messages, kind="update", previous_summary="Old.", focus="the tests")
    assert request.system == SYSTEM_PROMPT
    assert f"<conversation>\n{request.transcript}\n</conversation>" in request.prompt
    assert "<previous-summary>\nOld.\n</previous-summary>" in request.prompt
    assert "<focus>\nthe tests\n</focus>" in request.prompt
    assert request.messages == tuple(messages)
    assert (request.previous_summary, request.focus, request.kind) == ("Old.", "the tests", "update")
    assert (request.max_tokens, request.deadline, request.omitted_items) == (100, 7.5, 0)


@pytest.mark.parametrize("request_tokens", [1_700, 3_000, 10_000])
@pytest.mark.parametrize("previous_summary", [None, "Old. " * 100])
def test_the_whole_request_keeps_the_bound(request_tokens: int, previous_summary: str | None) -> None:
    """Instructions, previous summary and focus count, not the transcript alone."""
    kind: SummaryKind = "update" if previous_summary else "history"
    request = ask(
        conversation(400, 300),
        kind=kind,
        previous_summary=previous_summary,
        focus="f" * 400,
        request_tokens=request_tokens,
    )
    size = quarter(request.system) + quarter(request.prompt)
    assert request_tokens * 0.85 < size <= request_tokens
    assert request.omitted_items == 801 - request.seen_messages > 0


def test_halves_the_transcript_until_nothing_is_left() -> None:
    """For a summarizer that overflows although the estimate said it would not; it ends."""
    request: LazyRequest | None = ask(conversation(400, 300))
    sizes, omitted = [], []
    while request is not None:
        sizes.append(quarter(request.transcript))
        omitted.append(request.omitted_items)
        assert "[User]: The task." in request.transcript
        assert f"<conversation>\n{request.transcript}\n</conversation>" in request.prompt
        assert len(request.messages) == 801
        request = request.halve()
    assert all(after <= before // 2 for before, after in pairwise(sizes))
    assert omitted == sorted(omitted)
    assert omitted[0] == 0 < omitted[3]
    assert len(sizes) > 5


# -- the answer

GOOD = "## Goal\nFix the bug.\n\n## Progress\n### Done\n- [x] Found it in a.py."


def why(answer: object, request: LazyRequest | None = None) -> str | None:
    return refusal(answer, request or ask(), quarter)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(GOOD, id="text"),
        pytest.param(Summary(text=GOOD), id="summary"),
        pytest.param(Summary(text=GOOD, finish_reason="stop"), id="stop"),
        pytest.param(Summary(text=GOOD, finish_reason="end_turn"), id="end_turn"),
        pytest.param(Summary(text=GOOD, finish_reason="FinishReason.STOP"), id="enum"),
        pytest.param(Summary(text=GOOD, finish_reason="something new"), id="unknown reason"),
        pytest.param("ok", id="short"),
        pytest.param("The person asked to wrap it in `<conversation>` tags.", id="mentions a tag"),
        pytest.param("The log says:\n[User]: hello\nand that is all.", id="one quoted label"),
        pytest.param("x" * 4 * 100, id="as long as allowed"),
    ],
)
def test_uses_a_good_answer(answer: str | Summary) -> None:
    assert why(answer) is None


@folded(
    "answer, says",
    {
        "empty tags": ("<summary>\n</summary>", "empty"),
        "template only": ("## Goal\n(none)\n\n## Progress\n### Done\n- (none)\n", "empty"),
        "Gemini": (Summary(text=GOOD, finish_reason="MAX_TOKENS"), "cut off"),
        "enum": (Summary(text=GOOD, finish_reason="FinishReason.MAX_TOKENS"), "cut off"),
        "Mistral": (Summary(text=GOOD, finish_reason="model_length"), "cut off"),
        "Responses": (Summary(text=GOOD, finish_reason="max_output_tokens"), "cut off"),
        "incomplete": (Summary(text=GOOD, finish_reason="incomplete"), "cut off"),
        "window": (Summary(text=GOOD, finish_reason="model_context_window_exceeded"), "cut off"),
        "error text": (Summary(text=GOOD, finish_reason="error"), "withheld"),
        "refusal": (Summary(text=GOOD, finish_reason="refusal"), "withheld"),
        "finish reason": (Summary(text=GOOD, finish_reason="tool_use"), "tool"),
        "over-long": ("y" * 4 * 101, "101 tokens"),
        "goes on": ("[Assistant]: I will fix it.\n\n[User]: Thanks.", "continues"),
        "echoes a tag": (f"<conversation>\n{GOOD}", "repeats"),
    },
)
def test_refuses_an_answer_that_is_no_summary(answer: object, says: str) -> None:
    """`tests/faults/test_summarizer_faults.py` has more of them, through a whole run."""
    reason = why(answer)
    assert reason is not None
    assert says in reason
    assert "Fix the bug" not in reason


def test_refuses_an_echo_of_the_instructions() -> None:
    asked = ask()
    assert "repeats" in (why(asked.prompt[-390:], asked) or "")


@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param(f"  {GOOD}\n\n", id="blank space"),
        pytest.param(f"<summary>\n{GOOD}\n</summary>", id="tags"),
        pytest.param(f"<summary>{GOOD}", id="unclosed tag"),
        pytest.param(f"Here is the summary:\n\n<summary>\n{GOOD}\n</summary>", id="introduction"),
        pytest.param(f"<summary>\n{GOOD}\n</summary>\n\nLet me know if you need more.", id="closing remark"),
        pytest.param(f"```markdown\n{GOOD}\n```", id="fence"),
        pytest.param(f"```\n{GOOD}\n```", id="plain fence"),
        pytest.param(f"```md\n<summary>\n{GOOD}\n</summary>\n```", id="fenced tags"),
        pytest.param(f"<think>\nhm\n</think>\n\n{GOOD}", id="think"),
        pytest.param(f"<analysis>a</analysis>\n<summary>\n{GOOD}\n</summary>", id="analysis"),
        pytest.param(f"<thinking>a</thinking><reasoning>b</reasoning>{GOOD}", id="two blocks"),
        pytest.param(f"hm\nwell\n</think>\n\n{GOOD}", id="think opened by the chat template"),
    ],
)
def test_removes_wrappers_of_models_around_a_summary(wrapped: str) -> None:
    assert unwrap_answer(wrapped).text == GOOD
    assert why(wrapped) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Parse `<think>` and\n`</think>` at the start.", id="mentions reasoning tags"),
        pytest.param("```python\nx = 1\n```", id="code"),
        pytest.param("Run:\n```\nls\n```", id="ends with a fence"),
        pytest.param("It uses <summary> tags.", id="mentions a tag"),
    ],
)
def test_leaves_the_summary_itself_alone(text: str) -> None:
    assert unwrap_answer(text).text == text


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        pytest.param(" " * 200_000 + "x", "x", id="spaces"),
        pytest.param("x" + " \n" * 100_000 + "x", None, id="blank lines"),
        pytest.param("<think>" * 30_000 + "x", "", id="opening tags"),
        pytest.param("a </think>" * 30_000, None, id="closing tags"),
        pytest.param("<summary>" + "</summary>" * 9_000 + "\nx\nx", "</summary>" * 9_000 + "\nx\nx", id="summary tags"),
        pytest.param("```\n" * 50_000 + "x", None, id="fences"),
    ],
)
def test_judges_long_answers_in_linear_time(text: str, rest: str | None) -> None:
    """Patterns that look back and forth would take hours for these. None: the text stays as it is."""
    assert unwrap_answer(text).text == (text.strip() if rest is None else rest)
    assert rest == "x" or why(text) is not None
