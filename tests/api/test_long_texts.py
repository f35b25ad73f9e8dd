"""Texts of megabytes in a conversation: no step of a summary takes the interpreter, which other threads wait for, for long."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType

import pytest

from compaction_hooks import CompactionController, ExtractiveSummarizer, Summary, SummaryRequest
from tests.conversations import Chat, assistant, call, steps, tool, user

pytestmark = pytest.mark.full

COLOURED = "\x1b[32mok\x1b[0m test_a.py\n"


def conversation(argument: object = "ls", result: str = "ok") -> list[Chat]:
    big = [assistant("Running.", call("big", "run", rows=argument)), tool("big", result)]
    return [user("go"), *big, *steps(20, 400), user("next")]


@contextmanager
def longest_piece() -> Iterator[list[float]]:
    """Note the most CPU time between two calls or returns, be it of Python or C, in threads that are begun meanwhile."""
    longest, last = [0.0], threading.local()

    def watch(_frame: FrameType, _event: str, _arg: object) -> None:
        now = time.thread_time()
        longest[0] = max(longest[0], now - getattr(last, "time", now))
        last.time = time.thread_time()

    threading.setprofile(watch)
    try:
        yield longest
    finally:
        threading.setprofile(None)


def cpu_of_reading(text: str) -> float:
    start = time.thread_time()
    json.loads(text)
    return time.thread_time() - start


async def test_no_piece_of_the_default_summary_reads_a_whole_long_argument() -> None:
    """The digest of the record does, once."""
    pieces: list[float] = []

    def summarize(request: SummaryRequest) -> Summary:
        with longest_piece() as longest, ThreadPoolExecutor() as pool:
            summary = pool.submit(ExtractiveSummarizer(), request).result()
        pieces.extend(longest)
        return summary

    baseline = cpu_of_reading(json.dumps([[]] * 95_000))
    for _ in range(3):  # a busy machine may double one of these times
        await CompactionController(context_window=8_192, summarizer=summarize).compact(conversation([[]] * 95_000))
    assert 0 < min(pieces) < baseline / 2


@pytest.mark.parametrize("answer", ["</summary> abc", "</summary>\n"])
async def test_no_check_reads_the_whole_of_a_long_answer_by_a_pattern(answer: str) -> None:
    text = "<summary>" + answer * (400_000 // len(answer))
    baseline = cpu_of_reading(json.dumps([[]] * 95_000))
    pieces: list[float] = []
    for _ in range(3):
        with longest_piece() as longest:
            await CompactionController(context_window=8_192, summarizer=lambda _: text).compact(conversation())
        pieces.extend(longest)
    assert 0 < min(pieces) < baseline / 2


@pytest.mark.parametrize("line", [COLOURED, "<system-reminder>read\n", "a line of code\n"])
async def test_a_prompt_is_made_without_reading_the_whole_of_a_long_result(line: str) -> None:
    """To take the colors out of 100 MB stopped the event loop for four seconds: ten times the digest of these 20 MB.

    Of three: the first one compiles patterns.
    """
    result = line * (20_000_000 // len(line))
    took: list[float] = []

    async def model(request: SummaryRequest) -> str:
        start = time.thread_time()
        assert "characters left out" in request.prompt
        took.append(time.thread_time() - start)
        return "## Goal\n- go on"

    start = time.thread_time()
    hashlib.sha256(result.encode()).hexdigest()
    baseline = time.thread_time() - start
    for _ in range(3):
        await CompactionController(context_window=8_192, summarizer=model).compact(conversation("ls", result))
    assert min(took) < 4 * baseline


FOREIGN = "This session is being continued from a previous conversation\n"
SLOW = {
    "line breaks in commands": [
        message
        for id in ("a", "b", "c", "d", "e", "f")
        for message in (assistant("Run.", call(id, "bash", command=f"cat {id}" + "\n" * 20_000)), tool(id, "ok"))
    ],
    "entities in a line": [user("&nbsp;" * 22 + "x")],
    "drafts without an end": [user(FOREIGN + "<analysis>" * 30_000)],
    "a heading of spaces": [user(FOREIGN + "# " + " " * 2_000 + "x" * 101)],
    "answers without an end": [
        assistant("<attempt_completion>"),
        user("[attempt_completion] Result:\n" + "<answer>\n" * 20_000),
    ],
    "tags in tags": [assistant("<read_file>" + "<args>" * 20_000), user("[read_file for 'a'] Result:\nx")],
}
"""Texts that took between two seconds and minutes, or ended in an error."""


@pytest.mark.parametrize("messages", SLOW.values(), ids=SLOW)
async def test_no_text_makes_a_compaction_slow(messages: list[Chat]) -> None:
    start = time.thread_time()
    result = await CompactionController(context_window=8_192).compact(
        [user("go"), *messages, *steps(20, 400), user("next")]
    )
    assert result.outcome == "compacted"
    assert time.thread_time() - start < 1.0


async def test_a_search_reads_the_arguments_of_a_call_once() -> None:
    session = CompactionController(context_window=8_192).session("a")
    insert = [call("a", "insert", rows="name " * 160_000), call("b", "list")]
    answers = [tool("a", "ok"), tool("b", "name\n" * 400)]
    messages = [user("go"), assistant("Run.", *insert), *answers, *steps(20, 400), user("next")]
    await session.compact(messages)
    start = time.thread_time()
    assert "name" in session.recall_tool(lambda: messages)("name")
    assert time.thread_time() - start < 1.0
