"""One conversation: the hook and its sync twins, manual compaction, recovery, usage, pins, undo, records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal, Unpack, cast, overload

from compaction_hooks import arguments
from compaction_hooks.engine.call import Order, SharedState
from compaction_hooks.engine.compact import compact, plan_by_hand
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.engine import Engine, make_engine
from compaction_hooks.engine.persistence import report
from compaction_hooks.engine.result import CompactionResult, SessionState
from compaction_hooks.engine.send import recover
from compaction_hooks.engine.sizes import LastSent
from compaction_hooks.engine.transform import settle, transform
from compaction_hooks.errors import ConfigurationError, RecordError
from compaction_hooks.formats.answers import read_report
from compaction_hooks.messages import M, Message, MessageFormat, UsageReport
from compaction_hooks.runtime.drivers import Services
from compaction_hooks.runtime.effects import Flow
from compaction_hooks.runtime.guarded_call import is_async
from compaction_hooks.runtime.guards import Signal
from compaction_hooks.session.options import CallOptions, R, T, build_caller, build_order, build_send, check_call
from compaction_hooks.session.tools import ToolMethods
from compaction_hooks.telling import CompactionPlan
from compaction_hooks.tokens.estimator import TokenEstimator
from compaction_hooks.view.record import CompactionRecord


class ConversationMethods(ToolMethods[M]):
    """The methods of one conversation, for `CompactionSession` and for a controller, which uses its default session."""

    # -- the hook

    async def transform_context(
        self, messages: list[T], signal: Signal | None = None, **options: Unpack[CallOptions]
    ) -> list[T]:
        """Return the list to send to the model. Call it before every model call.

        Args:
            messages: The whole conversation. Never changed.
            signal: When set, a compaction under way is aborted and the uncompacted list returned.
            **options: See `CallOptions`.

        Returns:
            The very list that came in, before the first compaction; then a new list of system messages, summary, pins and recent
            messages, which are the same objects. To keep it in place of your list, store `to_store(view)`.

        Raises:
            FormatError: a message cannot be read.
            ConfigurationError: the trigger is a part of the window, and neither this call nor an earlier one has a window.
        """
        engine = self.engine
        call = check_call(engine, messages, options, engine.begin_call())
        flow = _hand_out(engine.conversation, transform(engine.conversation, call))
        return await engine.driver.run(flow, build_caller(signal, options))

    def transform_context_sync(
        self, messages: list[T], signal: Signal | None = None, **options: Unpack[CallOptions]
    ) -> list[T]:
        """As `transform_context`, for callers without an event loop."""
        engine = self.engine
        call = check_call(engine, messages, options, engine.begin_call())
        flow = _hand_out(engine.conversation, transform(engine.conversation, call))
        return engine.driver.run_sync(flow, build_caller(signal, options))

    async def call(
        self,
        messages: list[T],
        send: Callable[[list[T]], Awaitable[R]],
        signal: Signal | None = None,
        *,
        answer: Callable[[R], Message | None] | None = None,
        **options: Unpack[CallOptions],
    ) -> R:
        """Transform, then `send`; when that raises a context overflow, compact harder and send once more.

        It also sends once more if the window cut the answer short. A stream (any object with `__anext__`) is recovered up to its
        first chunk; its other attributes stay available. A client's context manager sends nothing until it is entered: let `send`
        enter it. Usage in the response is reported automatically.

        Args:
            answer: Reads a response into an assistant message with its usage and stop reason. The default reads OpenAI chat
                completions and Responses, Anthropic messages, and the chunks of their streams.

        Raises:
            ContextOverflowError: it still overflows, or nothing smaller is valid; the provider's error is its cause.
            Exception: any other error of `send`, unchanged.
        """
        flow = build_send(self.engine, messages, options, send, answer)
        return cast("R", await self.engine.driver.run(flow, build_caller(signal, options, send)))  # what `send` gave

    def call_sync(
        self,
        messages: list[T],
        send: Callable[[list[T]], R],
        signal: Signal | None = None,
        *,
        answer: Callable[[R], Message | None] | None = None,
        **options: Unpack[CallOptions],
    ) -> R:
        """As `call`, for callers without an event loop; a stream is any object with `__next__`."""
        if is_async(send):
            raise ConfigurationError(
                f"send={arguments.format_value(send)} is async: write `await call(messages, send)`"
            )
        flow = build_send(self.engine, messages, options, send, answer)
        return cast("R", self.engine.driver.run_sync(flow, build_caller(signal, options, send)))  # what `send` gave

    async def compact(
        self,
        messages: list[T],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        signal: Signal | None = None,
        *,
        preview: CompactionResult[T] | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[T]:
        """Compact now, whatever the size; `result.messages` is a new list to store.

        Args:
            keep_recent_tokens: Tokens of recent messages to keep; None: a quarter of the present context at most.
            focus: The subject that the summary should pay attention to.
            preview: The result of `preview`, whose record becomes active: its summary is not paid for again. If it is no longer
                true of the list, or another compaction was made since, compact anew.

        Raises:
            ContextOverflowError: the list does not fit the window and cannot be made to fit.
        """
        return await self.engine.driver.run(
            self._compact(messages, options, build_order(keep_recent_tokens, focus, preview)),
            build_caller(signal, options),
        )

    def compact_sync(
        self,
        messages: list[T],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        signal: Signal | None = None,
        *,
        preview: CompactionResult[T] | None = None,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[T]:
        """As `compact`, for callers without an event loop."""
        return self.engine.driver.run_sync(
            self._compact(messages, options, build_order(keep_recent_tokens, focus, preview)),
            build_caller(signal, options),
        )

    @overload
    async def preview(
        self,
        messages: list[T],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        signal: Signal | None = None,
        *,
        plan_only: Literal[False] = False,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[T]: ...

    @overload
    async def preview(
        self,
        messages: list[T],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        signal: Signal | None = None,
        *,
        plan_only: Literal[True],
        **options: Unpack[CallOptions],
    ) -> CompactionPlan: ...

    async def preview(
        self,
        messages: list[T],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        signal: Signal | None = None,
        *,
        plan_only: bool = False,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[T] | CompactionPlan:
        """Return the result that `compact` would have: its record and its view. Nothing is stored, and no event told.

        The views of later calls stay as they are, until `compact(messages, preview=result)`. A summary is paid for here.

        Args:
            plan_only: Whether to return only what would be done, and the size that would come of it. Then nothing is paid for, and
                neither the summarizer nor `carry` and `before_compact` are asked. Without steps, nothing would change.

        Raises:
            ContextOverflowError: the list does not fit the window and cannot be made to fit.
        """
        order = build_order(keep_recent_tokens, focus, is_preview=True)
        call = check_call(self.engine, messages, options)._replace(is_look=True)
        caller = build_caller(signal, options)
        if plan_only:
            return await self.engine.driver.run(plan_by_hand(self.engine.conversation, call, order), caller)
        return await self.engine.driver.run(compact(self.engine.conversation, call, order), caller)

    @overload
    def preview_sync(
        self,
        messages: list[T],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        signal: Signal | None = None,
        *,
        plan_only: Literal[False] = False,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[T]: ...

    @overload
    def preview_sync(
        self,
        messages: list[T],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        signal: Signal | None = None,
        *,
        plan_only: Literal[True],
        **options: Unpack[CallOptions],
    ) -> CompactionPlan: ...

    def preview_sync(
        self,
        messages: list[T],
        keep_recent_tokens: int | None = None,
        focus: str | None = None,
        signal: Signal | None = None,
        *,
        plan_only: bool = False,
        **options: Unpack[CallOptions],
    ) -> CompactionResult[T] | CompactionPlan:
        """As `preview`, for callers without an event loop."""
        order = build_order(keep_recent_tokens, focus, is_preview=True)
        call = check_call(self.engine, messages, options)._replace(is_look=True)
        caller = build_caller(signal, options)
        if plan_only:
            return self.engine.driver.run_sync(plan_by_hand(self.engine.conversation, call, order), caller)
        return self.engine.driver.run_sync(compact(self.engine.conversation, call, order), caller)

    async def recover(
        self, error: BaseException, messages: list[T], signal: Signal | None = None, **options: Unpack[CallOptions]
    ) -> list[T]:
        """Return a smaller list after an overflow that the host caught itself.

        Raises:
            BaseException: `error` itself, if it is no context overflow, if a smaller list is no cure, if it is about another model,
                if the settings exclude recovery, or if the caller aborted.
            ContextOverflowError: nothing smaller is valid; `error` is its cause.
        """
        return await self.engine.driver.run(self._recover(error, messages, options), build_caller(signal, options))

    def recover_sync(
        self, error: BaseException, messages: list[T], signal: Signal | None = None, **options: Unpack[CallOptions]
    ) -> list[T]:
        """As `recover`, for callers without an event loop."""
        return self.engine.driver.run_sync(self._recover(error, messages, options), build_caller(signal, options))

    def _compact(self, messages: list[T], options: CallOptions, order: Order) -> Flow[CompactionResult[T]]:
        return compact(self.engine.conversation, check_call(self.engine, messages, options), order)

    def _recover(self, error: BaseException, messages: list[T], options: CallOptions) -> Flow[list[T]]:
        arguments.check(arguments.KINDS, {"error": error})
        conversation = self.engine.conversation
        flow = recover(conversation, check_call(self.engine, messages, options), error)
        return _hand_out(conversation, flow)

    # -- usage, pins, undo, state

    def report_usage(self, usage: UsageReport, view: list[Any] | None = None, model: str | None = None) -> None:
        """Report the provider's count of a view; later sizes are counted up to there and estimated beyond.

        Args:
            usage: A `Usage`, or the provider's own usage as a dict or a client's object. None, or usage without input, is ignored.
            view: The list that was counted; None: the view last handed out. The count of any other list is ignored, and so is
                that of another model, and a count that is all zero or negative.
            model: The model that counted; None: the model of that view.

        Raises:
            TypeError: `usage` has another type.
        """
        counted = read_report(usage, "report_usage")
        if counted is not None:
            self.engine.report_usage(counted, view, model)
            with self.engine.conversation.lock:
                self.engine.conversation.totals.report(counted, view, model)

    async def load(self, messages: list[T] | None = None, **options: Unpack[CallOptions]) -> None:
        """Load the store's records, including new ones of other workers, if there is a store.

        In a new process `state()`, `history()`, `undo()` and `export_records()` know the stored records only after this, or after
        the first call. A store that fails raises no error here: an event tells why, and `state().is_loaded` stays False.

        Args:
            messages: The whole conversation, so that `state()` knows the size of its view before the first call. Never changed.
            **options: Those of the next call, for its model, system prompt and tools: see `CallOptions`.

        Raises:
            FormatError: a message cannot be read.
        """
        await self.engine.driver.run(self._load(messages, options), build_caller(None, options))

    def load_sync(self, messages: list[T] | None = None, **options: Unpack[CallOptions]) -> None:
        """As `load`, for callers without an event loop."""
        self.engine.driver.run_sync(self._load(messages, options), build_caller(None, options))

    def _load(self, messages: list[T] | None, options: CallOptions) -> Flow[None]:
        call = None if messages is None else check_call(self.engine, messages, options)._replace(is_look=True)
        return self.engine.load(call)

    async def aclose(self) -> None:
        """Wait for the summary that is written in the background, at most as long as a summary may take, and store it.

        Without a store, or a summary under way, nothing is waited for. The session can be used again.
        """
        await self.engine.driver.run(self._settle())

    def close_sync(self) -> None:
        """As `aclose`, for callers without an event loop."""
        self.engine.driver.run_sync(self._settle())

    def _settle(self) -> Flow[None]:
        last = self.engine.conversation.newest_snapshot
        if last is not None:
            frame = last.call_frame
            options = CallOptions(
                model=last.model, context_window=last.window or None, system=frame.system, tools=frame.tools
            )
            yield from settle(self.engine.conversation, check_call(self.engine, last.history.hosts(), options))

    def pin(self, message: object, *, store: bool = True) -> None:
        """Keep a message word for word in every view from the next summary on; with a tool call, its results too.

        A message that is in no list so far is kept as soon as a list has it; if the next list does not, a `PinMissing` event says
        so. The pin is written to the store at once; to an async store, inside a running loop, with the next call.

        A pin of reasoning alone, or of an empty message, keeps nothing: pin the answer, whose items of reasoning stay with it.

        Args:
            message: The message, as it is in the list.
            store: Whether the pin has a record of its own. False: none before the next compaction, whose record has it; for
                messages that the program pins again in each process, such as those that are in every list.
        """
        engine = self.engine
        with engine.conversation.lock:
            engine.conversation.pin(message, store=store)
        if store:
            engine.save_in_this_thread()

    def undo(self) -> CompactionRecord | None:
        """Undo the newest compaction of the list last seen and return its record; None if there is none.

        Before the first list, undo the compaction made last, of the loaded records: see `load`. If the list is a stored result,
        which begins with the summary, there is nothing to go back to: return None; a log line says so.

        The view is then that of the record before, or the host's list. No threshold compaction follows until the context has grown
        by 10 %, unless it no longer fits the window. The undo is written to the store at once; to an async store, inside a running
        loop, with the next call.
        """
        return self.engine.undo()

    def history(self) -> list[CompactionRecord]:
        """Return the compactions that led to the present view of the list last seen, oldest first.

        Before the first list, return those that led to the record made last, of the loaded records: see `load`.
        Each has its occasion (`reason`), the size before and after in tokens, the messages covered, the time and the cost.
        """
        conversation = self.engine.conversation
        with conversation.lock:
            return conversation.records.list_ancestors(conversation.find_current())

    def state(self) -> SessionState:
        """Return how full the context is, as of the list last handed out; before the first one, of the list given to `load`."""
        engine = self.engine
        conversation = engine.conversation
        with conversation.lock:
            tokens = conversation.newest_tokens
            budget = engine.last_budget()
            record = conversation.find_current()
            breaker = conversation.cooldown.breaker

            return SessionState(
                context_tokens=tokens,
                context_window=budget.window if budget else None,
                trigger_tokens=budget.trigger if budget else None,
                fraction=tokens / budget.window if tokens is not None and budget else None,
                is_estimate=conversation.newest_count is None,
                compaction_count=record.compaction_count if record else 0,
                breaker="closed" if breaker.opened_at is None else f"open: {breaker.why}",
                is_loaded=conversation.queue.state != "unread",
                summary_usage=conversation.summary_usage + conversation.loaded_usage,
                totals=conversation.totals.read(conversation.summary_usage, conversation.history, engine.shared.model),
            )


def _hand_out(conversation: Conversation[M], flow: Flow[LastSent[M]]) -> Flow[list[M]]:
    """Return the view of a flow, for a request of the host's own, and count it."""
    sent = yield from flow
    conversation.totals.count(sent)
    return sent.view


class CompactionSession(ConversationMethods[M]):
    """One conversation of a controller. Safe to use from several threads and event loops at once.

    Made by `CompactionController.session`.

    Attributes:
        id: The session's name.
    """

    def __init__(
        self,
        id: str,
        *,
        format: MessageFormat[M] | None,
        estimator: TokenEstimator,
        shared: SharedState,
        services: Services,
    ) -> None:
        self.id: Final = id
        self._make_engine = partial(make_engine, id, format, estimator, shared, services)
        self._engine = self._make_engine()

    def __repr__(self) -> str:
        """Return the id and how full the context is."""
        if self.engine.conversation.newest_snapshot is None:
            return f"CompactionSession({self.id!r}, no call yet)"
        state = self.state()
        window = "" if state.context_window is None else f" of {state.context_window:,}"
        count = f"{state.compaction_count} compaction{'' if state.compaction_count == 1 else 's'}"
        return f"CompactionSession({self.id!r}, {state.context_tokens or 0:,}{window} tokens, {count})"

    @property
    def engine(self) -> Engine[Any]:
        """The engine of this conversation; no part of it is public."""
        return self._engine

    def begin_anew(self) -> None:
        """Discard all state, for `CompactionController.forget`; calls under way write nothing more."""
        old = self.engine.conversation
        with old.lock:
            old.queue.state = "none"

        self._engine = self._make_engine()
        new = self.engine.conversation
        new.has_recall, new.tellers, new.notice = old.has_recall, old.tellers, old.notice
        new.background.is_on = old.background.is_on

    # -- records and views, for adapters and stores of the host's own

    @property
    def record(self) -> CompactionRecord | None:
        """The active record of the list last seen, or None.

        Before the first list, the record made last, of the loaded ones: see `load`.
        """
        conversation = self.engine.conversation
        with conversation.lock:
            return conversation.find_current()

    @property
    def records(self) -> list[CompactionRecord]:
        """All loaded records, of every branch, with the notes of pins and of undone compactions."""
        conversation = self.engine.conversation
        with conversation.lock:
            return conversation.export_all()

    def to_store(self, view: list[T]) -> list[T]:
        """Return the view last handed out as a host should store it in place of its list; any other list as it is.

        A summary is recognized only in a message of its own, as text. A view may have it as the provider's own items, or in one
        message with the user's words: with `settings.merge_user_messages`, and for Bedrock.
        """
        last = self.engine.conversation.last_sent
        return cast("list[T]", last.to_store) if last is not None and last.view is view else view

    def export_records(self) -> list[dict[str, object]]:
        """Return all records of this conversation as plain JSON, with its pins and undos.

        Raises:
            RecordError: the records of the store are not loaded yet.
        """
        if self.engine.conversation.queue.state == "unread":
            raise RecordError(
                f"the records of session {self.id!r} are not read from the store yet: `await session.load()` or "
                "`session.load_sync()` first; if the store fails, a StoreFailed event says why"
            )
        return [record.to_dict() for record in self.records]

    def import_records(self, records: Iterable[Mapping[str, object]]) -> int:
        """Add records from `export_records`, with their pins and undos; return the number of new ones.

        A damaged record is reported by a warning and skipped. A known record costs next to nothing, and a record that was undone
        here is not added again. The new ones are written to the store at once; to an async store, inside a running loop, with the
        next call.
        """
        readable: list[CompactionRecord] = []
        engine = self.engine
        unknown = engine.find_unknown(records)
        if not unknown:
            return 0

        for fields in unknown:
            try:
                readable.append(CompactionRecord.from_dict(fields))
            except RecordError as error:
                engine.driver.run_sync(report(engine.conversation, "read", error))

        count = engine.import_records(readable)
        engine.save_in_this_thread()
        return count
