"""`clear_tool_results`, `tool_rules`: old results are cleared first; `max_result_tokens`: a large one is shortened at once."""

import json
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSettings, SummaryRequest, project
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.stores import MemoryStore
from compaction_hooks.strategies import ClearToolResults
from compaction_hooks.testing import as_anthropic, check_view
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import (
    PLAIN,
    Chat,
    Scripted,
    assistant,
    call,
    controller,
    prose,
    steps,
    system,
    texts,
    tool,
    user,
)


def test_old_results_are_cleared_before_a_summarizer_is_asked() -> None:
    asked = Scripted()
    messages = [user("go"), *steps(24, 500)]
    hooks = controller(16_384, summarizer=asked)
    view = hooks.transform_context_sync(messages)
    assert asked.requests == []
    assert hooks.history()[-1].unseen_message_count == 0
    assert "Old tool result cleared" in texts(view)
    assert len(view) == len(messages)


def test_clearing_can_be_switched_off() -> None:
    asked = Scripted()
    controller(16_384, summarizer=asked, settings=PLAIN).transform_context_sync([user("go"), *steps(24, 500)])
    assert len(asked.requests) == 1


def test_results_that_are_hardly_larger_than_the_marker_are_not_cleared() -> None:
    short, thin, larger = prose(30)[:80], "=" * 100, prose(30)[:100]
    answers = {"a": short, "b": thin, "c": larger}
    results = [message for id, text in answers.items() for message in (assistant(None, call(id)), tool(id, text))]
    view = controller(16_384).transform_context_sync([user("go"), *results, *steps(24, 500)])
    assert [message["content"] for message in view[2:7:2]] == [short, thin, "[Old tool result cleared: 100 characters]"]


@pytest.mark.parametrize(
    ("rules", "cleared"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"read": "never"}, [1, 3]),
        ({"read": "first"}, [0, 1, 2, 3, 4, 6]),
        ({"read": 3}, [0, 1, 3]),
    ],
)
def test_a_tool_has_its_own_rule(rules: dict[str, Any], cleared: list[int]) -> None:
    messages = [user("go")]
    for number in range(8):
        messages += steps(1, 1_000, first=number, name="grep" if number % 2 else "read")
    clear = ClearToolResults(protect_tokens=2_500, minimum_gain_tokens=0)
    settings = CompactionSettings(strategies=[clear], tool_rules=rules)
    view = controller(10_000, settings=settings).transform_context_sync(messages)
    results = [message for message in view if message["role"] == "tool"]
    assert [place for place, message in enumerate(results) if str(message["content"]).startswith("[Old")] == cleared


class Full(Scripted):
    """A summarizer that uses most of the room that it has."""

    def __call__(self, request: SummaryRequest) -> str:
        self.requests.append(request)
        return f"## Goal\n- {prose(int(request.max_tokens * 0.8))}"


@pytest.mark.parametrize("window", [16_384, 32_768, 65_536])
def test_steps_that_are_nearly_as_large_as_the_target_do_not_each_pay_for_a_summary(window: int) -> None:
    """26 calls; four parallel results of together 37 % of the window each time."""
    asked = Full()
    hooks, messages = controller(window, summarizer=asked), [user("Read all parts.")]
    for number in range(26):
        hooks.transform_context_sync(messages)
        names = [f"c{number}_{part}" for part in range(4)]
        messages.append(assistant(None, *(call(name, path=f"src/{name}.py") for name in names)))
        messages += [tool(name, prose(int(window * 0.37 / 4))) for name in names]
    assert len(asked.requests) <= 6
    target = CompactionSettings().budget(window).target
    assert all(record.tokens_after <= target for record in hooks.history())


LARGE = f"head\n{prose(2_000)}\nTX-48213\n{prose(2_000)}\ntail"
OPENING: list[Chat] = [system(), user("Port it."), assistant(None, call("n", path="notes.md"))]
MESSAGES: list[Chat] = [*OPENING, tool("n", LARGE)]


def made(most: int | None = 1_000, window: int = 200_000, **more: Any) -> CompactionController[Chat]:
    rules = more.pop("tool_rules", {})
    settings = CompactionSettings(max_result_tokens=most, tool_rules=rules)
    return controller(window, summarizer=Scripted("- facts"), settings=settings, **more)


def test_a_large_result_is_shortened_to_its_ends_from_the_first_call() -> None:
    before = json.dumps(MESSAGES)
    view = made().transform_context_sync(MESSAGES)
    shown = view[3]["content"]
    assert shown.startswith("head\n")
    assert shown.endswith("\ntail")
    assert "characters left out ...]" in shown
    assert 800 < CharacterEstimator().estimate_tokens(shown) < 1_100
    assert [message for message in view[:3] if message not in MESSAGES] == []
    assert json.dumps(MESSAGES) == before


def test_off_and_small_results_leave_the_list_as_it_is() -> None:
    small = [*OPENING, tool("n", prose(300))]
    assert made(None).transform_context_sync(MESSAGES) is MESSAGES
    assert made().transform_context_sync(small) is small


def test_no_prefix_changes_later_and_each_process_shows_the_same() -> None:
    hooks = made()
    messages = [*MESSAGES]
    views = [hooks.transform_context_sync(messages)]
    for n in range(4):
        messages = [*messages, *steps(1, 200, first=n), assistant(None, call(f"l{n}")), tool(f"l{n}", LARGE)]
        views.append(hooks.transform_context_sync(messages))
        assert views[-1][: len(views[-2])] == views[-2]
        assert made().transform_context_sync(messages) == views[-1]
    assert texts(views[-1]).count("TX-48213") == 0


def test_a_stored_view_is_shown_as_it_is() -> None:
    uneven = f"{'# ' * 900}{prose(1_500)}{'{}[]();' * 900}"
    stored = made().transform_context_sync([*OPENING, tool("n", uneven)])
    assert "characters left out ...]" in stored[3]["content"]
    assert made().transform_context_sync(stored) is stored


def test_the_first_summary_of_a_stored_view_with_cleared_results_needs_no_earlier_record() -> None:
    session = controller(8_192, summarizer=Scripted()).session("thread")
    messages = session.transform_context_sync([system(), user("go"), *steps(22, 400)])
    cleared = session.record
    assert cleared is not None
    assert cleared.rendered == ""
    while (record := session.record) == cleared:
        messages = [*messages, *steps(1, 400, first=len(messages))]
        view = session.transform_context_sync(messages)
    assert record is not None
    assert view[1]["content"] == record.rendered
    assert project(messages, record) == view


def test_the_tool_reads_what_is_left_out_and_the_marker_names_its_handle() -> None:
    session = made().session("thread")
    assert "recall" not in session.transform_context_sync(MESSAGES)[3]["content"]
    recall = session.recall_tool(lambda: MESSAGES)
    shown = session.transform_context_sync(MESSAGES)[3]["content"]
    [part] = session.covered(MESSAGES)
    assert (part.text, part.is_shortened) == (LARGE, True)
    assert f'; recall("{part.handle}") shows them ...]' in shown
    assert "TX-48213" in recall("TX-48213")


def test_sizes_are_those_of_the_shortened_view() -> None:
    hooks = made(window=6_144)
    view = hooks.transform_context_sync(MESSAGES)
    assert len(view) == len(MESSAGES)
    assert hooks.state().compaction_count == 0
    assert (hooks.state().context_tokens or 0) < 1_300


def test_a_compaction_keeps_it_shortened_and_its_record_alone_gives_the_view() -> None:
    messages = [*MESSAGES, *steps(30, 200), assistant(None, call("l")), tool("l", LARGE)]
    session = made().session("thread")
    before = session.transform_context_sync(messages)[-1]
    result = session.compact_sync(messages, keep_recent_tokens=1_500)
    assert result.messages[-1] == before
    assert project(messages, result.record) == result.messages
    assert session.transform_context_sync(messages) == result.messages
    check_view(
        messages,
        result.messages,
        format=OpenAIChatFormat(),
        summaries=[result.record.rendered if result.record else ""],
    )


def test_old_results_are_cleared_as_before() -> None:
    messages = [*MESSAGES, *steps(40, 400)]
    view = made(window=16_384).transform_context_sync(messages)
    assert view[3]["content"].startswith("[Old tool result cleared")


def test_pinned_results_and_those_of_protected_tools_stay_whole() -> None:
    pinned = made()
    pinned.pin(MESSAGES[3])
    assert pinned.transform_context_sync(MESSAGES)[3] is MESSAGES[3]
    protected = made(tool_rules={"read_file": "never"})
    assert protected.transform_context_sync(MESSAGES) == MESSAGES


def test_a_pin_of_a_shortened_result_acts_from_the_next_compaction_on() -> None:
    """Shown whole at once, it would change the prefix that the provider has cached: the reasoning behind it would be refused."""
    store = MemoryStore()
    late = [assistant(None, call("l")), tool("l", f"{LARGE} of all")]
    messages = [*MESSAGES, *steps(80, 200), *late, *steps(2, 200, first=80)]
    session = made(store=store).session("thread")
    before = session.transform_context_sync(messages)
    for place in (3, -5):
        session.pin(messages[place])
    for process in (session, made(store=store).session("thread")):
        assert process.transform_context_sync(messages) == before
    result = session.compact_sync(messages, keep_recent_tokens=1_500)
    assert messages[3] in result.messages
    assert messages[-5] in result.messages
    for process in (session, made(store=store).session("thread")):
        assert process.transform_context_sync(messages) == result.messages
    messages += [*steps(60, 200, first=82), assistant(None, call("n2")), tool("n2", f"{LARGE} of the rest")]
    view = session.transform_context_sync(messages)
    session.pin(messages[-1])
    assert session.transform_context_sync(messages) == view
    assert messages[-1] not in view
    assert messages[-1] in session.compact_sync(messages, keep_recent_tokens=1_500).messages


def test_it_is_shortened_alike_in_another_format() -> None:
    chat, anthropic = OpenAIChatFormat(), AnthropicFormat()
    view = made().session("a", chat).transform_context_sync(MESSAGES)
    others = as_anthropic(piece for message in MESSAGES for piece in chat.read(message))
    theirs = made().session("b", anthropic).transform_context_sync(others)
    assert [r.text for m in theirs for p in anthropic.read(m) for r in p.results] == [view[3]["content"]]
