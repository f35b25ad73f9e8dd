"""Agents on providers that compact by themselves, for the suite and for the soak.

The list of such an agent, or its records, hold the provider's own summaries. Its user rotates keys, changes models and providers,
forks and restarts.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar, Final

from compaction_hooks import CompactionController, CompactionSettings, Summary, SummaryRequest
from compaction_hooks.formats import AnthropicFormat, OpenAIResponsesFormat
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.stores import MemoryStore
from tests.conversations import prose
from tests.provider.compacting import BETA, Compactor
from tests.provider.counting import count, pieces_of
from tests.provider.item_compacting import ItemCompactor
from tests.provider.item_signing import ItemSealer
from tests.provider.responses_wire import fault, messages_of
from tests.provider.signing import Signer
from tests.provider.validation import anthropic_fault, blocks
from tests.provider.wordings import Rejection
from tests.sealed_runs import PLAIN, Agent, Forking

GPT, MINI, GROK = "gpt-5.6", "gpt-5-mini", "grok-5"
OPUS, FABLE = "claude-opus-5-5", "claude-fable-5-1"

_PART: Final = prose(250)


class RefusedError(Exception):
    """A refusal, as an SDK raises it."""

    def __init__(self, rejection: Rejection) -> None:
        error = rejection.body["error"] if isinstance(rejection.body, dict) else {}
        super().__init__(error.get("message"))
        self.status_code = rejection.status
        self.code = error.get("code")


def names_of(number: int) -> list[str]:
    """Return six identifiers of different kinds, which belong to this number alone."""
    return [
        f"src/parser_{number}/tokens.py",
        f"ISSUE-{4_711 + number}",
        f"read_header_{number}",
        f"a3f9c2e1{number:04x}",
        f"https://example.org/spec/{number}",
        f"localhost:{8_000 + number}",
    ]


class NativeRun(Forking):
    """An agent that reads parts, and its user.

    Attributes:
        refusals: The texts of refused requests.
        leaks: Summaries that were sent to a model that did not make them and cannot read them.
        missing: Identifiers that the model could not read in an accepted request, of the user or of the newest readable summary.
        sizes: For each accepted request, our count, the provider's, and whether the provider counted such a view before in this
            process, of the same model and behind the same summaries.
        natives: Accepted requests with a summary of the provider's own.
        rotations: How often an account got another key.
        keywords: More keywords of the controller.
    """

    format: ClassVar[Any]
    models: ClassVar[Sequence[str]]
    windows: ClassVar[Sequence[int]] = (7_000, 200_000)
    keywords: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.window = self.random.choice(self.windows)
        self.store = MemoryStore()
        self.messages: list[Any] = [{"role": "user", "content": f"Read all parts for {' '.join(names_of(0))}."}]
        self.refusals: list[str] = []
        self.leaks: list[str] = []
        self.missing: list[str] = []
        self.sizes: list[tuple[int, int, bool]] = []
        self._counted: object = None
        self.requests = self.natives = self.rotations = self.parts = 0
        self._lengths: list[int] = [1]
        self.model = self.models[0]
        self.restart()

    @property
    def faults(self) -> list[str]:
        """The broken promises.

        A view that the provider counted before is estimated within a tenth, and a quarter of the messages of the newest step.
        """
        far = [
            f"{ours} of {theirs} tokens" for ours, theirs, is_known in self.sizes if is_known and is_far(ours, theirs)
        ]
        refused = self.refusals if len(self.refusals) > self.rotations else []
        return [*refused, *(f"sent elsewhere: {item}" for item in self.leaks), *self.missing, *far]

    def restart(self) -> None:
        """Go on in a new process, with the same store."""
        hooks: Any = CompactionController(
            format=self.format,
            context_window=self.window,
            settings=CompactionSettings(keep_recent_tokens=1_500, clear_tool_results=False),
            summarizer=self.summarizer,
            store=self.store,
            **self.keywords,
        )
        self.session = hooks.session(f"run {self.forks}")

    def switch(self) -> None:
        """Go on with another model, perhaps of another provider."""
        self.model = self.random.choice([model for model in self.models if model != self.model])

    def rotate(self) -> None:
        """Give the account of the model another key."""
        self.rotations += 1
        self.account.key = f"key {self.rotations}"

    def rewind(self) -> None:
        """Go back to the end of an earlier step."""
        del self._lengths[self.random.randrange(len(self._lengths)) + 1 :]
        del self.messages[self._lengths[-1] :]
        self._counted = None

    def compact(self) -> None:
        self.session.compact_sync(self.messages, model=self.model)

    def steps(self, number: int, *, acting: float = 0.2) -> None:
        """Make model calls and their tool calls, and do something else with this probability after each."""
        for _ in range(number):
            self.parts += 1
            answer = self.session.call_sync(self.messages, self._send, model=self.model)
            self.messages += self.listed(answer)
            self._lengths.append(len(self.messages))
            while self.random.random() < acting:
                self.act()

    def act(self) -> None:
        """Do something other than a model call."""
        acts = [self.restart, self.fork, self.switch, self.rotate, self.compact]
        # Rarely, so that histories become long.
        self.random.choice([*acts, self.rewind] if self.random.random() < 0.3 else acts)()

    def _send(self, view: list[Any]) -> dict[str, Any]:
        ours = self.session.state().context_tokens or 0
        rejection = self.refusal(view)
        if rejection is not None:
            error = RefusedError(rejection)
            self.refusals.append(str(error))
            raise error
        read = self.read(view)
        theirs = count(pieces_of(None, "", read))
        self.requests += 1
        head = self.model, self.session, self.session.record, str(read[0]), len(self.refusals)
        self.sizes.append((ours, theirs, head == self._counted))
        self._counted = head
        text = json.dumps(read)
        self.missing += [name for name in self.wanted if name not in text]
        return {**self.answer(view), "model": self.model, "usage": {"input_tokens": theirs, "output_tokens": 20}}

    @property
    def summarizer(self) -> Any:
        """The summarizer of the session: by default ours."""
        return None

    @property
    def account(self) -> Any:
        """The provider's side of the present model, with a `key`."""
        raise NotImplementedError

    @property
    def wanted(self) -> list[str]:
        """The identifiers that the model must be able to read."""
        return names_of(0)

    def refusal(self, view: list[Any]) -> Rejection | None:
        """Return the provider's rejection of a view; None if it is accepted."""
        raise NotImplementedError

    def read(self, view: list[Any]) -> Sequence[Mapping[str, Any]]:
        """Return the messages that the model reads and the provider counts."""
        raise NotImplementedError

    def answer(self, view: list[Any]) -> dict[str, Any]:
        """Return the answer, with a tool call."""
        raise NotImplementedError

    def listed(self, answer: Mapping[str, Any]) -> list[Any]:
        """Return the messages that an answer adds to the list: itself, and the result of its tool call."""
        raise NotImplementedError


class ResponsesRun(NativeRun):
    """A run with OpenAI's Responses, and with xAI's.

    Attributes:
        issuers: The model of each sealed item.
    """

    format = OpenAIResponsesFormat()
    models = (GPT, MINI, GROK)

    def __init__(self, seed: int) -> None:
        mode: Any = ("billed", "dropped")[seed % 2]
        self.accounts = {"gpt": self.make_account(mode, "OpenAI"), "grok": self.make_account("xai", "xAI")}
        self.issuers: dict[str, str] = {}
        super().__init__(seed)

    def make_account(self, mode: Any, key: str) -> ItemCompactor:
        """Return the provider's side of an account."""
        raise NotImplementedError

    @property
    def account(self) -> Any:
        return self.accounts[self.model.partition("-")[0]]

    def refusal(self, view: list[Any]) -> Rejection | None:
        items = [item["encrypted_content"] for item in view if item.get("type") == "compaction"]
        self.leaks += [item for item in items if self.issuers[item] != self.model]
        body = {"input": view, "model": self.model}
        rejection = fault(body) or self.account.refusal(body)
        self.natives += bool(items and rejection is None)
        return rejection

    def read(self, view: list[Any]) -> Sequence[Mapping[str, Any]]:
        return self.account.seen(messages_of({"input": view}))  # type: ignore[no-any-return]

    def answer(self, view: list[Any]) -> dict[str, Any]:
        part = {"type": "output_text", "text": f"Part {self.parts}.", "annotations": []}
        said = {"type": "message", "role": "assistant", "content": [part]}
        call = {"type": "function_call", "call_id": f"call_{self.parts}", "name": "read", "arguments": "{}"}
        return {"output": [said, call], "status": "completed"}

    def listed(self, answer: Mapping[str, Any]) -> list[Any]:
        output = {"type": "function_call_output", "call_id": f"call_{self.parts}", "output": _PART}
        return [*answer["output"], output]


class InlineItems(ResponsesRun):
    """The servers put sealed items in front of their answers."""

    def make_account(self, mode: Any, key: str) -> ItemCompactor:
        return ItemSealer(mode, key, names=names_of(0), every=10)

    def answer(self, view: list[Any]) -> dict[str, Any]:
        items = self.account.sign({"input": view, "model": self.model})
        self.issuers.update({item["encrypted_content"]: self.model for item in items})
        answer = super().answer(view)
        return {**answer, "output": [*items, *answer["output"]]}


class RequestedItems(ResponsesRun):
    """OpenAI and xAI make the summaries of the session."""

    windows = (5_000,)

    def make_account(self, mode: Any, key: str) -> ItemCompactor:
        return ItemCompactor(mode, key)

    @property
    def summarizer(self) -> Any:
        return NativeSummarizer(Issuer("openai_responses", "https://api.openai.com/v1"), self._compact)

    def _compact(self, request: SummaryRequest) -> tuple[list[dict[str, Any]], str]:
        assert request.live is not None
        body = {"input": request.live.messages, "model": request.live.model}
        rejection = fault(body) or self.account.refusal(body)
        if rejection is not None:
            raise RefusedError(rejection)
        items, _ = self.account.compact(body)
        self.issuers[items[-1]["encrypted_content"]] = self.model
        return items, ""


class BlocksRun(NativeRun):
    """A run with Anthropic's models, whose reasoning is signed, and behind a gateway with a model of another provider."""

    format = AnthropicFormat()
    models = (OPUS, FABLE, GPT)

    def __init__(self, seed: int) -> None:
        self.signer = Signer()
        self.compactor = Compactor()
        super().__init__(seed)

    @property
    def account(self) -> Any:
        return self.compactor

    def refusal(self, view: list[Any]) -> Rejection | None:
        natives = [block for message in view for block in blocks(message["content"]) if block["type"] == "compaction"]
        self.leaks += [block["content"] for block in natives if not self.may_read(block)]
        body = self.body(view)
        rejection = anthropic_fault(body) or self.native_refusal(body)
        if rejection is None and self.model != GPT:
            rejection = self.signer.refusal(body)
        self.natives += bool(natives and rejection is None)
        return rejection

    def may_read(self, block: Mapping[str, Any]) -> bool:
        """Return whether the present model may get a block."""
        return self.model != GPT

    def native_refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        """Return the rejection of the blocks in a request."""
        return None

    def body(self, view: Sequence[Any], **more: Any) -> dict[str, Any]:
        return {"messages": view, "model": self.model, "max_tokens": 500, "betas": [BETA], **more}

    def read(self, view: list[Any]) -> Sequence[Mapping[str, Any]]:
        return read_from_block(view)

    def answer(self, view: list[Any]) -> dict[str, Any]:
        made = self.summary()
        before = [*view, {"role": "assistant", "content": made}]
        thoughts = [] if self.model == GPT else self.signer.sign(self.body(before if made else view))
        text = {"type": "text", "text": f"Part {self.parts}."}
        call = {"type": "tool_use", "id": f"toolu_{self.parts}", "name": "read", "input": {"part": self.parts}}
        return {"content": [*made, *thoughts, text, call], "stop_reason": "tool_use"}

    def summary(self) -> list[dict[str, Any]]:
        """Return the summary in front of an answer, if there is one."""
        return []

    def listed(self, answer: Mapping[str, Any]) -> list[Any]:
        result = {"type": "tool_result", "tool_use_id": f"toolu_{self.parts}", "content": _PART}
        return [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [result]}]


class InlineBlocks(BlocksRun):
    """The server puts readable blocks in front of its answers."""

    def summary(self) -> list[dict[str, Any]]:
        if self.model == GPT or self.random.random() > 0.15:
            return []
        names = [*names_of(0), *names_of(self.parts)]
        text = "\n".join([*(f"- {name} matters" for name in names), prose(1_000)])
        return [{"type": "compaction", "content": text}]

    @property
    def wanted(self) -> list[str]:
        natives = [block for one in self.messages for block in blocks(one["content"]) if block["type"] == "compaction"]
        lines = natives[-1]["content"].splitlines() if natives else []
        return [line[2:-8] for line in lines if line.endswith(" matters")] or names_of(0)


class RequestedBlocks(BlocksRun):
    """Anthropic makes the summaries of the session."""

    windows = (5_000,)

    def __init__(self, seed: int) -> None:
        self.issuers: dict[str, str] = {}
        super().__init__(seed)

    def may_read(self, block: Mapping[str, Any]) -> bool:
        return self.issuers[block["signature"]] == self.model

    def native_refusal(self, body: Mapping[str, Any]) -> Rejection | None:
        return self.compactor.refusal(body)

    @property
    def summarizer(self) -> Any:
        return NativeSummarizer(Issuer("anthropic", "https://api.anthropic.com"), self._compact)

    def _compact(self, request: SummaryRequest) -> tuple[list[dict[str, Any]], str]:
        assert request.live is not None
        body = self.body(request.live.messages, compaction={"type": "summarize"})
        rejection = anthropic_fault(body) or self.compactor.refusal(body) or self.signer.refusal(body)
        if rejection is not None:
            raise RefusedError(rejection)
        made, text = self.compactor.compact(body)
        self.issuers[made[0]["signature"]] = self.model
        return made, text


class NativeSummarizer:
    """A summarizer that lets the provider compact."""

    def __init__(self, issuer: Issuer, compact: Callable[[SummaryRequest], tuple[list[dict[str, Any]], str]]) -> None:
        self.issuer = issuer
        self._compact = compact

    def __call__(self, request: SummaryRequest) -> Summary:
        live = request.live
        assert live is not None
        try:
            items, text = self._compact(request)
        except RefusedError as refused:
            return Summary(text="", fallback_reason=str(refused))
        return Summary(text=text, native=NativeItems(self.issuer._replace(model=live.model or ""), tuple(items)))


class CompactedAgent(Agent):
    """An agent for a recorded conversation: Anthropic puts a readable block in front of every twelfth answer.

    Attributes:
        missing: How many identifiers of the newest block the model could not read, in each request behind one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing: list[int] = []
        self._asked = 0
        self._names: list[str] = []

    def ask(self, model: str, said: list[Any], **options: Any) -> list[Any]:
        self._asked += 1
        if self._asked % 12:
            return super().ask(model, said, **options)
        names = names_of(self._asked)
        text = "\n".join(["The user wants all of this done.", *(f"- {name} matters" for name in names)])
        # The answer has no reasoning: it would be behind the block, and signed so.
        view = super().ask(PLAIN, [{"type": "compaction", "content": text}, *said], **options)
        self._names = names
        return view

    def _reason(self, view: list[Any], model: str, options: Mapping[str, Any]) -> list[Any]:
        read = json.dumps(read_from_block(view))
        if self._names:
            self.missing.append(sum(name not in read for name in self._names))
        return super()._reason(view, model, options)


def read_from_block(view: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the messages that Anthropic reads: those from the newest block on."""
    return view[max((place for place, one in enumerate(view) if _has_block(one)), default=0) :]


KINDS: Final[Sequence[type[NativeRun]]] = (InlineItems, RequestedItems, InlineBlocks, RequestedBlocks)


def is_far(ours: int, theirs: int) -> bool:
    return abs(ours - theirs) > theirs / 10 + 80


def _has_block(message: Mapping[str, Any]) -> bool:
    return any(block["type"] == "compaction" for block in blocks(message["content"]))
