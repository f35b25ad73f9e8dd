"""The page of a report and the chart, as files; tests/browser/ opens them."""

import base64
import cProfile
import hashlib
import json
import pstats
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2", reason="needs the extra report")

import compaction_hooks.replay.page
from compaction_hooks import CompactionController, CompactionSettings, MessageFormat
from compaction_hooks.errors import MissingExtraError
from compaction_hooks.formats import AnthropicFormat
from compaction_hooks.messages import Text, ToolCall, ToolResult
from compaction_hooks.replay import RecordedSession, read_sessions, replay
from compaction_hooks.replay.page import ReportData, chart_of, read_report, write_chart, write_report
from compaction_hooks.replay.page.shape import ConversationData
from tests.conversations import PLAIN, assistant, call, prose, steps, talk, tool, user
from tests.replay.samples import (
    OLD_ORDER,
    WINDOW,
    forgetful_conversation,
    long_conversation,
    session,
    short_conversation,
)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "session.jsonl"
SOURCES = [*Path(compaction_hooks.replay.page.__file__).parent.iterdir()]
BETWEEN = [*steps(2, 100), *talk(24, 250)]


def report(
    *sessions: RecordedSession,
    with_text: bool = True,
    window: int = WINDOW,
    settings: CompactionSettings | None = None,
) -> ReportData:
    replays = [
        ("folder/file.jsonl", each, replay(each, window=window, settings=settings, details=True)) for each in sessions
    ]
    return read_report(replays, with_text=with_text)


class Page(HTMLParser):
    """The elements of a page, its comments, and the texts of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.comments: list[str] = []
        self.code: dict[str, str] = {}
        self.words: list[str] = []
        self._in = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        given = dict(attrs)
        self._in = f"{tag} {given.get('id', '')}".strip() if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in:
            self.code[self._in] = self.code.get(self._in, "") + data
        else:
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data.strip())


def anthropic_conversation(count: int = 24) -> list[Mapping[str, Any]]:
    """Return tool steps in Anthropic's form; one result has the user's newest words in the same message."""
    messages: list[Mapping[str, Any]] = [{"role": "user", "content": "Read all modules."}]
    for n in range(count):
        call = {"type": "tool_use", "id": f"c{n}", "name": "read_file", "input": {"path": f"src/m{n}.py"}}
        result: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": f"c{n}", "content": f"# {n}\n{prose(500)}"}
        ]
        words = [{"type": "text", "text": f"Now look for fault {n}, and never touch m{n}.py."}] if n == 3 else []
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [*result, *words]}]
    return [*messages, {"role": "assistant", "content": "All read."}]


def example() -> RecordedSession:
    (recorded,) = read_sessions(EXAMPLE)
    return recorded


@cache
def example_report() -> ReportData:
    """Return the report of the example in a window of 16k; it is not to be changed."""
    return report(example(), window=16_000)


# -- what a call sent


def view_at(conversation: ConversationData, call: int) -> list[list[str]]:
    """Return the texts of the messages that a call sent, as report.js finds them."""
    views = [view for view in conversation["views"] if view["call"] <= call]
    sent: list[list[str]] = []
    seen = 0
    for entry in views[-1]["sent"] if views else ():
        found = conversation["messages"][slice(*entry)] if isinstance(entry, list) else [entry["message"]]
        sent += [[part["text"] for part in message["parts"]] for message in found]
    if views:
        seen = conversation["calls"][views[-1]["call"] - 1]
    since = conversation["messages"][seen : conversation["calls"][call - 1]]
    return [*sent, *([part["text"] for part in message["parts"]] for message in since)]


def texts(format: MessageFormat[Any], message: object) -> list[str]:
    found: list[str] = []
    for part in (part for piece in format.read(message) for part in piece.parts):
        match part:
            case Text(text=text) | ToolResult(text=text) | ToolCall(arguments=text):
                found.append(text)
            case _:
                raise AssertionError("no other part is in these sessions")
    return found


@pytest.mark.parametrize(
    ("recorded", "window", "settings"),
    [
        (example(), 16_000, None),
        (session(forgetful_conversation(between=BETWEEN)), WINDOW, None),
        (session(long_conversation(tokens=4_000)), WINDOW, None),
        (session(anthropic_conversation(), format=AnthropicFormat()), WINDOW, PLAIN),
    ],
    ids=["example", "talk", "large results", "two speakers in a message"],
)
def test_the_page_knows_what_every_call_sent(
    recorded: RecordedSession, window: int, settings: CompactionSettings | None
) -> None:
    (found,) = report(recorded, window=window, settings=settings)["sessions"]
    conversation = found["conversation"]
    sending = CompactionController(context_window=window, settings=settings, format=recorded.format).session("s")
    for number, index in enumerate(conversation["calls"], 1):
        view = sending.transform_context_sync(list(recorded.messages[:index]), tools=recorded.tools)
        assert view_at(conversation, number) == [texts(recorded.format, message) for message in view]
    assert conversation["views"]


def test_every_message_is_told_by_what_a_compaction_did_to_it() -> None:
    (found,) = example_report()["sessions"]
    first, second, third, *_ = found["compactions"]
    assert first["messages"]["cleared"] == "4, 6–8, 10–11, 15–17, 19, 24, 29"
    assert second["messages"] == {
        "summarized": "3–12, 14–30, 32–48",
        "pinned": "2, 13, 31",
        "as_is": "49–70",
        "cleared": "",
        "shortened": "",
    }
    assert third["messages"]["summarized"] == "3–30, 32–50, 52–65, 67–70"
    assert third["messages"]["pinned"] == "2, 31, 51, 66"
    for compaction in found["compactions"]:
        for name in ("summarized", "pinned", "as_is", "cleared"):
            assert bool(compaction["counts"][name]) == bool(compaction["messages"][name])


def test_shortened_results_are_told_from_cleared_ones() -> None:
    (found,) = report(session(long_conversation(count=2, tokens=9_000)))["sessions"]
    states = [
        entry["state"]
        for view in found["conversation"]["views"]
        for entry in view["sent"]
        if not isinstance(entry, list)
    ]
    assert "shortened" in states
    assert any(compaction["messages"]["shortened"] for compaction in found["compactions"])


def test_words_that_are_pinned_without_the_result_in_their_message_are_told_to_be_a_part_of_it() -> None:
    (found,) = report(session(anthropic_conversation(), format=AnthropicFormat()), settings=PLAIN)["sessions"]
    entries = [
        entry for view in found["conversation"]["views"] for entry in view["sent"] if not isinstance(entry, list)
    ]
    shown = [entry for entry in entries if entry["state"] != "summary"]
    pinned = [entry for entry in shown if all(part["kind"] == "text" for part in entry["message"]["parts"])]
    assert pinned
    for entry in pinned:
        assert entry["index"] is not None
        assert entry["state"] == "shortened"
        whole = found["conversation"]["messages"][entry["index"]]
        assert [part for part in whole["parts"] if part["kind"] == "text"] == entry["message"]["parts"]


def test_an_identifier_that_was_lost_has_the_handle_that_recalls_it() -> None:
    recorded = example()
    (found,) = example_report()["sessions"]
    compaction = found["compactions"][2]
    sending = CompactionController(context_window=16_000, format=recorded.format).session("s")
    for index in found["conversation"]["calls"][: compaction["call"]]:
        host = list(recorded.messages[:index])
        sending.transform_context_sync(host, tools=recorded.tools)
    by_handle = {part.handle: part.text for part in sending.covered(host)}
    assert [lost["text"] for lost in compaction["names_lost"]]
    assert all(lost["text"] in by_handle[lost["handle"]] for lost in compaction["names_lost"])


def test_a_lost_identifier_has_the_handle_of_the_newest_message_that_has_it() -> None:
    old, new = (tool(f"c{number}", f"{OLD_ORDER} was seen for the {number}. time. {prose(300)}") for number in (1, 2))
    messages = [
        user("Look for orders."),
        assistant(None, call("c1", query="orders")),
        old,
        assistant(None, call("c2", query="orders")),
        new,
        *steps(9, 600),
        assistant(f"It was {OLD_ORDER}."),
    ]
    recorded = session(messages)
    compactions = report(recorded)["sessions"][0]["compactions"]
    (lost,) = (each for compaction in compactions for each in compaction["names_lost"])
    covered = CompactionController(context_window=WINDOW, format=recorded.format).session("s")
    covered.transform_context_sync(messages[:-1])
    texts = {part.handle: part.text for part in covered.covered(messages[:-1])}
    assert (lost["text"], "for the 2. time" in texts[lost["handle"]]) == (OLD_ORDER, True)


def test_an_identifier_at_the_beginning_of_a_line_of_an_argument_has_a_handle_too() -> None:
    written = assistant(None, call("c1", name="write", text=f"{prose(300)}\n{OLD_ORDER}\n{prose(300)}"))
    noted = [user("Note it."), written, tool("c1", "Written."), assistant("Noted.")]
    messages = [*noted, user("Read all."), *steps(9, 600), assistant(f"It was {OLD_ORDER}.")]
    settings = CompactionSettings(clear_tool_results=False, identifier_tokens=0)
    recorded = session(messages)
    done = replay(recorded, window=WINDOW, settings=settings, summarizer=lambda _: "## Goal\n- note", details=True)
    compactions = read_report([("f", recorded, done)])["sessions"][0]["compactions"]
    (lost,) = (each for compaction in compactions for each in compaction["names_lost"])
    assert lost["text"] == OLD_ORDER
    assert lost["handle"].startswith("a")


def count_functions(steps: int) -> tuple[int, int]:
    """Return the compactions of a session of that many steps, and the functions that its report calls."""
    profile = cProfile.Profile()
    with profile:
        data = report(session(long_conversation(steps, 600)))
    return len(data["sessions"][0]["compactions"]), pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.full
def test_twice_as_many_compactions_are_twice_the_work() -> None:
    count_functions(10)  # imports
    (few, small), (many, large) = count_functions(75), count_functions(150)
    assert many >= 2 * few
    assert large < 2.5 * small


def test_sums_of_dollars_and_numbers_of_files_are_those_of_the_replay() -> None:
    recorded = session(long_conversation(90, 200))
    summarizing = CompactionSettings(clear_tool_results=False)
    done = replay(recorded, window=32_000, settings=summarizing, details=True)
    (found,) = read_report([("f", recorded, done)])["sessions"]
    for cost, shown in zip(done.costs, found["costs"], strict=True):
        assert shown["sent"][-1] == pytest.approx(cost.with_compaction, abs=1e-5)
        assert shown["without"][-1] == pytest.approx(cost.without_compaction, abs=1e-5)
        assert len(shown["sent"]) == len(shown["without"]) == len(done.calls)
    files = [compaction["files"]["read"] for compaction in found["compactions"]]
    assert [each["count"] for each in files] == [len(each.read_files) for each in done.compactions]
    assert {len(each["names"]) == min(each["count"], 30) for each in files} == {True}
    assert max(each["count"] for each in files) > 30


# -- the page


def test_the_page_begins_by_saying_that_it_holds_a_conversation() -> None:
    page = write_report(report(session(short_conversation())))
    assert page.splitlines()[0].startswith("<!-- This file holds a conversation")
    shown = " ".join(Page(page).words).split("Compaction report")
    assert "This file holds a conversation" in shown[1]


def test_the_policy_allows_the_script_and_the_style_of_the_page_and_nothing_else() -> None:
    page = write_report(report(session(short_conversation())))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    code = Page(page).code
    hashes = [base64.b64encode(hashlib.sha256(code[name].encode()).digest()).decode() for name in ("script", "style")]
    rules = dict(rule.split(" ", 1) for rule in policy.replace("&#39;", "'").split("; "))
    assert rules["default-src"] == "'none'"
    assert [rules["script-src"], rules["style-src"]] == [f"'sha256-{each}'" for each in hashes]
    assert {"script-src", "style-src", "img-src"} == {name for name, value in rules.items() if value != "'none'"} - {
        "default-src",
        "require-trusted-types-for",
    }


def test_the_page_loads_nothing_and_has_no_handler_and_no_style_in_an_attribute() -> None:
    page = Page(write_report(report(session(forgetful_conversation()), session(long_conversation(tokens=4_000)))))
    assert not [name for name in page.attributes if name.startswith("on")]
    assert page.attributes.isdisjoint({"src", "srcset", "action", "style", "xlink:href", "srcdoc", "data"})
    assert set(page.tags).isdisjoint({"a", "iframe", "img", "object", "embed", "form", "base"})
    script = page.code["script"]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|fetch|XMLHttp|import\(", script
    )
    assert not re.search(r"url\(|@import", page.code["style"])


def test_the_data_of_the_page_is_read_back_as_it_was() -> None:
    data = report(session(forgetful_conversation()), session(long_conversation(tokens=4_000)))
    code = Page(write_report(data)).code
    read = [json.loads(code[f"script conversation-{n}"]) for n in range(2)]
    assert read == [found["conversation"] for found in data["sessions"]]


def test_the_same_sessions_make_the_same_page_and_the_same_chart() -> None:
    recorded = session(forgetful_conversation())
    once, again = (report(recorded) for _ in range(2))
    assert write_report(once) == write_report(again)
    charts = [write_chart(chart_of(replay(recorded, window=WINDOW))) for _ in range(2)]
    assert charts[0] == charts[1]


def test_several_sessions_have_a_row_each_and_are_made_when_they_are_opened() -> None:
    page = Page(write_report(report(session(short_conversation()), session(forgetful_conversation()))))
    assert (page.tags["table"], page.tags["template"], page.tags["article"]) == (1, 2, 2)
    one = Page(write_report(report(session(short_conversation()))))
    assert (one.tags["table"], one.tags["template"], one.tags["article"]) == (0, 0, 1)


def test_sessions_without_a_call_and_calls_that_do_not_fit_are_shown_too() -> None:
    none = write_report(report(session([{"role": "user", "content": "Hello?"}])))
    assert "No call to replay" in none
    large = session([{"role": "user", "content": prose(9_500)}, {"role": "assistant", "content": "Too long."}])
    assert "1 call could not be made to fit" in write_report(report(large))


def test_a_report_needs_replays_with_details() -> None:
    recorded = session(forgetful_conversation())
    with pytest.raises(ValueError, match="details=True"):
        read_report([("f", recorded, replay(recorded, window=WINDOW))])


# -- without text


def test_without_text_no_word_of_the_conversation_is_in_the_file() -> None:
    recorded = replace(
        example(),
        id="secret-id " * 20,  # longer than a log line has room for
        system="Obey the quetzal.",
        skipped=("line 7: gnu",),
        model="gpt-5",
    )
    done = [("folder/file.jsonl", recorded, replay(recorded, window=16_000, details=True))]
    whole, data = read_report(done), read_report(done, with_text=False)
    page = write_report(data)
    own = " ".join(file.read_text(encoding="utf-8") for file in SOURCES if file.is_file()).lower()
    own += "assistant leave alone stay"  # a role, and words of the controller's reasons
    words = {word for word in re.findall(r"[^\W\d][\w-]{3,}", json.dumps(recorded.messages)) if word.lower() not in own}
    words |= {"quetzal", "secret-id", "gnu", "folder/file", "[Conversation summary]"}
    assert len(words) > 900
    told = Page(page)
    shown = "\n".join([*told.words, *told.code.values(), *told.comments])
    assert not [word for word in words if word in shown]
    assert "no text of a conversation" in page.splitlines()[0]
    (with_text,), (without,) = (found["sessions"] for found in (whole, data))
    assert without["totals"] == with_text["totals"]
    assert [each["counts"] for each in without["compactions"]] == [each["counts"] for each in with_text["compactions"]]
    assert without["conversation"]["sent"] == with_text["conversation"]["sent"]


# -- the chart


def test_the_chart_is_an_image_with_words_for_those_who_do_not_see_it() -> None:
    drawn = ElementTree.fromstring(write_chart(chart_of(replay(example(), window=16_000))))
    names = {"svg": "http://www.w3.org/2000/svg"}
    assert drawn.get("role") == "img"
    assert drawn.get("aria-labelledby") == "title desc"
    assert drawn.findtext("svg:title", namespaces=names) == "Context size at each call"
    assert drawn.findtext("svg:desc", namespaces=names) == (
        "68 calls in a window of 16k tokens. Without compaction the context grows to 46.6k tokens. "
        "With it, at most 11.9k tokens are sent. 6 compactions, at call 13, 24, 32, 43, 52, 65."
    )
    assert "prefers-color-scheme: dark" in (drawn.findtext("svg:style", namespaces=names) or "")
    marks = [mark for mark in drawn.iter("{http://www.w3.org/2000/svg}circle") if len(mark)]
    assert [mark.get("cx") for mark in marks] == [f"{100 * (call - 1) / 67:.2f}%" for call in (13, 24, 32, 43, 52, 65)]


@pytest.mark.parametrize("calls", [1, 2, 5, 6, pytest.param(400, marks=pytest.mark.full)])
def test_a_chart_of_any_number_of_calls_stays_inside_its_frame(calls: int) -> None:
    messages = [message for n in range(calls) for message in talk(1, 20, n)]
    drawn = write_chart(chart_of(replay(session(messages), window=200_000)))
    places = [float(x) for x in re.findall(r'(?:x|cx)="(-?[\d.]+)%"', drawn)]
    ends = [int(x) for x in re.findall(r"[ML](-?\d+) ", drawn)]
    assert all(0 <= place <= 100 for place in places)
    assert (min(ends), max(ends)) == (0, 10_000)


def test_without_jinja_the_page_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'compaction-hooks\[cli,report\]'"):
        write_report(report(session(short_conversation())))
