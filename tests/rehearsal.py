"""A host with a conversation, and everything that can happen to it; each step is checked.

A rehearsal decides nothing itself: a `Choose` selects the next action of `act`, and the state machine of
`tests.machine` calls the actions one by one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from compaction_hooks import (
    Carried,
    CarryRequest,
    CompactionController,
    CompactionRecord,
    CompactionSettings,
    ContextOverflowError,
    Summary,
    SummaryRequest,
    Usage,
)
from compaction_hooks.messages import Message
from compaction_hooks.stores import MemoryStore, RecordStore
from compaction_hooks.testing.generated import BEATS, Writer
from compaction_hooks.testing.hosts import ChatMessage
from compaction_hooks.testing.promises import demand
from compaction_hooks.testing.texts import Choose
from compaction_hooks.tokens import CharacterEstimator
from tests.checked_session import CheckedSession
from tests.dialects import DIALECTS, OPENAI_CHAT, Dialect
from tests.edits import EDITS, through_json
from tests.paid_summaries import AskedSummaries

WINDOWS: Final = (2_048, 4_096, 8_192, 16_384)
"""In tokens; small, so that a conversation of some dozen messages is compacted several times."""
COUNT_RATIOS: Final = (1.0, 0.3, 0.6, 1.5, 3.0)
"""Tokens counted by a provider for each estimated token; measured tokenizers are between 0.55 and 1.06."""
BAD_ANSWERS: Final[Sequence[str | Summary | Exception]] = (
    RuntimeError("no connection"),
    "",
    Summary(text="## Goal\n- cut sho", finish_reason="length"),
    "word " * 20_000,
    RuntimeError("This model's maximum context length is 1024 tokens. However, you requested 9000 tokens."),
)
"""Errors and summaries of a failing summarizer."""
ESTIMATOR: Final = CharacterEstimator()
WORKERS: Final = 2
"""Number of processes that share the store."""


@dataclass(slots=True)
class Branch:
    """One list of the host, and its session in each worker."""

    messages: list[ChatMessage]
    session_id: str
    sessions: list[CheckedSession[ChatMessage]]
    worker: int = 0
    was_sent: list[ChatMessage] | None = None

    @property
    def session(self) -> CheckedSession[ChatMessage]:
        """The session of the current worker."""
        return self.sessions[self.worker]


class Rehearsal:
    """A host with its lists of messages, and real controllers on a store that outlives them.

    Args:
        window: The model's context window, in tokens.
        settings: The policy.
        store: Keeps records across crashes; None: a store in memory.
        dialect: The form of its messages at the start.
        carry: Returns the texts that come back, in every worker.
        is_async: Whether to use the controller's async methods.
        background: Whether summaries are written in the background; each is ready before the host goes on.
    """

    def __init__(
        self,
        window: int = WINDOWS[0],
        *,
        settings: CompactionSettings | None = None,
        store: RecordStore | None = None,
        dialect: Dialect = OPENAI_CHAT,
        carry: Callable[[CarryRequest], list[Carried]] | None = None,
        is_async: bool = False,
        background: bool = False,
    ) -> None:
        self.window = window
        self.settings = settings or CompactionSettings()
        self.store = store or MemoryStore()
        self.carry = carry
        self.background = background
        self.asked = AskedSummaries(self._summarize)
        self.bad_answers: list[str | Summary | Exception] = []
        self.count_ratio = 1.0
        self.dialect = dialect
        self._is_async = is_async
        self._sizes: dict[int, tuple[ChatMessage, int]] = {}
        self._is_counted = False
        self._writer = Writer(lambda _: 0)
        self._workers = [self._start(number) for number in range(WORKERS)]
        self.branches = [self._branch([], "main")]
        self.now = self.branches[0]

    # -- messages

    def say(self, choose: Choose) -> None:
        """Add a user message."""
        self._add(choose, [self._with(choose).request()])

    def answer(self, choose: Choose) -> None:
        """Add an answer of the model without tool calls."""
        self._add(choose, [self._with(choose).answer()])

    def step(self, choose: Choose) -> None:
        """Add tool calls of the model with their results."""
        self._add(choose, list(self._with(choose).step()))

    def turn(self, choose: Choose) -> None:
        """Add a whole turn; the controller sees only its end."""
        self._add(choose, list(self._with(choose).turn()))

    def beat(self, choose: Choose) -> None:
        """Add a beat, which may break the rules of providers."""
        self._add(choose, list(BEATS[choose(len(BEATS))](self._with(choose))))

    def _with(self, choose: Choose) -> Writer:
        self._writer.choose = choose
        return self._writer

    def _add(self, choose: Choose, messages: Sequence[Message]) -> None:
        self.now.messages = [*self.now.messages, *self.dialect.write(messages)]
        if choose(4) < 3:
            self.send()

    # -- calls of the controller

    def send(self) -> list[ChatMessage]:
        """Get the view, as before a model call."""
        branch = self.now
        branch.was_sent = branch.session.transform_context(branch.messages)
        running = branch.session.session.engine.conversation.background.running
        if running is not None:
            running.done.result(60)
        return branch.was_sent

    def compact(self, choose: Choose) -> None:
        """Compact manually."""
        keep = (None, 0, 100, 1_000, 10_000)[choose(5)]
        focus = (None, "the schema")[choose(2)]
        try:
            self.now.session.compact(self.now.messages, keep, focus)
        except ContextOverflowError as error:
            _check_error(error)
        self.now.was_sent = None

    def overflow(self, choose: Choose) -> None:
        """Reject the view as the provider would, and recover."""
        sent = self.send()
        if self.size(sent) * max(COUNT_RATIOS) < self.window:
            return  # no tokenizer differs that much from the estimate
        error = self._rejection(sent, choose)
        try:
            view = self.now.session.recover(error, self.now.messages)
        except ContextOverflowError as unfit:
            _check_error(unfit)
        else:
            before, after = self.size(sent), self.size(view)
            demand(after < before, "smaller", f"{before} tokens were rejected, but the new view has {after}")
        self.now.was_sent = None

    def call(self, choose: Choose) -> None:
        """Let the controller make the call, to a provider with its own token counts and limit."""
        sends = 0
        rejects = choose(3)
        if self.size(self.now.messages) * max(COUNT_RATIOS) < self.window:
            rejects = 0  # no tokenizer differs that much from the estimate

        answer = self.dialect.write([self._with(choose).answer()])

        def send(view: list[ChatMessage]) -> ChatMessage:
            nonlocal sends
            sends += 1
            if sends <= rejects or self._provider_size(view) > self.window:
                raise self._rejection(view, choose)
            return self.dialect.respond(answer, Usage(input_tokens=self._provider_size(view) or 1, output_tokens=20))

        try:
            self.now.session.call(self.now.messages, send)
        except ContextOverflowError as error:
            _check_error(error)
        else:
            self._is_counted |= self.count_ratio != 1.0
            self.now.messages = [*self.now.messages, *answer]
        self.now.was_sent = None

    def report(self, _: Choose) -> None:
        """Report the provider's token counts; with another tokenizer they differ from the estimate."""
        if self.now.was_sent is not None:
            self._is_counted |= self.count_ratio != 1.0
            self.now.session.report_usage(
                Usage(input_tokens=self._provider_size(self.now.was_sent) or 1, output_tokens=10)
            )

    def undo(self, _: Choose) -> None:
        """Undo the newest compaction."""
        record = self.now.session.undo()
        if record is not None:
            ids = [known.id for known in self.now.session.records()]
            demand(record.id not in ids, "deterministic", "an undone record is still there")

    def pin(self, choose: Choose) -> None:
        """Pin a message."""
        spoken = [message for message in self.now.messages if message.get("role") != "system"]
        if spoken:
            self.now.session.pin(spoken[-1 - choose(len(spoken))])

    # -- changes of the list

    def edit(self, choose: Choose) -> None:
        """Replace the host's list by an edited one."""
        (new,) = self.dialect.write([self._with(choose).request()])
        self.now.messages = EDITS[choose(len(EDITS))](choose, self.now.messages, new)

    def store_view(self, _: Choose) -> None:
        """Replace the host's list by the view, as some frameworks do."""
        self.now.messages = list(self.now.session.session.to_store(self.send()))

    def write_into(self, choose: Choose) -> None:
        """Change a message since the last answer in place."""
        recent = self.now.messages[-60:]
        answers = [n for n, message in enumerate(recent) if self._is_answer(message)]
        first = len(self.now.messages) - len(recent) + (answers[-1] if answers else 0)
        recent = self.now.messages[first:]
        old = {id(message) for message in self.now.messages[:first]}
        self._write([message for message in recent if id(message) not in old], choose)

    def write_into_old(self, choose: Choose) -> None:
        """Change any message in place; the session detects an old one when it plans a compaction."""
        written = self._write(self.now.messages, choose)
        if written is not None:
            self.now.session.changed_in_place(written)

    def _is_answer(self, message: ChatMessage) -> bool:
        return any(piece.role == "assistant" for piece in self.dialect.format.read(message))

    def _write(self, messages: Sequence[ChatMessage], choose: Choose) -> ChatMessage | None:
        if not messages:
            return None
        message = cast("dict[str, object]", messages[-1 - choose(len(messages))])
        place, key = message, next((name for name in ("parts", "output") if name in message), "content")
        content = message.get(key)
        if isinstance(content, list) and content:
            place, key = cast("list[dict[str, object]]", content)[0], "text"
        text = place.get(key)
        if isinstance(text, str) and text:
            self._announce_change(message)
            place[key] = ("#" if text[0] != "#" else "+") + text[1:]  # same length, so that no size changes
        return message

    def _announce_change(self, message: ChatMessage) -> None:
        """Announce the change to all other sessions with this message."""
        for branch in self.branches:
            for number, session in enumerate(branch.sessions):
                is_now = branch is self.now and number == branch.worker
                if not is_now and any(held is message for held in branch.messages):
                    session.changed_in_place(message)

    def fork(self, _: Choose) -> None:
        """Continue with a copy of the list, in a session of its own that imports the records."""
        if len(self.branches) < 4:
            branch = self._branch(list(self.now.messages), f"fork {len(self.branches)}")
            session = self.now.session.session
            session.load_sync()  # after a crash the session is new
            branch.session.session.import_records(session.export_records())
            self.branches.append(branch)
            self.now = branch

    def switch(self, choose: Choose) -> None:
        """Continue with another list."""
        self.now = self.branches[choose(len(self.branches))]

    def crash(self, _: Choose) -> None:
        """Restart the process, with only the records of the store and the host's file."""
        self._restart(through_json)

    def translate(self, choose: Choose) -> None:
        """Continue in another framework, with the same conversations in its message form."""
        old, self.dialect = self.dialect, DIALECTS[choose(len(DIALECTS))]
        written = self.dialect.write
        self._restart(lambda messages: written([piece for message in messages for piece in old.format.read(message)]))

    def _restart(self, load: Callable[[list[ChatMessage]], list[ChatMessage]]) -> None:
        self._workers = [self._start(number) for number in range(WORKERS)]
        self._is_counted = self._is_counted and self.count_ratio != 1.0
        for branch in self.branches:
            old = branch.session
            branch.messages = load(branch.messages)
            branch.sessions = self._sessions(branch.session_id)
            branch.session.take_over(old)
            branch.was_sent = None

    def hand_over(self, choose: Choose) -> None:
        """Continue in another worker with the same store."""
        old = self.now.session
        self.now.worker = choose(WORKERS)
        self.now.session.take_over(old)
        self.now.was_sent = None

    def move(self, choose: Choose) -> None:
        """Continue in another worker with a larger or smaller window."""
        self.window = WINDOWS[choose(len(WINDOWS))]
        self._restart(through_json)

    # -- summarizer and tokenizer

    def break_summarizer(self, choose: Choose) -> None:
        """Let the summarizer fail the next few times."""
        self.bad_answers = [BAD_ANSWERS[choose(len(BAD_ANSWERS))] for _ in range(1 + choose(4))]

    def change_tokenizer(self, choose: Choose) -> None:
        """Let the provider count with another tokenizer from now on."""
        self.count_ratio = COUNT_RATIOS[choose(len(COUNT_RATIOS))]

    def size(self, view: Sequence[ChatMessage]) -> int:
        """Return the tokens of a list by the default estimator."""
        return sum(map(self._message_size, view))

    def _message_size(self, message: ChatMessage) -> int:
        held = self._sizes.get(id(message))
        if held is None or held[0] is not message:
            tokens = sum(map(ESTIMATOR.estimate_message_tokens, self.dialect.format.read(message)))
            held = self._sizes[id(message)] = (message, tokens)
        return held[1]

    def _provider_size(self, view: Sequence[ChatMessage]) -> int:
        return round(self.size(view) * self.count_ratio)

    def _rejection(self, view: Sequence[ChatMessage], choose: Choose) -> Exception:
        count = max(self._provider_size(view), self.window + 1)
        self._is_counted = True
        wordings = (
            f"This model's maximum context length is {self.window} tokens. However, your messages resulted in {count} tokens.",
            "prompt is too long",
            f"prompt is too long: {count} tokens > {self.window} maximum",
        )
        return RuntimeError(wordings[choose(len(wordings))])

    def _summarize(self, request: SummaryRequest) -> str | Summary:
        if self.bad_answers:
            answer = self.bad_answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        number = len(self.asked.answered)
        return f"## Goal\n- summary number {number} of {len(request.messages)} messages"

    def _start(self, number: int) -> CompactionController[ChatMessage]:
        """Start a worker; those after the first keep fewer older messages, and show what a record names all the same."""
        settings = replace(self.settings, keep_user_tokens=300) if number else self.settings
        return CompactionController(
            context_window=self.window,
            background=self.background,
            settings=settings,
            store=self.store,
            format=self.dialect.format,
            summarizer=self.asked,
            carry=self.carry,
        )

    def _branch(self, messages: list[ChatMessage], session_id: str) -> Branch:
        return Branch(messages, session_id, self._sessions(session_id))

    def _sessions(self, session_id: str) -> list[CheckedSession[ChatMessage]]:
        return [
            CheckedSession(
                worker.session(session_id),
                self.dialect.format,
                apart=self.dialect.apart,
                size=lambda view: 0 if self._is_counted else self.size(view),
                asked=self.asked,
                known=lambda: self._load_records(session_id),
                settings=self.settings,
                is_async=self._is_async,
            )
            for worker in self._workers
        ]

    def _load_records(self, session_id: str) -> list[CompactionRecord]:
        texts = self.store.load(session_id)
        return [CompactionRecord.from_json(text) for text in cast("Sequence[str]", texts)]  # stores here are sync

    # -- one action after another

    def act(self, choose: Choose) -> str:
        """Perform one action; return its name."""
        action = ACTIONS[choose(len(ACTIONS))]
        action(self, choose)
        return action.__name__


def _check_error(error: ContextOverflowError) -> None:
    parts = ("system prompt", "tools", "current request", "pins", "last step", "hidden prefix")
    demand(error.part in parts, "fits", f"the error names no part that cannot shrink: {error}")


ACTIONS: Final[Sequence[Callable[[Rehearsal, Choose], None]]] = (
    *([Rehearsal.say] * 2),
    *([Rehearsal.step] * 8),
    *([Rehearsal.turn] * 3),
    *([Rehearsal.answer] * 2),
    *([Rehearsal.beat] * 3),
    Rehearsal.compact,
    Rehearsal.overflow,
    *([Rehearsal.call] * 2),
    *([Rehearsal.report] * 2),
    Rehearsal.undo,
    Rehearsal.pin,
    *([Rehearsal.edit] * 2),
    Rehearsal.store_view,
    Rehearsal.write_into,
    Rehearsal.write_into_old,
    Rehearsal.fork,
    Rehearsal.switch,
    Rehearsal.crash,
    Rehearsal.move,
    Rehearsal.translate,
    *([Rehearsal.hand_over] * 2),
    Rehearsal.break_summarizer,
    Rehearsal.change_tokenizer,
)
"""All actions, frequent ones several times."""
