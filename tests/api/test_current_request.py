"""The current request is all that the user said after the last answer: whole if it fits, else its oldest messages are shortened."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction_hooks import CompactionController, CompactionSettings, project
from compaction_hooks.errors import ContextOverflowError
from compaction_hooks.events import CompactionEvent, CompactionFinished
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.testing import check_view
from compaction_hooks.tokens import CharacterEstimator
from tests.cases import crossed
from tests.conversations import Chat, Scripted, assistant, call, controller, prose, steps, system, talk, tool, user
from tests.strategies import examples

WINDOW = 16_384
SETTINGS = CompactionSettings(reserve_tokens=2_048, keep_user_tokens=0)

Path = Literal["threshold", "by hand", "dropped", "after an overflow"]
PATHS: tuple[Path, ...] = ("threshold", "by hand", "dropped", "after an overflow")


def asked(number: int, tokens: int) -> str:
    return f"Request {number}: {prose(tokens)} This was request {number}."


def asks(*tokens: int) -> list[Chat]:
    """Return messages of the user in a row, of these sizes."""
    return [user(asked(number, size)) for number, size in enumerate(tokens)]


def how_shown(view: Sequence[Any], *tokens: int) -> list[str]:
    """Return how a view shows each of these messages of the user: "whole", "short", or "" if it is not a message of its own."""
    texts = [str(message["content"]) for message in view if message["role"] == "user"]
    shown = [next((text for text in texts if text.startswith(f"Request {n}: ")), "") for n in range(len(tokens))]
    return [
        "whole" if text == asked(n, size) else text and "short"
        for n, (text, size) in enumerate(zip(shown, tokens, strict=True))
    ]


def compacted(
    messages: list[Chat], path: Path, window: int = WINDOW, reported: int = 20_000
) -> tuple[list[Any], list[CompactionEvent], int]:
    """Return the view on one path, the events, and the size of the view."""
    events: list[CompactionEvent] = []
    broken = Scripted(RuntimeError("no summary")) if path == "dropped" else None
    hooks = controller(window, settings=SETTINGS, events=events, summarizer=broken)
    if path in ("threshold", "dropped"):
        view = hooks.transform_context_sync(messages)
    elif path == "by hand":
        view = hooks.compact_sync(messages).messages
    else:
        error = RuntimeError(f"prompt is too long: {reported} tokens > {window} maximum")
        hooks.transform_context_sync(messages)
        view = hooks.recover_sync(error, messages)
    return view, events, hooks.state().context_tokens or 0


BEFORE = [system(), *talk(20)]
STEPS = steps(6)
PLACES = {
    "before the agent's steps": lambda said: [*BEFORE, *said, *STEPS],
    "at the end": lambda said: [*BEFORE, *said],
    "behind a tool's results": lambda said: [*BEFORE, user("Port it."), *steps(2), *said],
    "with a tool's result between": lambda said: [
        *BEFORE,
        assistant(None, call("a"), call("b")),
        tool("a", "1"),
        said[0],
        tool("b", "2"),
        *said[1:],
        *STEPS,
    ],
    "with a failed answer between": lambda said: [
        *BEFORE,
        said[0],
        {**assistant("I beg"), "stop_reason": "error"},
        *said[1:],
        *STEPS,
    ],
}


SHOWN = {
    (12_000, 3_000, 3_000): ["short", "whole", "whole"],
    (9_000, 9_000, 5_000): ["short", "short", "whole"],
    (3_000, 3_000, 3_000): ["whole", "whole", "whole"],
    (1_500, 1_500, 1_500): ["whole", "whole", "whole"],
    (8_000, 300, 300): ["whole", "whole", "whole"],
}
"""By the sizes of three messages: how a view has them."""


@crossed(place=PLACES, tokens=SHOWN, path=["threshold", "by hand", "dropped"])
def test_the_newest_that_fit_are_whole_and_the_others_shortened(
    place: str, tokens: tuple[int, int, int], path: Path
) -> None:
    messages = PLACES[place](asks(*tokens))
    view, events, _ = compacted(messages, path)
    summaries = [event.record.rendered for event in events if isinstance(event, CompactionFinished)]
    check_view(messages, view, format=OpenAIChatFormat(), summaries=summaries)
    assert how_shown(view, *tokens) == SHOWN[tokens]


@pytest.mark.parametrize("place", ["before the agent's steps", "at the end"])
def test_an_error_that_reports_more_than_the_request_had_shortens_the_oldest_alone(place: str) -> None:
    tokens = 3_000, 3_000, 3_000
    view, _, _ = compacted(PLACES[place](asks(*tokens)), "after an overflow", reported=19_000)
    assert how_shown(view, *tokens)[1:] == ["short", "whole"]
    kept = [len(str(message["content"])) for message in view if str(message["content"]).startswith("Request ")]
    assert kept[0] < 200 < kept[1]


def test_a_trigger_out_of_reach_leaves_as_many_messages_whole_as_the_window_holds() -> None:
    tokens = (300,) * 12
    view, _, _ = compacted([system(), *asks(*tokens)], "after an overflow", reported=16_500)
    assert how_shown(view, *tokens) == ["short", *["whole"] * 11]


def test_an_answer_or_a_tool_call_ends_the_request() -> None:
    """Hosts put reminders and the images of tools into user messages between two steps: they are no request to keep."""
    for between in (assistant("Which one?"), *steps(1)[:1]):
        answered = [between, *steps(1)[1:]] if between.get("tool_calls") else [between]
        messages = [*BEFORE, *asks(3_000), *answered, user(f"Request 1: {prose(100)}"), *steps(14)]
        view, _, _ = compacted(messages, "threshold")
        assert how_shown(view, 3_000) == [""]


@pytest.mark.parametrize(
    ("before", "later"),
    [([], [4_000, 4_000]), ([12_000], [4_000, 4_000]), ([12_000], [])],
    ids=["after", "on both sides", "on both sides, the newest"],
)
def test_a_message_of_results_and_words_keeps_its_words_alone(before: list[int], later: list[int]) -> None:
    format = AnthropicFormat()
    used: Any = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": prose(300)}
    sizes = [*before, 300 if before else 8_000, *later]
    said = [asked(number, size) for number, size in enumerate(sizes)]
    words = [{"type": "text", "text": text} for text in said[: len(before) + 1]]
    rest = [{"role": "user", "content": text} for text in said[len(words) :]]
    plain = [{"role": message["role"], "content": message["content"]} for message in talk(20)]
    newer = [
        {"role": "assistant", "content": [{**used, "id": "b"}]},
        {"role": "user", "content": [{**result, "tool_use_id": "b"}]},
    ]
    messages: list[Any] = [
        *plain,
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [*words[:-1], result, words[-1]]},
    ]
    messages += [*rest, *newer]
    events: list[CompactionEvent] = []
    hooks = CompactionController[Any](context_window=WINDOW, settings=SETTINGS, format=format, on_event=events.append)
    view = hooks.transform_context_sync(messages)
    summaries = [event.record.rendered for event in events if isinstance(event, CompactionFinished)]
    check_view(messages, view, format=format, summaries=summaries)
    assert view[2:-2] == rest
    first, *others = view[1]["content"]
    assert first["text"] != said[0]
    assert first["text"].startswith("Request 0: ")
    assert first["text"].endswith("This was request 0.")
    assert others == words[1:]


@pytest.mark.parametrize("count", [3, 40])
def test_shortened_messages_go_on_in_a_stored_view_and_in_another_process(count: int) -> None:
    tokens = [6_500, *[3_000] * 2] if count == 3 else [400] * count
    messages = [*BEFORE, *asks(*tokens), *STEPS]
    hooks = controller(WINDOW, settings=SETTINGS)
    result = hooks.compact_sync(messages)
    assert "short" in how_shown(result.messages, *tokens)
    assert how_shown(result.messages, *tokens)[-1] == "whole"
    record = result.record
    assert record is not None
    assert project(messages, type(record).from_json(record.to_json())) == result.messages

    stored = [*result.messages, *steps(1, first=20)]
    assert hooks.session("stored").transform_context_sync(stored) is stored
    again = controller(WINDOW, settings=SETTINGS)
    again.session("stored").import_records([record.to_dict()])
    more = [*stored, *steps(30, first=30)]
    view = again.session("stored").transform_context_sync(more)
    assert len(view) < len(more)
    assert how_shown(view, *tokens) == how_shown(stored, *tokens)


@examples(40)
@given(
    tokens=st.lists(st.sampled_from([50, 400, 1_500, 3_000, 5_000]), min_size=2, max_size=5),
    after=st.integers(0, 6),
    path=st.sampled_from(PATHS),
    window=st.sampled_from([12_000, WINDOW, 32_768]),
)
def test_none_is_dropped_and_one_more_would_not_fit(tokens: list[int], after: int, path: Path, window: int) -> None:
    messages = [system(), *talk(30), *asks(*tokens), *steps(after)]
    try:
        view, events, size = compacted(messages, path, window, reported=window + 500)
    except ContextOverflowError:
        assert tokens[-1] > window / 6
        return
    if view is messages:
        return

    summaries = [event.record.rendered for event in events if isinstance(event, CompactionFinished)]
    check_view(messages, view, format=OpenAIChatFormat(), summaries=summaries)
    shown = how_shown(view, *tokens)
    first = next(n for n in range(len(tokens)) if set(shown[n:]) == {"whole"})
    assert "" not in shown, "dropped"
    if first and path != "after an overflow":
        whole = CharacterEstimator().estimate_tokens(asked(first - 1, tokens[first - 1]))
        assert size + whole > 0.6 * (window - 2_048), "one more would fit"
