"""`session.covered(messages)`: all that a view leaves out or shortens, to be listed, searched and read."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CompactionSession, CompactionSettings
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.strategies import ShortenParts
from compaction_hooks.testing import as_anthropic
from tests.conversations import (
    Chat,
    Controller,
    Scripted,
    assistant,
    call,
    controller,
    prose,
    steps,
    system,
    talk,
    tool,
    user,
)

PAGE = "and its lines\n" * 40
SECRET = "the door opens with TX-48213\nand closes with TX-48214"
TASK = [
    system(),
    user("Port the parser. Never touch the public API."),
    assistant("I read the notes.", call("notes", path="notes.md")),
    tool("notes", SECRET),
    *steps(30),
]


def summarized(messages: list[Chat] = TASK, **more: Any) -> tuple[Controller, CompactionSession[Chat]]:
    """Return a controller, and its session after a compaction of these messages."""
    hooks = controller(200_000, summarizer=Scripted("- facts"), **more)
    session = hooks.session("thread")
    session.compact_sync(messages, keep_recent_tokens=600)
    return hooks, session


def test_parts_are_in_the_order_of_the_list_with_their_place_and_source() -> None:
    _, session = summarized()
    covered = session.covered(TASK)
    first = covered[:3]
    assert [(part.kind, part.message, part.source) for part in first] == [
        ("text", 2, "the assistant"),
        ("arguments", 2, 'the arguments of read_file("notes.md")'),
        ("result", 3, 'read_file("notes.md")'),
    ]
    assert first[2].text == SECRET
    assert [part.message for part in covered] == sorted(part.message for part in covered)
    assert len({part.handle for part in covered}) == len(covered)


def test_nothing_is_covered_before_a_compaction_and_after_an_undo() -> None:
    hooks = controller(200_000, summarizer=Scripted())
    assert list(hooks.covered(TASK)) == []
    hooks.compact_sync(TASK, keep_recent_tokens=600)
    assert len(hooks.covered(TASK)) > 0
    hooks.undo()
    assert list(hooks.covered(TASK)) == []


def test_a_part_is_read_by_its_handle_line_by_line() -> None:
    messages = [user("go"), assistant(None, call("a")), tool("a", "\n".join(map(str, range(5_000)))), *steps(20)]
    _, session = summarized(messages)
    covered = session.covered(messages)
    handle = covered[1].handle
    first = covered.read(handle)
    assert (first.first_line, first.text[:4]) == (1, "0\n1\n")
    assert len(first.text) <= 8_000
    read, last = first.text, first.last_line
    while last < 5_000:
        following = covered.read(handle, lines=(last + 1, None))
        read, last = f"{read}\n{following.text}", following.last_line
    assert read == messages[2]["content"]
    assert covered.read(handle, lines=(12, 13)).text == "11\n12"
    assert covered.read(handle, lines=(0, -1)).text == covered.read(handle, lines=(1, 1)).text == "0"
    with pytest.raises(LookupError, match="'r1-abcdef' is not covered"):
        covered.read("r1-abcdef")


def test_a_search_finds_the_passage_with_the_rare_words() -> None:
    _, session = summarized()
    covered = session.covered(TASK)
    found = covered.search("which code closes the door? TX-48214")
    assert (found[0].part.text, found[0].text) == (SECRET, SECRET)
    assert sum(len(each.text) for each in found) <= 8_000
    assert covered.search("zyzzyva") == []
    assert covered.search("") == []


def read_all(*texts: str) -> list[Chat]:
    """Return a conversation in which the agent read these texts, long ago."""
    calls = [(assistant(None, call(f"r{n}", path=f"{n}.md")), tool(f"r{n}", text)) for n, text in enumerate(texts)]
    return [user("go"), *(message for pair in calls for message in pair), *steps(30)]


def search_all(query: str, texts: Sequence[str], *, said: str = "Done.", most_chars: int = 8_000) -> list[str]:
    """Return the passages that are found in texts that the agent read, after it said something that is in view."""
    _, session = summarized(read_all(*texts))
    covered = session.covered([*read_all(*texts), assistant(said), user("Go on.")])
    return [found.text for found in covered.search(query, most_chars=most_chars) if found.part.kind == "result"]


def test_a_search_for_many_names_shows_a_short_passage_of_each() -> None:
    names = [f"load_{word}" for word in ("user", "page", "token", "cache", "image", "order", "price", "state")]
    lines = "\n".join(f"a line of the file, number {n}" for n in range(20))
    found = search_all(", ".join(names), [f"{lines}\n{name}(key)\n{lines}" for name in names], most_chars=3_000)
    assert [name for name in names if not any(name in text for text in found)] == []


RATED = {
    "words that the view shows count little": ("parser loader ported vault", ["parser loader ported", "the vault"], 1),
    "a name counts more than its pieces": ("getUserPage parser", ["the parser gets a user page", "getUserPage()"], 1),
    "Chinese has no spaces": ("数据库连接", ["今天天气很好", "请检查数据库的设置", "没有问题"], 1),
}


@pytest.mark.parametrize(("query", "read", "first"), RATED.values(), ids=RATED)
def test_the_best_passage_is_first(query: str, read: list[str], first: int) -> None:
    assert search_all(query, read, said="The loader of the parser is ported.")[0] == read[first]


def test_each_word_is_shown_before_another_is_repeated() -> None:
    read = [f"alpha gamma {word}" for word in ("one", "two", "three", "four")] + ["beta"]
    assert search_all("alpha gamma beta", read)[1] == "beta"


def test_a_name_behind_an_escape_of_arguments_is_found() -> None:
    written = assistant(None, call("w", "write_file", path="a.py", text="import a\nload_user()"))
    messages = [user("go"), written, tool("w", "load the user file"), *steps(30)]
    _, session = summarized(messages)
    assert session.covered(messages).search("load_user in the file")[0].part.kind == "arguments"


def test_a_name_is_found_by_its_pieces_and_before_longer_ones() -> None:
    read = [
        assistant(None, call("a"), call("b")),
        tool("a", "class EventSessionStopHandler: ..."),
        tool("b", "class SessionStop: ..."),
    ]
    _, session = summarized([user("go"), *read, *steps(30)])
    covered = session.covered([user("go"), *read, *steps(30)])
    assert covered.search("SessionStop")[0].text == "class SessionStop: ..."
    assert {each.text for each in covered.search("event handler")} >= {"class EventSessionStopHandler: ..."}


def test_parts_are_listed_once_until_the_next_compaction_or_edit() -> None:
    messages = json.loads(json.dumps(TASK))
    _, session = summarized(messages)
    first = session.covered(messages)
    messages += talk(2)
    assert all(now is before for now, before in zip(session.covered(messages), first, strict=True))
    assert [part.text for part in session.covered(messages[:-3])] == [part.text for part in first]
    session.compact_sync(messages, keep_recent_tokens=300)
    assert len(session.covered(messages)) > len(first)
    messages[3]["content"] = "changed in place"
    assert list(session.covered(messages)) == []


def test_handles_are_the_same_in_another_process_and_another_format() -> None:
    _, session = summarized()
    handles = {part.handle for part in session.covered(TASK)}
    assert {"t1-59b4be", "a1-3b321f", "r2-6a5e3c"} <= handles
    chat, anthropic = OpenAIChatFormat(), AnthropicFormat()
    other = controller(200_000).session("elsewhere", anthropic)
    other.import_records(session.export_records())
    elsewhere = as_anthropic(piece for message in TASK for piece in chat.read(message))
    assert {part.handle for part in other.covered(elsewhere)} == handles
    session.compact_sync([*TASK, *steps(20, first=30)], keep_recent_tokens=600)
    assert handles < {part.handle for part in session.covered([*TASK, *steps(20, first=30)])}


def test_a_text_has_one_handle_however_it_is_cut() -> None:
    def handles(*said: Chat) -> set[str]:
        messages = [user("go"), *said, *talk(20)]
        _, session = summarized(messages)
        return {part.handle for part in session.covered(messages)}

    pieces: Any = [{"type": "text", "text": text} for text in ("I read", " the notes.")]
    whole = handles(assistant("I read the notes."))
    assert whole == handles(assistant(pieces)) == handles(assistant("I read"), assistant(" the notes."))


def test_arguments_that_the_host_wrote_anew_are_read_as_they_are_now() -> None:
    messages = json.loads(json.dumps(TASK))
    _, session = summarized(messages)
    assert session.covered(messages)[1].text == '{"path": "notes.md"}'
    messages[2]["tool_calls"][0]["function"]["arguments"] = '{"path":"notes.md"}'
    assert session.covered(messages)[1].text == '{"path":"notes.md"}'


def test_arguments_of_which_only_the_escapes_were_shortened_are_read_later() -> None:
    messages = [user("go")]
    for number in range(12):
        written = call(f"w{number}", "write")
        written["function"]["arguments"] = json.dumps({"text": f"\N{GRINNING FACE} and {number} " * 40})
        messages += [assistant(None, written), tool(f"w{number}", "ok")]
    messages.append(user("well?"))
    first = controller(8_000, settings=CompactionSettings(strategies=[ShortenParts()])).session("thread")
    assert first.compact_sync(messages, keep_recent_tokens=100).record is not None
    session = controller(8_000, summarizer=Scripted("- facts")).session("thread")
    session.import_records(first.export_records())
    messages += [*steps(8), user("and now?")]
    assert session.compact_sync(messages, keep_recent_tokens=100).record is not None
    covered = [part.text for part in session.covered(messages)]
    assert all(json.dumps({"text": f"\N{GRINNING FACE} and {number} " * 40}) in covered for number in range(12))


def test_a_stored_view_covers_no_text_that_it_lacks_and_knows_its_record_later() -> None:
    messages = [user("go"), assistant(None, call("x", path="a.py")), tool("x", prose(400)), *steps(40, 400)]
    session = controller(16_384).session("thread")
    cleared = session.transform_context_sync(messages)
    assert cleared[2] != messages[2]
    assert session.covered(messages)
    session.compact_sync(cleared, keep_recent_tokens=600)
    assert [part.text for part in session.covered(cleared) if "cleared:" in part.text] == []

    _, first = summarized()
    stored = [*first.compact_sync(TASK, keep_recent_tokens=600).messages, *talk(8)]
    later, fresh = (controller(200_000, summarizer=Scripted("- facts")).session("thread") for _ in range(2))
    later.covered(stored)
    for session in (later, fresh):
        session.import_records(first.export_records())
        session.compact_sync(stored, keep_recent_tokens=300)
    assert [part.handle for part in later.covered(stored)] == [part.handle for part in fresh.covered(stored)]


def test_a_pinned_message_of_a_stored_view_is_covered_once_it_is_left_out() -> None:
    first = controller(200_000, summarizer=Scripted("- facts")).session("thread")
    request = user("Port the parser to the new tables.")
    stored = first.compact_sync([request, *steps(12)], keep_recent_tokens=600).messages
    assert stored[1] is request
    messages = [*stored, assistant("Done."), user("Thank you."), *steps(12, first=20)]
    view = first.compact_sync(messages, keep_recent_tokens=600).messages
    assert request not in view
    assert [part.message for part in first.covered(messages) if part.text == request["content"]] == [1]


def test_handles_of_a_rewound_edited_or_trimmed_list_are_not_there() -> None:
    _, session = summarized()
    handle = next(part.handle for part in session.covered(TASK) if part.text == SECRET)
    edited = [*TASK[:3], tool("notes", "nothing"), *TASK[4:]]
    stored = session.compact_sync([*TASK, *talk(2)], keep_recent_tokens=600).messages
    for messages in (TASK[:2], TASK[:4], edited, TASK[10:], stored):
        assert session.covered(messages).find(handle) is None
    assert session.covered([*TASK, *talk(4)]).read(handle).text == SECRET


@cache
def texts_with_like_digests() -> tuple[str, str]:
    """Return two texts whose handles in one run would be the same."""
    found: dict[str, str] = {}
    for number in count():
        text = f"page {number}: {PAGE}end"
        begins = hashlib.sha256(text.encode()).hexdigest()[:6]
        if begins in found:
            return found[begins], text
        found[begins] = text
    raise AssertionError


def read_both(first: str, second: str) -> list[Chat]:
    """Return a conversation in which the agent read two texts with one answer, long ago."""
    both = assistant(None, call("a", path="a.md"), call("b", path="b.md"))
    return [user("go"), both, tool("a", first), tool("b", second), *steps(40, 400)]


def result_handles(session: CompactionSession[Chat], messages: list[Chat]) -> list[str]:
    return [part.handle for part in session.covered(messages) if part.message in (2, 3)]


@pytest.mark.parametrize("clears", [True, False], ids=["cleared", "summarized"])
def test_of_parts_with_the_same_short_handle_the_later_one_has_a_longer(clears: bool) -> None:
    first, second = texts_with_like_digests()
    messages = read_both(first, second)
    hooks = controller(16_384, summarizer=Scripted("- facts"), settings=CompactionSettings(clear_tool_results=clears))
    session = hooks.session("thread")
    recall = session.recall_tool(lambda: messages)
    view = session.transform_context_sync(messages)
    short, long = result_handles(session, messages)
    assert long[:-1] == short
    if clears:
        assert [short in json.dumps(view[place]) for place in (2, 3)] == [True, True]
        assert [long in json.dumps(view[place]) for place in (2, 3)] == [False, True]
    for handle, text, other in ((short, first, second), (long, second, first)):
        assert text in recall(handle)
        assert other not in recall(handle)

    restarted = controller(16_384, summarizer=Scripted("- facts")).session("thread")
    restarted.import_records(session.export_records())
    assert result_handles(restarted, messages) == [short, long]
    messages += steps(20, 400, first=40)
    restarted.compact_sync(messages, keep_recent_tokens=600)
    assert result_handles(restarted, messages) == [short, long]


def test_a_longer_handle_stays_when_the_host_stores_the_view_without_the_earlier_part() -> None:
    first, second = texts_with_like_digests()
    messages = read_both(first, second)
    session = controller(16_384).session("thread")
    session.recall_tool(lambda: messages)
    view = session.transform_context_sync(messages)
    _, long = result_handles(session, messages)
    stored = [*messages[:2], view[2], *messages[3:]]
    session.compact_sync(stored, keep_recent_tokens=600)
    assert session.covered(stored).read(long).text == second


def test_arguments_with_the_same_short_handle_are_told_apart() -> None:
    found: dict[str, str] = {}
    for number in count():
        written = json.dumps({"path": f"{number}.md"}, separators=(",", ":"))
        begins = hashlib.sha256(written.encode()).hexdigest()[:6]
        if begins in found:
            break
        found[begins] = written
    calls = [call("a"), call("b")]
    for each, text in zip(calls, (found[begins], written), strict=True):
        each["function"]["arguments"] = text
    messages = [user("go"), assistant(None, *calls), tool("a", "x"), tool("b", "y"), *steps(30)]
    _, session = summarized(messages)
    covered = [part for part in session.covered(messages) if part.message == 1]
    assert [part.text for part in covered] == [found[begins], written]
    assert [session.covered(messages).find(part.handle) for part in covered] == covered


NAMES = [f"{first}{second}_{number}" for number in range(9) for first in ("user", "page") for second in "ABCDEFGH"]
LONG_LINES = {
    "minified JSON": (
        json.dumps([{"name": name, "at": n} for n, name in enumerate(NAMES)], separators=(",", ":")),
        NAMES,
    ),
    "paths": (
        " ".join(f"src/{name}/{name}.py" for name in NAMES[:40]),
        [f"src/{name}/{name}.py" for name in NAMES[:40]],
    ),
    "addresses": (",".join(f"{name}+a#b@x.org" for name in NAMES[:40]), [f"{name}+a#b@x.org" for name in NAMES[:40]]),
    "escapes": ("x" * 397 + r"\nload_users " + "y" * 397 + r" \nload_pages", ["load_users", "load_pages"]),
    "data": ("=".join(character * 1_000 for character in "abcd"), [character * 1_000 for character in "abcd"]),
}


@pytest.mark.parametrize(("line", "names"), LONG_LINES.values(), ids=LONG_LINES)
def test_each_name_of_a_long_line_is_found(line: str, names: list[str]) -> None:
    messages = [user("go"), assistant(None, call("a")), tool("a", "ok"), *steps(30)]
    messages[1]["tool_calls"][0]["function"]["arguments"] = line
    _, session = summarized(messages)
    covered = session.covered(messages)
    assert "".join(covered[0].lines) == line
    assert max(map(len, covered[0].lines)) <= 400
    lost = [name for name in names if not any(name[:400] in found.text for found in covered.search(name))]
    assert lost == []


def test_neither_the_list_nor_the_session_is_changed() -> None:
    _, session = summarized()
    before, state = json.dumps(TASK), session.state()
    view = session.transform_context_sync(TASK)
    session.covered([*TASK[:8], user("something else")])
    assert json.dumps(TASK) == before
    assert session.state().compaction_count == state.compaction_count
    assert session.transform_context_sync(TASK) == view
    assert session.record is not None


def test_pinned_messages_and_the_current_request_are_in_view_and_not_covered() -> None:
    rule = user("Never touch the public API.")
    messages: list[Mapping[str, Any]] = [rule, assistant("Understood."), user("Port it."), *steps(30)]
    hooks = controller(200_000, summarizer=Scripted("- facts"))
    hooks.pin(rule)
    hooks.compact_sync(messages, keep_recent_tokens=600)
    said = [part.text for part in hooks.covered(messages) if part.kind == "text" and part.role == "user"]
    assert said == []


SEARCH = """
from random import Random
from compaction_hooks.recall import Covered, CoveredPart
from compaction_hooks.recall.covered import Index

random = Random(20)
words = [f"word{first}{second}" for first in "abcdef" for second in "ghij"]
lines = [[" ".join(random.sample(words, random.randint(3, 6))) for _ in range(3)] for _ in range(30)]
parts = [
    CoveredPart(handle=f"t{run}", kind="text", role="user", text=chr(10).join(of_run), message=run)
    for run, of_run in enumerate(lines)
]
print([(one.part.handle, one.first_line) for one in Covered(Index(parts)).search(" ".join(words), most_chars=900)])
"""


def test_lines_of_equal_worth_are_found_in_the_same_order_by_every_process() -> None:
    """The order of a set of words depends on the process, and so does the rounding of a sum in that order."""
    found = {
        subprocess.run(
            [sys.executable, "-c", SEARCH],
            check=True,
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1
