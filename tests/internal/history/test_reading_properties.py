"""What is kept of a list while it changes is what a reading from scratch gives."""

from __future__ import annotations

import copy
import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import pytest

from tests.conversations import Chat

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compaction_hooks import (
    CompactionController,
    CompactionSession,
    CompactionSettings,
    ContextOverflowError,
    SummaryRequest,
)
from compaction_hooks.history import History, HistoryReader, OwnTexts
from compaction_hooks.messages import as_format
from compaction_hooks.testing.generated import BEATS, Writer
from compaction_hooks.testing.texts import Choose
from tests.dialects import ANTHROPIC, OPENAI_CHAT, Dialect
from tests.edits import EDITS
from tests.strategies import examples

QUICK = settings(examples(300), suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))
DIALECTS = (OPENAI_CHAT, ANTHROPIC)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """What does not fit says so, hundreds of times."""
    logger = logging.getLogger("compaction_hooks")
    logger.disabled = True
    yield
    logger.disabled = False


WINDOWS = (2_048, 4_096, 8_192, 100_000)


class Host:
    """A host with two lists, and what it does to them.

    Attributes:
        lists: Its branches; each step is about the first one.
        is_edited: Whether anything but appending happened to what was read before.
        is_written_into: Whether a message was changed in place.
    """

    def __init__(self, choose: Choose, dialect: Dialect) -> None:
        self.choose, self.dialect = choose, dialect
        self.writer = Writer(choose)
        self.lists: list[list[Chat]] = [[], []]
        self.taken_back: list[Chat] = []
        self.is_edited = self.is_written_into = False

    @property
    def messages(self) -> list[Chat]:
        return self.lists[0]

    def write(self) -> list[Chat]:
        """A few new messages; answers may carry usage."""
        beat = BEATS[self.choose(len(BEATS))]
        found = [cast("dict[str, object]", message) for message in self.dialect.write(list(beat(self.writer)))]
        for message in found:
            if message["role"] == "assistant" and self.choose(6) == 5:
                message["usage"] = {"input_tokens": 200 + self.choose(3_000), "output_tokens": 5}
        return [*found]

    def append(self) -> None:
        if self.choose(2):
            self.lists[0] = [*self.messages]
        self.messages.extend(self.write())

    def edit(self) -> None:
        self.is_edited = True
        new = self.write() or [{"role": "user", "content": "again"}]
        self.lists[0] = EDITS[self.choose(len(EDITS))](self.choose, self.messages, new[0])

    def take_back(self) -> None:
        """Rewind, so that the very same messages can be said again."""
        end = len(self.messages) - self.choose(len(self.messages) + 1)
        self.is_edited, self.taken_back = True, self.messages[end:]
        self.lists[0] = self.messages[:end]

    def redo(self) -> None:
        """Say some of what was taken back again."""
        count = self.choose(len(self.taken_back) + 1)
        self.lists[0] = [*self.messages, *self.taken_back[:count]]
        self.taken_back = self.taken_back[count:]

    def copies(self) -> None:
        start = self.choose(len(self.messages) + 1)
        end = start + self.choose(len(self.messages) - start + 1)
        made = copy.deepcopy(self.messages[start:end])
        self.lists[0] = [*self.messages[:start], *made, *self.messages[end:]]

    def switch(self) -> None:
        self.is_edited = True
        if not self.lists[1] or self.choose(4) == 3:
            self.lists[1] = [*self.messages]
        self.lists.reverse()

    def write_into(self, first: int) -> None:
        """Change a message in place, from `first` on, unless it stands in the list twice: an older one is trusted."""
        stands = Counter(map(id, self.messages))
        alone = [message for message in self.messages[first:] if stands[id(message)] == 1]
        if alone:
            self.is_edited = self.is_written_into = True
            message = cast("dict[str, object]", alone[self.choose(len(alone))])
            if isinstance(message["content"], list):
                message["content"] = [*message["content"], {"type": "text", "text": "more"}]
            else:
                message["content"] = f"{message['content']} and more"


# -- a history


def facts(history: History[Chat]) -> dict[str, object]:
    """All that can be asked of a history, but for its boundaries, which a result that comes later may take away."""
    runs = range(history.runs_before_list, history.run_count)
    return {
        "pieces": [(p.message, p.host, p.number, p.tokens, p.side) for p in history.pieces()],
        "one by one": [history.piece(index).message for index in range(history.piece_count)],
        "hosts": history.hosts(),
        "host pieces": [history.host_pieces(index) for index in range(history.host_count)],
        "runs": [(history.run_side(run), history.run_pieces(run), history.starts_turn(run)) for run in runs],
        "run of": [history.run_of(index) for index in range(history.piece_count)],
        "ordinals": [history.run_calls(run) for run in runs],
        "request": history.request,
        "systems": history.systems(),
        "tokens": [history.tokens(index) for index in range(history.piece_count + 1)],
        "summary": history.summary_piece,
        "digests": [history.digest_before(run) for run in range(history.run_count + 2)],
    }


def assert_same(kept: History[Chat], fresh: History[Chat]) -> None:
    found, wanted = facts(kept), facts(fresh)
    for name, value in wanted.items():
        assert found[name] == value, name


@QUICK
@given(data=st.data(), seed=st.integers(0, 1_000_000), dialect=st.sampled_from(DIALECTS))
def test_a_history_that_is_kept_is_the_one_that_is_read_from_scratch(data: Any, seed: int, dialect: Dialect) -> None:
    host = Host(random.Random(seed).randrange, dialect)
    reader: HistoryReader[Chat] = HistoryReader(as_format(dialect.format), lambda message: 3 + len(message.text), "[S]")
    known = OwnTexts()
    history: History[Chat] | None = None
    earlier: list[tuple[History[Chat], dict[str, object]]] = []
    for action in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=14)):
        if action == "write_into":
            if history is not None:
                host.write_into(history.watched_from)
        else:
            getattr(host, action)()
        if host.is_written_into:
            earlier.clear()
        history = reader.sync(history, host.messages, known)
        fresh = reader.read(host.messages, known)
        assert_same(history, fresh)
        runs = range(history.run_count)
        assert [*map(history.is_boundary, runs)] == [*map(fresh.is_boundary, runs)]
        assert [*history.answers()] == [*fresh.answers()]
        counted, wanted = [*history.counted_answers()], [*fresh.counted_answers()]
        assert set(counted) <= set(wanted)
        assert host.is_edited or counted == wanted
        for old, said in earlier:
            assert facts(old) == said
        if history.piece_count and history.piece(history.piece_count - 1).side is not None:
            # Reasoning at the end belongs to what comes next, and so to another run once that is there.
            earlier = [*earlier[-2:], (history, facts(history))]
        host.is_written_into = False


ACTIONS = ("append",) * 6 + ("edit", "take_back", "redo", "copies", "switch", "write_into", "write_into")


# -- a session


def counted_up(request: SummaryRequest) -> str:
    """A summary that tells what it covers, the same for the same request."""
    return f"## Goal\n- {len(request.messages)} messages, {len(request.prompt)} characters"


def opened(window: int, dialect: Dialect, *, clears: bool) -> CompactionSession[Chat]:
    controller: CompactionController[Chat] = CompactionController(
        context_window=window,
        settings=CompactionSettings(clear_tool_results=clears),
        summarizer=counted_up,
        format=dialect.format,
    )
    return controller.session("main")


LIFE = (*("append",) * 8, *("call",) * 6, "edit", "take_back", "redo", "redo", "copies", "switch", "compact", "undo")


@QUICK
@given(data=st.data(), seed=st.integers(0, 1_000_000), clears=st.booleans(), dialect=st.sampled_from(DIALECTS))
def test_a_session_has_the_view_of_a_new_process(data: Any, seed: int, clears: bool, dialect: Dialect) -> None:
    """From the same records, and of the host's own messages."""
    host = Host(random.Random(seed).randrange, dialect)
    session = opened(4_096, dialect, clears=clears)
    for action in data.draw(st.lists(st.sampled_from(LIFE), min_size=4, max_size=24)):
        if action == "undo":
            session.undo()
        elif action == "compact":
            with suppress(ContextOverflowError):
                session.compact_sync(host.messages, keep_recent_tokens=300)
        elif action != "call":
            getattr(host, action)()
        said = [*host.messages]
        view = session.transform_context_sync(host.messages)
        assert host.messages == said
        other = opened(1_000_000, dialect, clears=clears)
        other.import_records(session.export_records())
        assert other.transform_context_sync(host.messages) == view
        shown, own = session.engine.conversation.newest_snapshot, set(map(id, host.messages))
        assert shown is not None
        made = len(shown.view.references) if view is not host.messages else 0
        assert all(id(message) in own for message in view[made:])
