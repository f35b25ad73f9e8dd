"""What is kept of a list while it changes is what a reading from scratch gives; a glance gives what a look gives."""

from __future__ import annotations

import copy
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compaction_hooks import (
    CompactionController,
    CompactionSession,
    CompactionSettings,
    ContextOverflowError,
    SummaryRequest,
    Usage,
)
from compaction_hooks.history import History, HistoryReader, Known
from compaction_hooks.runtime.effects import Instant
from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing.edits import EDITS
from compaction_hooks.testing.generated import BEATS, Writer
from compaction_hooks.testing.hosts import ANTHROPIC, OPENAI_CHAT, Dialect
from compaction_hooks.testing.texts import Choose
from tests.sizes import examples

Chat = Mapping[str, object]

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
        """Say more, in the same list object or in a new one."""
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
        """Make equal objects anew: all, or some."""
        start = self.choose(len(self.messages) + 1)
        end = start + self.choose(len(self.messages) - start + 1)
        made = copy.deepcopy(self.messages[start:end])
        self.lists[0] = [*self.messages[:start], *made, *self.messages[end:]]

    def switch(self) -> None:
        """Go on with the other list."""
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
    runs = range(history.base, history.run_count)
    return {
        "pieces": [(p.message, p.host, p.number, p.tokens, p.side) for p in history.pieces()],
        "one by one": [history.piece(index).message for index in range(history.piece_count)],
        "hosts": history.hosts(),
        "host pieces": [history.host_pieces(index) for index in range(history.host_count)],
        "runs": [(history.run_side(run), history.run_pieces(run), history.starts_turn(run)) for run in runs],
        "run of": [history.run_of(index) for index in range(history.piece_count)],
        "ordinals": [history.call_ordinals(run) for run in runs],
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
    reader: HistoryReader[Chat] = HistoryReader(dialect.format, lambda message: 3 + len(message.text), "[S]")
    known = Known()
    history: History[Chat] | None = None
    earlier: list[tuple[History[Chat], dict[str, object]]] = []
    for action in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=14)):
        if action == "write_into":
            if history is not None:
                host.write_into(history.log.watched_from)
        else:
            getattr(host, action)()
        if host.is_written_into:
            earlier.clear()
        history = reader.sync(history, host.messages, known)
        fresh = reader.read(host.messages, known)
        assert_same(history, fresh)
        assert [*history.boundaries(0)] == [*fresh.boundaries(0)]
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


class Twin:
    """A controller with a conversation, one of two that live the same life."""

    def __init__(self, window: int, options: Mapping[str, Any], format: Any, *, has_store: bool, glances: bool) -> None:
        self.controller: CompactionController[Chat] = CompactionController(
            context_window=window,
            settings=CompactionSettings(**options),
            summarizer=counted_up,
            format=format,
            store=MemoryStore() if has_store else None,
            clock=lambda: Instant(datetime(2026, 1, 1, tzinfo=UTC), 1.0),
        )
        self.glances = glances
        self.view: list[Chat] = []

    @property
    def session(self) -> CompactionSession[Chat]:
        return self.controller.session("main")

    def transform(self, messages: list[Chat], options: Mapping[str, Any], id: str = "main") -> list[Chat]:
        session = self.controller.session(id)
        if not self.glances:
            session.engine.conversation.frame = None
        view = session.transform_context_sync(messages, **options)
        if id == "main":
            self.view = view
        return view

    def ask(self, messages: list[Chat], options: Mapping[str, Any], response: object) -> None:
        """Send a view, and get this response."""
        if not self.glances:
            self.session.engine.conversation.frame = None

        def send(view: list[Chat]) -> object:
            self.view = view
            return response

        self.session.call_sync(messages, send, **options)

    def seen(self) -> tuple[object, ...]:
        conversation = self.session.engine.conversation
        shown = conversation.last_sent
        return (
            self.view,
            replace(
                self.session.state(), is_estimate=True
            ),  # of the very same list a glance remembers that it was counted
            [record.id for record in self.session.history()],
            shown and (shown.tokens, shown.budget, shown.key.estimated, shown.key.record_id),
            shown is not None and shown.view is self.view,
            conversation.sizes.baseline and conversation.sizes.baseline.input_tokens,
        )


def on_both(twins: tuple[Twin, Twin], act: Callable[[Twin], object]) -> None:
    """Do the same to both; an overflow that cannot be cured is one for both."""
    outcomes: list[object] = []
    for twin in twins:
        try:
            act(twin)
            outcomes.append(None)
        except (ContextOverflowError, RuntimeError) as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


CALLS: tuple[Mapping[str, Any], ...] = (
    {},
    {},
    {},
    {"model": "gpt-4o"},
    {"system": "Be brief. " * 40},
    {"tools": [{"name": "read_file", "description": "reads " * 60}]},
    {"max_output_tokens": 900},
    {"context_window": 3_000, "model": "unheard-of"},
    {"repair": True},
)
LIFE = (*("append",) * 8, *("call",) * 6, "edit", "take_back", "redo", "redo", "copies", "switch", "report", "report")
WORLD = (
    "ask",
    "ask",
    "report_nonsense",
    "overflow",
    "others_report",
    "undo",
    "pin",
    "compact",
    "view_becomes_list",
    "fill_view",
)


@QUICK
@given(
    data=st.data(),
    seed=st.integers(0, 1_000_000),
    window=st.sampled_from(WINDOWS),
    options=st.fixed_dictionaries(
        {"clear_tool_results": st.booleans()},
        optional={
            "repair": st.just(True),
            "is_subagent": st.just(True),
            "auto_compact": st.just(False),
            "compact_on_overflow": st.just(False),
        },
    ),
    has_store=st.booleans(),
    dialect=st.sampled_from(DIALECTS),
)
def test_a_glance_gives_what_a_look_gives(
    data: Any, seed: int, window: int, options: Mapping[str, Any], has_store: bool, dialect: Dialect
) -> None:
    host = Host(random.Random(seed).randrange, dialect)
    twins = (
        Twin(window, options, dialect.format, has_store=has_store, glances=True),
        Twin(window, options, dialect.format, has_store=has_store, glances=False),
    )
    call: Mapping[str, Any] = {}
    for action in data.draw(st.lists(st.sampled_from((*LIFE, *WORLD)), min_size=4, max_size=24)):
        if action == "call":
            call = CALLS[host.choose(len(CALLS))]
        elif action in WORLD or action == "report":
            happen(action, host, twins, call)
            assert twins[0].seen() == twins[1].seen()
        else:
            getattr(host, action)()
        messages, said = host.messages, [*host.messages]
        on_both(twins, lambda twin: twin.transform(messages, call))  # noqa: B023 - called here
        assert host.messages == said
        assert twins[0].seen() == twins[1].seen()
        if twins[0].view is messages:
            continue
        own = set(map(id, messages))
        made = [[id(message) in own for message in twin.view] for twin in twins]
        assert made[0] == made[1]


def happen(action: str, host: Host, twins: tuple[Twin, Twin], call: Mapping[str, Any]) -> None:
    """What the world does to a conversation."""
    messages, number = host.messages, host.choose(100)
    tokens = twins[0].session.state().context_tokens or 0
    if action == "report":
        usage = Usage(input_tokens=int(tokens * (0.6 + number / 80)) + number)
        on_both(twins, lambda twin: twin.session.report_usage(usage, view=twin.view if number % 2 else None))
    elif action == "ask":
        counted = Usage(input_tokens=int(tokens * (0.7 + number / 80)) + 1, output_tokens=number)
        response = host.dialect.respond({"role": "assistant", "content": "so"}, counted)
        on_both(twins, lambda twin: twin.ask(messages, call, response))
    elif action == "report_nonsense":
        on_both(twins, lambda twin: twin.session.report_usage(Usage(input_tokens=50_000_000)))
    elif action == "overflow":
        error = RuntimeError(f"This model's maximum context length is {1_500 + 50 * number} tokens.")
        on_both(twins, lambda twin: twin.session.recover_sync(error, messages, **call))
    elif action == "others_report":
        others = [*messages]
        on_both(twins, lambda twin: twin.transform(others, {}, "other"))
        report = Usage(input_tokens=2 * tokens + number)
        on_both(twins, lambda twin: twin.controller.session("other").report_usage(report))
    elif action == "undo":
        on_both(twins, lambda twin: twin.session.undo())
    elif action == "pin" and messages:
        on_both(twins, lambda twin: twin.session.pin(messages[number % len(messages)]))
    elif action == "compact":
        on_both(twins, lambda twin: twin.session.compact_sync(messages, keep_recent_tokens=200, **call))
    elif action == "view_becomes_list":
        own = set(map(id, messages))  # what one of the two has made is no message of the other's
        host.lists[0] = [message if id(message) in own else copy.deepcopy(message) for message in twins[0].view]
    elif action == "fill_view":
        twins[0].view[:] = messages
        twins[1].view[:] = messages


@QUICK
@given(
    data=st.data(),
    seed=st.integers(0, 1_000_000),
    clears=st.booleans(),
    dialect=st.sampled_from(DIALECTS),
)
def test_a_session_shows_what_a_new_process_would_show(data: Any, seed: int, clears: bool, dialect: Dialect) -> None:
    """From the same records, and of the host's own messages."""
    host = Host(random.Random(seed).randrange, dialect)
    options = {"clear_tool_results": clears}
    twin = Twin(4_096, options, dialect.format, has_store=False, glances=True)
    for action in data.draw(st.lists(st.sampled_from((*LIFE, "compact", "undo")), min_size=4, max_size=24)):
        if action == "undo":
            twin.session.undo()
        elif action == "compact":
            on_both((twin, twin), lambda one: one.session.compact_sync(host.messages, keep_recent_tokens=300))
        elif action not in ("call", "report"):
            getattr(host, action)()
        view = twin.transform(host.messages, {})
        other = Twin(1_000_000, options, dialect.format, has_store=False, glances=True)
        other.session.import_records(twin.session.export_records())
        assert other.transform(host.messages, {}) == view
        shown, own = twin.session.engine.conversation.projected, set(map(id, host.messages))
        assert shown is not None
        made = len(shown[1].prefix) if view is not host.messages else 0
        assert all(id(message) in own for message in view[made:])
