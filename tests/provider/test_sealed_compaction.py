"""OpenAI's and xAI's own compaction in line, with OpenAI's client over real HTTP: every run goes on, and no name is lost."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings
from compaction_hooks.formats import OpenAIResponsesFormat
from compaction_hooks.stores import MemoryStore
from tests.provider import Answer, Call, ItemSealer, LoopbackProvider, Side

openai: Any = pytest.importorskip("openai")

NAMES = ["src/parser/tokens.py", "ISSUE-4711", "read_header", "a3f9c2e1d4b5", "https://example.org/spec", "port 8443"]
INLINE = {"context_management": [{"type": "compaction", "compact_threshold": 50_000}]}
OPENAI, XAI = "gpt-5.6", "grok-5"
STEPS = 24


class Run:
    """An agent's run with OpenAI's client, on two providers that both compact in line, and a session.

    Attributes:
        request: The options of the model calls that the session is told: with those of `INLINE` it does not compact.
        compactions: Compactions of the session.
    """

    def __init__(self, provider: LoopbackProvider, stack: ExitStack, request: dict[str, Any], mode: Any) -> None:
        self.request = request
        self.compactions: list[CompactionFinished] = []
        self.store = MemoryStore()
        self.sealers: dict[str, ItemSealer] = {}
        self.clients: dict[str, Any] = {}
        for model in (OPENAI, XAI):
            answers = [Answer(f"Step {step}.", (Call("read", {"part": step}),)) for step in range(2 * STEPS)]
            side: Side = provider.conversation(model, window=200_000, answers=answers)
            side.signer = self.sealers[model] = ItemSealer(
                "xai" if model == XAI else mode, key=model, names=NAMES, every=12
            )
            self.clients[model] = stack.enter_context(
                openai.OpenAI(base_url=provider.openai_url, api_key=model, max_retries=0)
            )
        self.messages: list[Any] = [
            {"type": "message", "role": "developer", "content": "Be brief."},
            {"type": "message", "role": "user", "content": f"Make {NAMES[0]} and {NAMES[1]} work."},
        ]
        self.restart()

    def restart(self) -> None:
        """Go on in a new process, with the same store."""
        self.session = CompactionController(
            format=OpenAIResponsesFormat(),
            context_window=2_000,
            settings=CompactionSettings(keep_recent_tokens=400),
            store=self.store,
            on_event=self._note,
        ).session("run")

    def _note(self, event: object) -> None:
        if isinstance(event, CompactionFinished):
            self.compactions.append(event)

    def step(self, model: str = OPENAI) -> None:
        """Make one model call, and run its tool calls; the first results have the other names."""

        def send(view: list[Any]) -> Any:
            return self.clients[model].responses.create(model=model, input=view, store=False, **self.options(model))

        answer = self.session.call_sync(self.messages, send, model=model, request=self.request)
        self.messages += [item.to_dict() for item in answer.output]
        for item in answer.output:
            if item.type == "function_call":
                names = NAMES[2:] if len(self.messages) < 10 else []
                output = f"{' '.join(names)}\n" + "a line of the file that was asked for\n" * 30
                self.messages.append({"type": "function_call_output", "call_id": item.call_id, "output": output})

    def options(self, model: str) -> dict[str, Any]:
        return INLINE if model == OPENAI else {}

    def steps(self, count: int, model: str = OPENAI) -> None:
        for _ in range(count):
            self.step(model)

    @property
    def refusals(self) -> list[str]:
        return [text for sealer in self.sealers.values() for text in sealer.refusals]

    def unread(self) -> list[set[str]]:
        """Return, for each request in which the model could not read all names, the missing ones; not for the first two.

        If the session compacts too, only the names in the user's words count: its default summary leaves words of results out.
        """
        read = [names for sealer in self.sealers.values() for names in sealer.read]
        wanted = {*NAMES} if self.request else {*NAMES[:2]}
        return [wanted - names for names in read[2:] if wanted - names]


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "the server compacts, billed": (INLINE, "billed"),
    "both compact, dropped": ({}, "dropped"),
    "both compact, billed": ({}, "billed"),
    "the server compacts, dropped": (INLINE, "dropped"),
}


def by_case(*fast: str) -> pytest.MarkDecorator:
    """Parametrize by what compacts and how it is billed: in the fast suite by these cases."""
    cases = [
        pytest.param(case, id=name, marks=() if name in fast else pytest.mark.full) for name, case in CASES.items()
    ]
    return pytest.mark.parametrize("run", cases, indirect=True)


@pytest.fixture
def run(provider: LoopbackProvider, request: pytest.FixtureRequest) -> Iterator[Run]:
    """A run in which the server compacts, or the session too; OpenAI bills messages before an item, or not: sources differ."""
    with ExitStack() as stack:
        yield Run(provider, stack, *request.param)


@by_case("the server compacts, billed", "both compact, dropped")
def test_a_run_on_one_account_sends_one_item_each_time_and_is_never_refused(run: Run) -> None:
    run.steps(STEPS)
    sealer = run.sealers[OPENAI]
    assert sum(item["type"] == "compaction" for item in run.messages) >= 2
    assert max(sealer.sealed) == 1
    assert bool(run.compactions) == (not run.request)
    assert run.refusals == []
    assert run.unread() == []


@by_case("the server compacts, billed", "both compact, dropped")
def test_switches_of_provider_and_model_and_a_restart_are_never_refused(run: Run) -> None:
    run.steps(9)
    run.steps(8, XAI)
    run.restart()
    run.steps(6)
    run.steps(4, XAI)
    assert all(max(sealer.sealed) == 1 for sealer in run.sealers.values())
    assert run.refusals == []
    assert run.unread() == []


@by_case("the server compacts, billed")
def test_a_rotated_key_costs_one_refusal_and_a_restart_none(run: Run) -> None:
    run.steps(9)
    run.sealers[OPENAI].key = "rotated"
    run.steps(2)
    run.restart()
    run.steps(9)
    assert len(run.refusals) == 1
    assert run.sealers[OPENAI].sealed[-1] == 1, "items of the new account are sent"
    assert run.unread() == []


@by_case("both compact, dropped")
def test_a_host_that_drops_the_messages_before_the_item_may_still_switch(run: Run) -> None:
    run.steps(9)
    first = max(place for place, item in enumerate(run.messages) if item["type"] == "compaction")
    run.messages = [run.messages[0], *run.messages[first:]]
    view = run.session.transform_context_sync(run.messages, model=XAI)
    assert "The messages before this point are missing" in str(view[1])
    run.steps(9, XAI)
    assert run.refusals == []
