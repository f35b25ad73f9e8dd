"""Several processes on one store: workers that compact one conversation at once, and workers that are killed."""

import asyncio
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from compaction_hooks import CompactionController, SummaryRequest
from compaction_hooks.stores import MemoryStore, SQLiteStore
from tests.cases import sampled
from tests.conversations import system, talk, texts
from tests.stores.kills import check_kills
from tests.stores.stage import check_two_workers, with_ending

needs_kill = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


@pytest.mark.parametrize(
    ("ways", "is_ahead"),
    [
        pytest.param(("- by a", "- by b"), False, id="differing summaries"),
        pytest.param(("- the same", "- the same"), False, id="the same summary", marks=pytest.mark.full),
        pytest.param(("- by a", "- by b"), True, id="one is a turn ahead", marks=pytest.mark.full),
    ],
)
def test_two_workers_at_once_are_both_right_and_agree(tmp_path: Path, ways: tuple[str, str], is_ahead: bool) -> None:
    """See `check_two_workers` for what must hold."""
    check_two_workers("sqlite", str(tmp_path / "records.db"), ways=ways, is_ahead=is_ahead)


@needs_kill
@pytest.mark.parametrize("seed", sampled(range(5), 2))
def test_a_process_killed_while_it_makes_the_file_leaves_one_that_opens(tmp_path: Path, seed: int) -> None:
    assert check_kills("sqlite", str(tmp_path / "records.db"), 1, seed=seed, saves=1).rounds == 1


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_nothing_is_held_while_a_summary_is_written(kind: str, tmp_path: Path) -> None:
    """Other conversations of the same controller go on, and another process could take the whole file for itself."""
    path = tmp_path / "records.db"
    store = MemoryStore() if kind == "memory" else SQLiteStore(path)
    asked, release = asyncio.Event(), asyncio.Event()

    async def slow_for_one(request: SummaryRequest) -> str:
        if "Question 0:" in request.transcript:
            asked.set()
            await release.wait()
        return "- done"

    controller = CompactionController(context_window=8_192, summarizer=slow_for_one, store=store)
    slow = asyncio.create_task(controller.session("one").transform_context([system(), *talk(15)]))
    await asked.wait()
    other = await controller.session("two").transform_context([system(), *talk(15, first=100)])
    assert "- done" in texts(other)
    store.append("one", "probe", "{}")
    store.remove("one", "probe")
    if kind == "sqlite":
        alone = sqlite3.connect(path, timeout=0, isolation_level=None)
        alone.execute("BEGIN EXCLUSIVE")
        alone.execute("ROLLBACK")
        alone.close()
    assert not slow.done()
    release.set()
    assert "- done" in texts(await slow)
    if isinstance(store, SQLiteStore):
        store.close()


async def test_a_later_worker_continues_from_the_saved_summary(tmp_path: Path) -> None:
    """The summary of the first is in the request for the second: nothing that was paid for is paid for again."""
    requests: list[SummaryRequest] = []

    def summarize(request: SummaryRequest) -> str:
        requests.append(request)
        return f"- summary {len(requests)}"

    messages: list[Mapping[str, object]] = [system(), *talk(15)]
    for number in range(4):
        with SQLiteStore(tmp_path / "records.db") as store:
            controller = CompactionController(context_window=8_192, summarizer=summarize, store=store)
            view = await controller.session("one").transform_context(with_ending(messages))
            assert f"- summary {number + 1}" in texts(view)
        messages = [*messages, *talk(15, first=100 * (number + 1))]
    first, *others = (request.previous_summary for request in requests)
    assert first is None
    assert [(told or "").partition("\n")[0] for told in others] == ["- summary 1", "- summary 2", "- summary 3"]
