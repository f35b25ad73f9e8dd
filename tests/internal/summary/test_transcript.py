"""Messages as a summarizer reads them: labelled, escaped, bounded."""

from __future__ import annotations

import json
import math

import pytest

from compaction_hooks.messages import Media, Message, Opaque, Part, Role, Text, Thinking, ToolCall, ToolResult
from compaction_hooks.summary.transcript import transcript
from compaction_hooks.text.shortening import shorten


def quarter(text: str) -> int:
    """Four characters are one token, rounded up."""
    return math.ceil(len(text) / 4)


def says(role: Role, *parts: Part | str) -> Message:
    return Message(role=role, parts=tuple(Text(part) if isinstance(part, str) else part for part in parts))


def step(number: int, result: str = "done") -> list[Message]:
    """An assistant message with one call, and its result."""
    return [
        says("assistant", ToolCall(f"c{number}", "run", json.dumps({"number": number}))),
        says("tool", ToolResult(f"c{number}", f"result {number}: {result}")),
    ]


def text_of(*messages: Message) -> str:
    return transcript(messages, max_tokens=10**9, estimate=quarter).text


# -- what is shown


def test_labels_speakers_and_calls() -> None:
    """Labels of the founding systems, calls as name(argument=value), an error marked."""
    conversation = [
        says("system", "You are an agent."),
        says("user", "Fix the bug.\nQuickly."),
        says("assistant", Thinking("hm", 3), "I look.", ToolCall("a", "read", '{"path": "x.py", "lines": [1, 2]}')),
        says("tool", ToolResult("a", "line one\nline two")),
        says("assistant", ToolCall("b", "run", '{"command": "pytest\\n-q", "quick": true}'), ToolCall("c", "ls", "")),
        says("tool", ToolResult("b", "1 failed", is_error=True)),
        says("tool", ToolResult("c", " \n")),
        says("other", "A notice."),
    ]
    assert text_of(*conversation) == (
        "[User]: Fix the bug.\nQuickly.\n\n"
        "[Assistant]: I look.\n\n"
        '[Tool Call]: read(path="x.py", lines=[1, 2])\n\n'
        "[Tool Result]: line one\nline two\n\n"
        '[Tool Call]: run(command="pytest\\n-q", quick=true)\n\n'
        "[Tool Call]: ls()\n\n"
        "[Tool Result (error)]: 1 failed\n\n"
        "[Tool Result]: (empty)\n\n"
        "[Other]: A notice."
    )


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(says("system", "rules"), id="system"),
        pytest.param(says("assistant", Thinking("secret", 900)), id="thinking only"),
        pytest.param(says("user", "  \n"), id="blank"),
        pytest.param(says("user"), id="no parts"),
    ],
)
def test_leaves_out_messages_without_visible_text(message: Message) -> None:
    """Thinking and its encrypted rest are not paid for again."""
    assert transcript([message], max_tokens=100, estimate=quarter).text == ""
    assert transcript([message], max_tokens=0, estimate=quarter).shown_messages == 1


def test_names_media_and_never_shows_their_data() -> None:
    """An image is a placeholder, also when the host's reference holds the bytes."""
    inline = Media("image/png", "data:image/png;base64,iVBORw0KGgo=", is_reference=True)
    shown = text_of(
        says("user", "Look:", inline, Media("image", "0" * 64)),
        says("tool", ToolResult("a", "", media=(Media("application/pdf", "1" * 64),))),
        says("assistant", Opaque("web_search_result", '{"big": "json"}')),
    )
    assert shown == (
        "[User]: Look:\n[image: image/png]\n[image: image]\n\n"
        "[Tool Result]: [application: application/pdf]\n\n"
        "[Assistant]: [block: web_search_result]"
    )


def test_strips_system_reminders() -> None:
    """The host injects them anew; a summary would repeat them for good."""
    reminder = "<system-reminder>\nThe todo list is empty.\n</system-reminder>"
    shown = text_of(
        says("user", f"{reminder}Go on.{reminder} Please."),
        says("tool", ToolResult("a", f"output\n{reminder}")),
        says("user", reminder),
    )
    assert shown == "[User]: Go on. Please.\n\n[Tool Result]: output"


def test_keeps_the_text_behind_a_reminder_that_is_never_closed() -> None:
    assert text_of(says("user", "a <system-reminder> b")) == "[User]: a <\\system-reminder> b"


# -- cutting


def test_cuts_a_long_result_to_its_head_and_tail() -> None:
    """2000 characters, both ends kept, the number of those left out stated. Results are cut."""
    shown = text_of(says("tool", ToolResult("a", "h" * 5000 + "t" * 5000)))
    assert shown == f"[Tool Result]: {'h' * 1000}\n[... 8,000 characters left out ...]\n{'t' * 1000}"


def test_of_a_long_result_the_ends_are_read_and_all_that_is_gone_is_counted() -> None:
    result = "\x1b[32m<system-reminder>read</system-reminder>" + "h" * 10**6 + "t" * 10**6 + "\x1b[0m"
    shown = text_of(says("tool", ToolResult("a", result)))
    assert shown.startswith(f"[Tool Result]: {'h' * 1000}\n[... ")
    assert shown.endswith(f" characters left out ...]\n{'t' * 1000}")
    gone = int(shown.partition("[... ")[2].partition(" ")[0].replace(",", ""))
    assert gone == 2 * 10**6 - 2_000


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param(json.dumps({"body": "x" * 9000}), '"' + "x" * 1000 + "\\n[... 7,000 characters", id="string"),
        pytest.param(json.dumps({"body": list(range(9000))}), "[0, 1, 2", id="list"),
        pytest.param("x" * 9000, 'input="' + "x" * 1000 + "\\n[... 7,000 characters", id="not JSON"),
    ],
)
def test_cuts_long_arguments(arguments: str, shown: str) -> None:
    """Arguments are cut like results, whatever their type."""
    text = text_of(says("assistant", ToolCall("a", "write", arguments)))
    assert shown in text
    assert len(text) < 2_100


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("👩", "\u200d💻", id="before a joiner"),
        pytest.param("👩\u200d", "💻", id="after a joiner"),
        pytest.param("👍", "🏽", id="skin tone"),
        pytest.param("❤", "\ufe0f", id="variation selector"),
        pytest.param("e", "\u0301", id="accent"),
        pytest.param("\ud83d", "\ude00", id="surrogate pair"),
    ],
)
def test_does_not_split_a_visible_character(before: str, after: str) -> None:
    """Neither at the end of the head nor at the beginning of the tail."""
    text = "h" * 99 + before + after + "m" * 1000 + before + after + "t" * 99
    short = shorten(text, 99 + len(before), 99 + len(after))
    head, _, tail = short.partition("\n[... ")
    assert head in ("h" * 99, "h" * 98)
    assert tail.endswith("]\n" + "t" * 99)


def test_survives_halves_of_surrogate_pairs() -> None:
    """They come from hosts that cut text; a provider would reject the request."""
    shown = text_of(
        says("user", "a\ud83d b\ud83d\ude00"), says("assistant", ToolCall("a", "x\udc00", '{"k\udc00": "\ud83d"}'))
    )
    assert shown == '[User]: a\ufffd b😀\n\n[Tool Call]: x\ufffd(k\ufffd="\ufffd")'
    assert shown.encode()


def test_drops_terminal_colours_and_control_characters() -> None:
    assert text_of(says("tool", ToolResult("a", "\x1b[31mred\x1b[0m\x00 end\x07"))) == "[Tool Result]: red end"


# -- the bound


def test_cuts_results_harder_before_anything_is_dropped() -> None:
    """2000, 1000, 500, then 200 characters for each result."""
    messages = [says("user", "Go."), *(m for n in range(10) for m in step(n, "x" * 4000))]
    kept = []
    for max_tokens in (6_000, 4_000, 2_000, 1_000):
        shown = transcript(messages, max_tokens=max_tokens, estimate=quarter)
        assert shown.shown_messages == len(messages)
        kept.append(
            len("result 0: " + "x" * 4000) - int(shown.text.split("[... ")[1].split(" char")[0].replace(",", ""))
        )
    assert kept == [2000, 1000, 500, 200]


def test_shows_the_oldest_messages_and_says_how_many() -> None:
    """The rest is for the next request: together they show each message once, in order."""
    messages = [says("user", "The task."), *(m for n in range(100) for m in step(n))]
    left, blocks = messages, list[str]()
    while left:
        shown = transcript(left, max_tokens=200, estimate=quarter)
        assert quarter(shown.text) <= 200
        blocks += shown.text.split("\n\n")
        left = left[shown.shown_messages :]
    assert len(blocks) == len(messages)
    assert [block for block in blocks if "Result" in block] == [f"[Tool Result]: result {n}: done" for n in range(100)]


def test_a_call_waits_for_the_next_part_with_all_its_results() -> None:
    """Also where calls are parallel, and where a system message or a user's word is between them."""
    messages = [
        says("user", "Go."),
        says("assistant", ToolCall("a", "one", "{}"), ToolCall("b", "two", "{}")),
        says("system", "note"),
        says("tool", ToolResult("a", "first " * 20)),
        says("user", "Wait."),
        says("tool", ToolResult("b", "second " * 20)),
        says("assistant", "Done."),
    ]
    seen = set()
    for max_tokens in range(10, 120):
        text = transcript(messages, max_tokens=max_tokens, estimate=quarter).text
        shown = tuple(word in text for word in ("one()", "two()", "first", "second", "Wait."))
        seen.add(shown)
    assert seen == {(False,) * 5, (True,) * 5}


def test_pairs_a_result_with_the_latest_call_of_its_id() -> None:
    """Ids are unique among open calls only: an id used twice does not tie the whole conversation together."""
    messages = [says("user", "Go."), *(m for _ in range(50) for m in step(1, "y" * 100))]
    shown = transcript(messages, max_tokens=300, estimate=quarter)
    assert 1 < shown.shown_messages < 101
    assert shown.shown_messages % 2 == 1


def test_a_message_larger_than_the_bound_is_cut_and_not_lost() -> None:
    for rest in ([], [says("assistant", "y" * 100_000)]):
        shown = transcript([says("user", "x" * 100_000), *rest], max_tokens=500, estimate=quarter)
        assert 100 < quarter(shown.text) <= 500
        assert shown.shown_messages == 1


def test_a_call_and_a_result_that_fit_no_part_together_are_shown_one_after_the_other() -> None:
    late = [step(1)[0], *(says("user", f"Message {n} of many. " * 3) for n in range(100)), step(1)[1]]
    shown = transcript(late, max_tokens=200, estimate=quarter)
    assert 1 < shown.shown_messages < 100


def test_holds_the_bound_where_the_whole_is_more_than_its_parts() -> None:
    """An estimator may see another class of text in the whole; what counts is what it says of the whole."""

    def growing(text: str) -> int:
        return len(text) ** 2 // 10_000

    messages = [says("user", "Go."), *(m for n in range(200) for m in step(n))]
    shown = transcript(messages, max_tokens=500, estimate=growing)
    assert 250 < growing(shown.text) <= 500


@pytest.mark.full
def test_estimates_in_linear_time() -> None:
    """Ten times the messages are ten times the characters estimated, not a hundred times."""

    def estimated(steps: int) -> int:
        seen = 0

        def counting(text: str) -> int:
            nonlocal seen
            seen += len(text)
            return quarter(text)

        messages = [says("user", "Go."), *(m for n in range(steps) for m in step(n, "z" * 3000))]
        transcript(messages, max_tokens=1_000, estimate=counting)
        return seen

    assert estimated(1000) < 12 * estimated(100)


def test_texts_that_are_neither_cut_nor_escaped_are_not_copied() -> None:
    texts = ["Read " * 50 + "it.", "x" * 2_000, "y" * 2_100, "[User]: z"]
    messages = [says("user", texts[0]), *(says("tool", ToolResult("c", text)) for text in texts[1:])]
    shown = transcript(messages, max_tokens=10**9, estimate=quarter)
    assert [any(piece is text for piece in shown.pieces) for text in texts] == [True, True, False, False]
    assert shown.text == "".join(shown.pieces) == text_of(*messages)
