"""The quiet way: calls in which nothing can be due give the views that the regular way gives."""

import copy
import json
import random
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionSession, CompactionSettings, ContextOverflowError, Usage
from compaction_hooks.formats import OpenAIChatFormat
from compaction_hooks.messages import Message
from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing import generated_history
from compaction_hooks.tokens import message_tokens
from compaction_hooks.triggers import Due, ReserveTrigger, SnapshotFigures
from tests.cases import sampled
from tests.conversations import Chat, Scripted, assistant, call, prose, steps, system, tool, user
from tests.formats.plain import WRITERS

WINDOW = 6_000


class Asked:
    """`ReserveTrigger()` as a trigger of the host's own, which is asked in each call: nothing is quiet."""

    def due(self, snapshot: SnapshotFigures, /) -> Due | None:
        return ReserveTrigger().due(snapshot)


class Side:
    """A controller of one of the two kinds, with its sessions of one conversation."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._settings = CompactionSettings() if is_quiet else CompactionSettings(trigger=Asked())
        self._store = MemoryStore()
        self.restart()

    def restart(self) -> None:
        hooks: CompactionController[Any] = CompactionController(
            context_window=WINDOW, summarizer=Scripted(), settings=self._settings, store=self._store
        )
        self.session: CompactionSession[Any] = hooks.session("one")

    def show(self, messages: list[Chat], counted: int | None) -> list[Chat]:
        view = self.session.transform_context_sync(messages)
        if counted is not None:
            self.session.report_usage(Usage(input_tokens=counted), view)
        return view

    def call(self, messages: list[Chat], counted: int | None, ending: str) -> list[list[Chat]]:
        """Return the views that a model call sends; the provider refuses the first one as too long if the ending says so."""
        sent: list[list[Chat]] = []

        def send(view: list[Chat]) -> object:
            sent.append(view)
            if ending == "refused" and len(sent) == 1:
                raise RuntimeError(
                    f"This model's maximum context length is {WINDOW} tokens. However, you requested {WINDOW + 500} tokens"
                )
            usage = (
                None
                if counted is None
                else {"prompt_tokens": counted, "completion_tokens": 0 if ending == "length" else 9}
            )
            return {"choices": [{"finish_reason": ending}], "usage": usage}

        try:
            self.session.call_sync(messages, send)
        except ContextOverflowError:
            sent.append([])
        return sent


def written(seed: int, form: str) -> list[Chat]:
    """Return a generated history in a format; in other formats than chat, answers without a call are words of the user."""
    source = generated_history(seed)
    if form == "openai_chat":
        return source
    found: list[Chat] = []
    names: dict[str, str] = {}
    for (message,) in map(OpenAIChatFormat().read, source):
        calls = [(call.id, call.name, json.loads(call.arguments or "{}")) for call in message.calls]
        names.update((id, name) for id, name, _ in calls)
        answers = [(one.call_id, names.get(one.call_id, "tool"), one.text) for one in message.results]
        results: list[tuple[str, str, str] | None] = [*answers] or [None]
        for result in results:
            words = [message.text] if message.text and not result else []
            if form == "openai_responses":  # one call is one item
                found += [WRITERS[form](words, [call], None) for call in calls]
            if form != "openai_responses" or not calls:
                found.append(WRITERS[form](words, calls, result))
    return found


def play(seed: int, form: str = "openai_chat") -> list[tuple[object, object]]:
    """Play one generated conversation on both sides, with edits, rewinds, pins, undos, restarts; return the views and states."""
    chance = random.Random(seed)
    source = written(seed, form)
    sides = Side(is_quiet=True), Side(is_quiet=False)
    lists: tuple[list[Chat], list[Chat]] = ([], [])
    found: list[tuple[object, object]] = []
    reports, calls, place = chance.random() < 0.5, seed % 2, 0
    while place < len(source):
        count = chance.randint(1, 4)
        for messages in lists:
            messages += copy.deepcopy(source[place : place + count])
        place += count
        act, number = chance.random(), chance.randrange(len(lists[0]))
        for side, messages in zip(sides, lists, strict=True):
            if act < 0.02:
                del messages[-number:]
            elif act < 0.04:
                messages[-1] = copy.deepcopy(source[place // 2])
            elif act < 0.06:
                side.session.pin(messages[number])
            elif act < 0.07:
                side.session.undo()
            elif act < 0.08:
                side.restart()
            elif act < 0.09:
                messages[:] = copy.deepcopy(messages)
        counted = 100 * len(lists[0]) if reports else None
        if calls and act < 0.95:
            ending = "refused" if act > 0.93 else "length" if act > 0.9 else "stop"
            sent = [side.call(messages, counted, ending) for side, messages in zip(sides, lists, strict=True)]
            found.append((sent[0], sent[1]))
        else:
            views = [side.show(messages, counted) for side, messages in zip(sides, lists, strict=True)]
            found.append((views[0], views[1]))
        if 0.09 < act < 0.3:
            found.append((sides[0].session.state(), sides[1].session.state()))
    return found


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("first", sampled(range(0, 60, 3), 3))
def test_the_quiet_way_gives_the_views_and_states_of_the_regular_way(first: int, form: str) -> None:
    different = [
        (seed, number)
        for seed in range(first, first + 3)
        for number, (one, other) in enumerate(play(seed, form))
        if one != other
    ]
    assert not different


def test_a_rewound_list_that_grows_again_has_its_summary_as_soon_as_the_record_is_true_of_it() -> None:
    messages = [user("go"), *steps(6, 100), assistant("ok"), user("next"), *steps(8, 100)]
    hooks = CompactionController(context_window=100_000, summarizer=Scripted())
    result = hooks.compact_sync(messages, keep_recent_tokens=300)
    assert result.record is not None
    for end in range(result.record.compacted_message_count - 6, len(messages) + 1):
        view = hooks.transform_context_sync(messages[:end])
    assert view == result.messages


def told(usage: int) -> list[Chat]:
    """Return steps whose answers carry their usage and reasoning."""
    found: list[Chat] = []
    for place, (answer, result) in enumerate(zip(*[iter(steps(30, 100))] * 2, strict=True)):
        count = {"prompt_tokens": usage * (place + 1) + 90 * (place % 4), "completion_tokens": 20}
        found += [{**answer, "usage": count, "reasoning_content": "Next I read the file."}, result]
    return found


@pytest.mark.parametrize("usage", [100, 170, 400])
def test_usage_and_reasoning_inside_answers_are_learned_as_in_the_regular_way(usage: int) -> None:
    sides = Side(is_quiet=True), Side(is_quiet=False)
    for end in range(2, 60):
        messages = [system(), user("go"), *told(usage)][:end]
        one, other = (side.show(messages, None) for side in sides)
        assert one == other
        if not end % 15:
            assert sides[0].session.state() == sides[1].session.state()


def test_a_quiet_call_reads_nothing_and_sends_the_hosts_own_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks, messages = CompactionController(context_window=100_000), [system(), user("go"), *steps(3, 100)]
    hooks.transform_context_sync(messages)
    monkeypatch.setattr("compaction_hooks.formats.openai_chat.build_message", None)
    for number in range(20, 25):
        messages += steps(1, 100, first=number)
        assert hooks.transform_context_sync(messages) is messages


@pytest.mark.parametrize(
    "new",
    [
        [{**user(""), "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]}],
        [{**assistant("ok"), "reasoning_content": "hm"}],
        [{**assistant("ok"), "usage": {"prompt_tokens": 7_000, "completion_tokens": 2}}],
        [tool("c-of-no-call", "ok")],
        [assistant(None, call("c90", "read", path="a")), tool("c90", prose(6_000))],
    ],
    ids=["media", "reasoning", "usage", "a result of no call", "a large result"],
)
def test_a_message_that_is_not_plain_takes_the_regular_way(new: list[Chat]) -> None:
    views: list[list[Chat]] = []
    for is_quiet in (True, False):
        side, messages = Side(is_quiet=is_quiet), [system(), user("go"), *steps(30, 100)]
        for end in (10, 20, 30, len(messages)):
            side.show(messages[:end], None)
        views.append(side.show([*messages, *new], None))
    assert views[0] == views[1]


def test_a_report_above_the_window_is_learned_from_at_once() -> None:
    side, messages = Side(is_quiet=True), [system(), user("go"), *steps(12, 100)]
    for end in (6, 8, 10):
        side.show(messages[:end], 1_000)
    side.show(messages[:12], WINDOW + 1)
    assert side.show(messages, None) != messages


def test_tools_that_the_host_adds_in_place_count() -> None:
    session, messages = (
        CompactionController(context_window=100_000).session("one"),
        [system(), user("go"), *steps(3, 100)],
    )
    tools: list[Chat] = []
    for _ in range(3):
        session.transform_context_sync(messages, tools=tools)
    before = session.state().context_tokens or 0
    session.transform_context_sync(messages, tools=tools)
    tools.append({"name": "read", "description": prose(200)})
    session.transform_context_sync(messages, tools=tools)
    assert (session.state().context_tokens or 0) > before + 200


def test_a_new_message_that_breaks_the_history_is_repaired() -> None:
    session = CompactionController(context_window=100_000, settings=CompactionSettings(repair=True)).session("one")
    messages = [user("go"), *steps(3)]
    session.transform_context_sync(messages)
    broken = [*messages, assistant(None, call("9")), user("never mind")]
    assert len(session.transform_context_sync(broken)) == len(broken) + 1


class Words:
    """An estimator of the host's own that counts words, and knows a bound of them."""

    name = "words"

    def __init__(self) -> None:
        self.read = 0

    def estimate_tokens(self, text: str, /) -> int:
        self.read += 1
        return len(text.split())

    def estimate_message_tokens(self, message: Message, /) -> int:
        return message_tokens(message, self.estimate_tokens)

    def upper_bound(self, text: str, /) -> int:
        return len(text)


def test_an_estimator_with_a_bound_estimates_nothing_far_from_the_threshold() -> None:
    words, messages = Words(), [system(), user("go"), *steps(3, 100)]
    hooks = CompactionController(context_window=100_000, estimator=words)
    hooks.transform_context_sync(messages)
    before = words.read
    hooks.transform_context_sync([*messages, *steps(2, 100, first=20)])
    assert words.read == before
    hooks.state()
    assert words.read > before
