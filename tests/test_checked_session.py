"""The checker detects each broken promise: a checker that cannot fail proves nothing."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Unpack, cast

import pytest

from compaction_hooks import CallOptions, CompactionFinished, CompactionSession, Summarizer, SummaryRequest
from compaction_hooks.events import CompactionEvent, EventHandler
from compaction_hooks.formats import (
    AnthropicFormat,
    BedrockConverseFormat,
    GeminiFormat,
    OpenAIChatFormat,
    OpenAIResponsesFormat,
)
from compaction_hooks.testing import BrokenPromise, check_view
from compaction_hooks.testing.promises import Promise
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import folded
from tests.checked_session import CheckedSession
from tests.conversations import Chat, Scripted, assistant, call, controller, prose, steps, system, talk, tool, user
from tests.paid_summaries import AskedSummaries

FORMAT = OpenAIChatFormat()
SUMMARY = {"role": "user", "content": "[Conversation summary]\nwhat was"}
TEXT = str(SUMMARY["content"])

SYSTEM, FIRST, LAST = system(), user("Begin."), user("And now?")
OLD = [FIRST, *steps(3), *talk(2)]
NEW = [assistant("Looking.", call("n1", path="x"), call("n2", path="y")), tool("n1", prose(300)), tool("n2", "y")]
LIST = [SYSTEM, *OLD, LAST, *NEW]


def check(view: Sequence[Chat], messages: Sequence[Chat] = LIST) -> None:
    check_view(messages, view, format=FORMAT, summaries=[TEXT])


def broken(view: Sequence[Chat], messages: Sequence[Chat] = LIST) -> Promise:
    with pytest.raises(BrokenPromise) as caught:
        check(view, messages)
    return caught.value.promise


@folded(
    "view",
    {
        "the list itself": LIST,
        "system, summary, suffix": [SYSTEM, SUMMARY, LAST, *NEW],
        "with a pin": [SYSTEM, SUMMARY, FIRST, LAST, *NEW],
        "with a shortened result": [SYSTEM, SUMMARY, LAST, NEW[0], {**NEW[1], "content": "less"}, NEW[2]],
    },
)
def test_a_view_that_keeps_every_promise_passes(view: list[Chat]) -> None:
    check(view)


@folded(
    "view, promise",
    {
        "the system message is missing": ([SUMMARY, LAST, *NEW], "system messages"),
        "the system message is another": ([system("Be bad."), SUMMARY, LAST, *NEW], "system messages"),
        "the current request is missing": ([SYSTEM, SUMMARY, *NEW], "current request"),
        "the current request is a copy": ([SYSTEM, SUMMARY, user("And now?"), *NEW], "current request"),
        "a result is missing": ([SYSTEM, SUMMARY, LAST, *NEW[:2]], "valid"),
        "a call is missing": ([SYSTEM, SUMMARY, LAST, *NEW[1:]], "valid"),
        "the newest messages are missing": ([SYSTEM, SUMMARY, LAST], "same objects"),
        "an invented message": ([SYSTEM, user("made up"), LAST, *NEW], "same objects"),
        "a pin before the summary": ([SYSTEM, FIRST, SUMMARY, LAST, *NEW], "same objects"),
        "pins in another order": ([SYSTEM, SUMMARY, OLD[7], FIRST, LAST, *NEW], "same objects"),
    },
)
def test_a_view_that_breaks_a_promise_is_reported(view: list[Chat], promise: Promise) -> None:
    assert broken(view) == promise


def test_a_history_that_was_broken_before_is_no_breach() -> None:
    dangling = [user("Begin."), assistant(None, call("d", path="x")), user("Never mind.")]
    check(dangling, dangling)


# -- reasoning

ASK: list[dict[str, Any]] = [{"role": "user", "content": "Read a."}]
THOUGHT = [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "redacted_thinking", "data": "y"}]
READ = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
TOLD: dict[str, Any] = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "ok"}]}
ITEMS: list[dict[str, Any]] = [
    *ASK,
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "read", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "ok"},
]


def claude(*blocks: Any) -> list[Any]:
    return [*ASK, {"role": "assistant", "content": [*blocks, READ]}, TOLD]


SHOWN: list[Any] = [
    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "x"}}},
    {"reasoningContent": {"redactedContent": b"y"}},
]


def converse(*blocks: Any) -> list[Any]:
    call, result = {"toolUseId": "a", "name": "read", "input": {}}, {"toolUseId": "a", "content": [{"text": "ok"}]}
    said = {"role": "assistant", "content": [*blocks, {"toolUse": call}]}
    return [
        {"role": "user", "content": [{"text": "Read a."}]},
        said,
        {"role": "user", "content": [{"toolResult": result}]},
    ]


@folded(
    "format, messages, view, model, is_broken",
    {
        "all reasoning of a message left out": (
            AnthropicFormat(),
            claude(*THOUGHT),
            claude(),
            "claude-opus-5-5",
            False,
        ),
        "a message of reasoning alone left out": (
            AnthropicFormat(),
            [*claude(), {"role": "assistant", "content": THOUGHT}, *ASK],
            [*claude(), *ASK],
            "claude-opus-5-5",
            False,
        ),
        "half of it": (AnthropicFormat(), claude(*THOUGHT), claude(THOUGHT[0]), "claude-opus-5-5", True),
        "half of it on Bedrock": (
            BedrockConverseFormat(),
            converse(*SHOWN),
            converse(SHOWN[0]),
            "anthropic.claude-opus-5-5-v1:0",
            True,
        ),
        "an item without its reasoning": (OpenAIResponsesFormat(), ITEMS, [ITEMS[0], *ITEMS[2:]], "gpt-5.6", True),
    },
)
def test_reasoning_is_whole_or_left_out(format: Any, messages: Any, view: Any, model: str, is_broken: bool) -> None:
    with pytest.raises(BrokenPromise, match=r"valid: .*reasoning") if is_broken else nullcontext():
        check_view(messages, view, format=format, model=model)


def test_reasoning_that_deepseek_needs_is_reported_as_missing() -> None:
    def said(step: str, **fields: str) -> list[Any]:
        return [{**assistant(None, call(step)), **fields}, tool(step, "ok")]

    messages = [*ASK, *said("a", reasoning_content="hm"), *said("b", reasoning_content="")]
    check_view(messages, messages, format=FORMAT, model="deepseek-reasoner")
    with pytest.raises(BrokenPromise, match="missing_reasoning"):
        check_view(messages, [*messages[:3], *said("b")], format=FORMAT, model="deepseek-reasoner")


def test_a_signature_that_gemini_needs_is_reported_as_missing() -> None:
    call = {"functionCall": {"name": "read", "args": {}}}
    told = {"functionResponse": {"name": "read", "response": {"result": "ok"}}}
    request, result = {"role": "user", "parts": [{"text": "Read a."}]}, {"role": "user", "parts": [told]}
    signed = {"role": "model", "parts": [{**call, "thoughtSignature": "sealed"}]}
    messages = [request, signed, result]
    check_view(messages, messages, format=GeminiFormat(), model="gemini-3-pro")
    untied = [request, GeminiFormat().untie(signed), result]
    check_view(messages, untied, format=GeminiFormat(), model="gemini-3-pro")
    with pytest.raises(BrokenPromise, match="unsigned_call"):
        check_view(
            messages, [request, {"role": "model", "parts": [call]}, result], format=GeminiFormat(), model="gemini-3-pro"
        )


# -- words around a result

OLDER, NOW = "Older words, which may be shortened.", "And now, which may not?"


@folded(
    "said, promise",
    {
        "word for word": ([OLDER, NOW], None),
        "older words shortened": (["[9 characters left out]", NOW], None),
        "older words left out": ([NOW], None),
        "the request shortened": ([OLDER, "[9 characters left out]"], "current request"),
        "made up words": (["Made up.", NOW], "same objects"),
        "more words": ([OLDER, NOW, "Made up."], "same objects"),
    },
)
def test_words_on_both_sides_of_a_result_are_read_as_one_piece_without_it(
    said: list[str], promise: Promise | None
) -> None:
    def words(*texts: str) -> list[Any]:
        return [{"type": "text", "text": text} for text in texts]

    answers: list[Any] = [{"role": "assistant", "content": [{**READ, "id": "b"}]}]
    answers.append({"role": "user", "content": [{**TOLD["content"][0], "tool_use_id": "b"}]})
    asked = {"role": "user", "content": [*words(OLDER), *TOLD["content"], *words(NOW)]}
    messages = [*claude()[:2], asked, *answers]
    view = [SUMMARY, {"role": "user", "content": words(*said)}, *answers]
    with pytest.raises(BrokenPromise) if promise else nullcontext() as caught:
        check_view(messages, view, format=AnthropicFormat(), summaries=[TEXT])
    assert (caught.value.promise if caught else None) == promise


# -- a session that lies

Answer = Callable[[list[Chat], list[Chat], EventHandler], list[Chat]]
"""Returns a false view of a list, from the true view and a handler of events."""


class Lying:
    def __init__(self, answer: Answer, summarizer: Summarizer) -> None:
        self._session = controller(4_096, summarizer=summarizer).session("lying")
        self._answer = answer

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    def transform_context_sync(self, messages: list[Chat], **options: Unpack[CallOptions]) -> list[Chat]:
        hear = options.get("on_event")
        assert hear is not None
        return self._answer(messages, self._session.transform_context_sync(messages, **options), hear)


def find_broken(answer: Answer, *lists: list[Chat], summarizer: Summarizer | None = None) -> Promise:
    """Return the promise that is broken if these lists get this view."""
    asked = AskedSummaries(summarizer or Scripted("- facts"))
    session = cast("CompactionSession[Chat]", Lying(answer, asked))  # it delegates all other methods to a real session
    checked = CheckedSession(session, FORMAT, size=size, asked=asked)
    *first, last = lists
    for messages in first:
        checked.transform_context(messages)
    with pytest.raises(BrokenPromise) as caught:
        checked.transform_context(last)
    return caught.value.promise


def size(view: Sequence[Chat]) -> int:
    estimate = CharacterEstimator().estimate_message_tokens
    return sum(estimate(piece) for message in view for piece in FORMAT.read(message))


SHORT = [user("Begin."), assistant("Begun.")]
LONG = [user("Read them all."), *steps(14)]


def finish_event(tokens_before: int, tokens_after: int) -> CompactionFinished:
    (made,) = (event for event in _true_events() if isinstance(event, CompactionFinished))
    return replace(made, tokens_before=tokens_before, tokens_after=tokens_after)


def _true_events() -> list[CompactionEvent]:
    events: list[CompactionEvent] = []
    controller(4_096, events=events).transform_context_sync(LONG)
    return events


def test_a_list_that_is_changed_is_reported() -> None:
    def appending(messages: list[Chat], view: list[Chat], hear: object) -> list[Chat]:
        messages.append(user("more"))
        return view

    assert find_broken(appending, list(SHORT)) == "host list unchanged"


def test_a_message_that_is_changed_is_reported() -> None:
    def writing(messages: list[Chat], view: list[Chat], hear: object) -> list[Chat]:
        cast("dict[str, object]", messages[0])["content"] = "Stop."
        return view

    assert find_broken(writing, [{**message} for message in SHORT]) == "host list unchanged"


def test_a_copy_of_a_list_that_was_never_compacted_is_reported() -> None:
    assert find_broken(lambda messages, view, hear: list(view), SHORT) == "same objects"


def test_a_list_that_does_not_fit_is_reported() -> None:
    assert find_broken(lambda messages, view, hear: messages, LONG) == "fits"


def test_a_second_answer_that_differs_is_reported() -> None:
    views: list[list[Chat]] = []

    def changing(messages: list[Chat], view: list[Chat], hear: object) -> list[Chat]:
        views.append(view)
        return view if len(views) == 1 else [*view[:-1], {**view[-1], "content": "another"}]

    assert find_broken(changing, LONG) == "deterministic"


@folded("tokens_after, promise", {"without gain": (950, "smaller"), "of the same list again": (500, "idempotent")})
def test_a_compaction_that_should_not_be_is_reported(tokens_after: int, promise: Promise) -> None:
    def boasting(messages: list[Chat], view: list[Chat], hear: EventHandler) -> list[Chat]:
        hear(finish_event(1_000, tokens_after))
        return view

    assert find_broken(boasting, SHORT) == promise


def test_compactions_without_growth_between_are_reported() -> None:
    messages = talk(2)
    tokens = size(messages)
    heard = iter([finish_event(2 * tokens, tokens), None, finish_event(tokens + 10, tokens // 2)])

    def hasty(messages: list[Chat], view: list[Chat], hear: EventHandler) -> list[Chat]:
        event = next(heard, None)
        if event is not None:
            hear(event)
        return view

    assert find_broken(hasty, messages, [*messages, user("Go on.")]) == "calm"


def test_a_summary_that_is_paid_for_twice_is_reported() -> None:
    requests: list[SummaryRequest] = []

    def noting(request: SummaryRequest) -> str:
        requests.append(request)
        return f"- summary {len(requests)}"

    asked = AskedSummaries(noting)
    checked = CheckedSession(controller(4_096, summarizer=asked).session("s"), FORMAT, asked=asked)
    checked.transform_context(LONG)
    known = checked.records()
    asked(requests[0])
    assert asked.find_repeated(1, known) == [asked.answered[1]]
    assert asked.find_repeated(2, known) == []
    assert asked.find_repeated(1, []) == []


def test_a_true_session_passes() -> None:
    checked = CheckedSession(controller(4_096).session("true"), FORMAT, size=size)
    for count in range(1, 15):
        checked.transform_context([user("Read them all."), *LONG[1 : 2 * count + 1]])
    assert checked.figures.compactions > 0
    assert checked.figures.calls == 14
    assert checked.figures.largest_view <= 4_096
    assert checked.figures.loud == 0
