"""Agents on a provider that binds the reasoning of its models to the messages before, for the suite and for the soak."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any, Final, TypeVar

from compaction_hooks import CompactionController, CompactionFinished, CompactionSettings
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat
from compaction_hooks.stores import MemoryStore
from compaction_hooks.testing import as_anthropic, check_view
from compaction_hooks.validity import is_reasoning
from tests.provider.signing import Signer

BINDING: Final = "claude-opus-5-5"
HIDDEN: Final = "my-gateway-model"
PLAIN: Final = "claude-sonnet-5"
"""A model that binds its reasoning, one that does so and is not known, and one that does not."""

_RESULT: Final = "a line of the part that was read\n" * 30


class RefusedError(Exception):
    """A refusal, as an SDK raises it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.status_code = 400


class Agent:
    """A host's list, a session, and the provider's side.

    Attributes:
        kept_by_dropping_all: Number of answers in requests that would have had their reasoning if every compaction dropped all.
        keywords: More keywords of the controller.
    """

    keywords: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, settings: CompactionSettings | None = None) -> None:
        self.signer = Signer(redacted_every=3)
        self.store = MemoryStore()
        self.settings = settings
        self.messages: list[Any] = []
        self.events: list[CompactionFinished] = []
        self.kept_by_dropping_all = 0

    def start(self, window: int, session: str = "run") -> None:
        """Begin a new process."""
        hooks = CompactionController[Any](
            format=AnthropicFormat(),
            context_window=window,
            settings=self.settings,
            store=self.store,
            on_event=lambda event: self.events.append(event) if isinstance(event, CompactionFinished) else None,
            **self.keywords,
        )
        self.session = hooks.session(session)

    def ask(self, model: str, said: list[Any], **options: Any) -> list[Any]:
        """Make a model call, and append its answer: reasoning, then these blocks. Return the view that was answered."""
        sent = list[list[Any]]()

        def send(view: list[Any]) -> list[Any]:
            sent.append(view)
            return [*self._reason(view, model, options), *said]

        content = self.session.call_sync(self.messages, send, model=model, **options)
        self.messages.append({"role": "assistant", "content": content})
        return sent[-1]

    def _reason(self, view: list[Any], model: str, options: Mapping[str, Any]) -> list[Any]:
        if model == PLAIN:
            return []
        body = {**options, "messages": view}
        refusal = self.signer.refusal(body)
        if refusal is not None:
            raise RefusedError(str(refusal.body))
        if self.session.record is None:
            self.kept_by_dropping_all += self.signer.sent[-1][0]
        return self.signer.sign(body)

    @property
    def figures(self) -> tuple[int, int, int, int, int]:
        """Requests, refusals, and answers in requests: with their reasoning, with it if all were dropped, and all."""
        kept, answers = (sum(column) for column in zip(*self.signer.sent, strict=True)) if self.signer.sent else (0, 0)
        return len(self.signer.sent), len(self.signer.refusals), kept, self.kept_by_dropping_all, answers


class Forking:
    """An agent whose user may go on in a copy of the conversation.

    Attributes:
        forks: Number of copies so far.
    """

    session: Any
    messages: list[Any]
    forks = 0

    def restart(self) -> None:
        """Go on in a new process, with the same store."""
        raise NotImplementedError

    def fork(self) -> None:
        """Go on in a copy of the conversation, in a session of its own."""
        self.session.load_sync()
        records = self.session.export_records()
        self.forks += 1
        self.messages = [*self.messages]
        self.restart()
        self.session.import_records(records)


class Run(Forking, Agent):
    """An agent that reads parts, and its user, who may do anything with the conversation.

    Attributes:
        blind_calls: Number of first calls of a process with a list that was edited since the last call of another one.
    """

    turn_length = 7
    window = (6_000, 9_000)

    def __init__(self, seed: int, model: str = BINDING, **settings: Any) -> None:
        super().__init__(CompactionSettings(keep_recent_tokens=1_500, **settings))
        self.random = Random(seed)
        self.messages = [{"role": "user", "content": "Read all parts, one after the other."}]
        self.calls = self.blind_calls = 0
        self._is_edited = self._is_new = False
        self.models = (model, PLAIN)
        self.model = model
        self.restart()

    def restart(self) -> None:
        self._is_new = self.calls > 0
        self.start(self.random.choice(self.window), f"run {self.forks}")

    def step(self, model: str | None = None) -> None:
        """Make a model call and its tool call, or say to go on."""
        self.calls += 1
        self.blind_calls += self._is_edited and self._is_new
        self._is_edited = self._is_new = False
        call = {"type": "tool_use", "id": f"toolu_{self.calls}", "name": "read", "input": {"part": self.calls}}
        calls = [call] if self.calls % self.turn_length else []
        self.ask(model or self.model, [{"type": "text", "text": f"Part {self.calls}."}, *calls])
        results = [{"type": "tool_result", "tool_use_id": one["id"], "content": _RESULT} for one in calls]
        self.messages.append({"role": "user", "content": results or "Go on."})

    def steps(self, count: int, *, acting: float = 0.15) -> None:
        """Make steps, and do something else with this probability after each."""
        for _ in range(count):
            self.step()
            while self.random.random() < acting:
                self.act()

    def act(self) -> None:
        """Do something other than a model call."""
        acts = [self.restart, self.undo, self.rewind, self.edit, self.pin, self.compact, self.switch, self.fork]
        self.random.choice(acts)()

    def undo(self) -> None:
        self.session.load_sync()
        self.session.undo()

    def compact(self) -> None:
        self.session.compact_sync(self.messages, model=self.model)

    def pin(self) -> None:
        self.session.pin(self.messages[self.random.choice(self._said)])

    def switch(self) -> None:
        self.model = self.models[self.models[0] == self.model]

    def rewind(self) -> None:
        """Go back to one of the user's words."""
        del self.messages[self.random.choice(self._said) + 1 :]

    def edit(self) -> None:
        """Change the list before reasoning that stays: other words, another result, one message more or fewer."""
        self._is_edited = True
        place = self.random.randrange(max(len(self.messages) - 1, 1))
        message = self.messages[place]
        kind = self.random.choice(["words", "insert", "remove"])
        if kind == "insert" and message["role"] == "assistant":
            self.messages.insert(place, {"role": "user", "content": "A reminder."})
        elif kind == "remove" and place and isinstance(message["content"], str):
            del self.messages[place]
        elif isinstance(message["content"], str):
            self.messages[place] = {**message, "content": message["content"] + " Please."}
        elif message["role"] == "user":
            (result,) = message["content"]
            self.messages[place] = {**message, "content": [{**result, "content": "taken away"}]}

    @property
    def _said(self) -> list[int]:
        """The indexes of the user's words."""
        return [place for place, message in enumerate(self.messages) if isinstance(message["content"], str)]


A = TypeVar("A", bound=Agent)


def replay(record: Mapping[str, Any], window: int, model: str, agent: A) -> A:
    """Replay a recorded conversation with reasoning in each answer, and check the view of each compaction."""
    read = [piece for message in record["messages"] for piece in OpenAIChatFormat().read(message)]
    bare = [replace(piece, parts=tuple(part for part in piece.parts if not is_reasoning(part))) for piece in read]
    options = {
        "system": "\n".join(piece.text for piece in bare if piece.role == "system"),
        "tools": record.get("tools") or [],
    }
    agent.start(window)
    listed: list[Any] = as_anthropic(piece for piece in bare if piece.parts and piece.role != "system")
    for message in listed:
        if message["role"] != "assistant" or not agent.messages:
            agent.messages.append(message)
            continue
        before, known = [*agent.messages], len(agent.events)
        view = agent.ask(model, message["content"], **options)
        if agent.events[known:]:
            summaries = [event.record.rendered for event in agent.events if event.record.rendered]
            check_view(before, view, format=AnthropicFormat(), summaries=summaries, model=BINDING)
    return agent
