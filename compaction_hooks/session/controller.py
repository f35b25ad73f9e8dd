"""CompactionController: the settings, and the state shared by its conversations.

1. A session of one id is one object while anybody holds it, and has one format at a time.
2. Of the sessions that nobody holds, those used least recently are evicted; changes by hand that are in no store never are.
3. `forget` begins every session anew that is known or that the host still holds, before the store is asked: calls under way write
   nothing back.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias, TypeVar, cast, overload
from weakref import WeakSet, WeakValueDictionary

from compaction_hooks import arguments
from compaction_hooks.engine.call import SharedState
from compaction_hooks.engine.engine import Engine
from compaction_hooks.engine.persistence import ask, remove_all
from compaction_hooks.engine.pressure import notice_text
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.events import EventHandler
from compaction_hooks.messages import M, MessageFormat, as_format, can
from compaction_hooks.runtime.drivers import Driver, Services
from compaction_hooks.runtime.effects import Flow, Instant, Now
from compaction_hooks.runtime.guards import GuardedEstimator, guard_trigger, system_clock
from compaction_hooks.runtime.strategies import guard_strategy
from compaction_hooks.runtime.tellers import Tellers
from compaction_hooks.session.session import CompactionSession, ConversationMethods
from compaction_hooks.settings import CompactionSettings, ModelSettings
from compaction_hooks.stores import RecordStore
from compaction_hooks.stores.key_value import quote_id
from compaction_hooks.summary.request import Summarizer
from compaction_hooks.telling import AdviceFunction, CarryFunction
from compaction_hooks.tokens.estimator import CharacterEstimator, TokenEstimator
from compaction_hooks.tokens.windows import Windows, find_window, unknown_window_error
from compaction_hooks.triggers import RatioTrigger, TokensTrigger

N = TypeVar("N")
ChatMessage: TypeAlias = Mapping[str, object]

MAX_SESSIONS = 1_000
"""Conversations kept in memory at once; the least recently used one is evicted. With a store, nothing is lost. Without one, only
automatic compactions are lost: the records of conversations with pins or with compactions or undos by hand stay in memory."""
DEFAULT_SESSION = "default"

_SETTINGS = arguments.Kind(
    lambda value: isinstance(value, CompactionSettings | Mapping),
    'be CompactionSettings(...), or a dict of such by model, as in {"gpt-5*": CompactionSettings(...), "*": ...}',
)
_FORGETTING = {
    "id": arguments.KINDS["id"],
    "prefix": arguments.Kind(
        lambda value: isinstance(value, str) and value != "",
        'be the beginning of ids, such as "user-7/"; to forget all conversations, delete the store by its own means',
    ),
    "store": arguments.with_methods(
        "have session_ids(prefix) too, as compaction_hooks.stores.ListingStore says; the memory is free already",
        "session_ids",
    ),
}


_OF_SETTINGS = {field.name: f"settings=CompactionSettings({field.name}=...)" for field in fields(CompactionSettings)}


@arguments.validate({**arguments.KINDS, "settings": _SETTINGS, "background": arguments.SWITCH}, _OF_SETTINGS)
class CompactionController(ConversationMethods[M]):
    """Keeps conversations inside the context window. One controller serves many conversations, threads and event loops.

    Its own `transform_context`, `call`, `compact`, `recover`, `report_usage`, `pin`, `undo` and `state` are
    those of a session named "default".

    Args:
        model: The model's name, for its window when `context_window` is not given.
        context_window: The model's window, in tokens. Unknown: no threshold compaction, overflow recovery only.
        summarizer: Any sync or async callable that answers a `SummaryRequest`. None: the summarizer of the call (an adapter's own
            calls the conversation's model), else the extractive one, which needs no model and no network.
        settings: The policy; or one for each model, by patterns of model names, and the first pattern that fits counts:
            `{"gpt-5*": CompactionSettings(...), "*": CompactionSettings(...)}`. If none fits, a model has the default settings.
        format: How messages are written. None: detected from the first list of each conversation (OpenAI chat, Responses or
            Anthropic).
        store: Keeps records between processes; the default is this controller's memory.
        on_event: Sync or async callables that get every `CompactionEvent`, one after the other, for 5 seconds each at most. A
            function runs in a thread with the caller's context variables; a handler that needs the event loop is a coroutine
            function.
        estimator: Sizes texts and messages; the default counts characters by class.
        carry: Returns the texts that come back behind each summary (`Carried`), sync or async; asked once for each compaction that
            makes a summary. It has `host_timeout_seconds` of the settings; if it fails, an event says so, and the last texts stay.
        before_compact: Is asked once before each compaction (`CompactionPlan`), sync or async, and may answer with `Advice`: a
            veto, a focus for the summary, and facts that it shall have. If it fails, an event says so.
        notice: Whether to tell the model, once, when the context is nearly full, that older messages will soon be replaced by a
            summary; or the text that tells it.
        background: Whether to write summaries while the conversation goes on, shortly before the threshold wants them, by the
            `summarizer` given here: no call waits then, or for the rest of it only. `aclose` waits for those under way.
        clock: Returns the time, for tests. It must not fail, and its monotonic seconds must not go back.

    Raises:
        ConfigurationError: an argument is of the wrong type or out of its bounds, two contradict one another, or the settings'
            trigger is a part of a window, and the window of the model is unknown.
    """

    @overload
    def __init__(
        self: CompactionController[ChatMessage],
        *,
        model: str | None = None,
        context_window: int | None = None,
        summarizer: Summarizer | None = None,
        settings: CompactionSettings | Mapping[str, CompactionSettings] | None = None,
        format: None = None,
        store: RecordStore | None = None,
        on_event: EventHandler | Iterable[EventHandler] = (),
        estimator: TokenEstimator | None = None,
        carry: CarryFunction | None = None,
        before_compact: AdviceFunction | None = None,
        notice: bool | str = False,
        background: bool = False,
        clock: Callable[[], Instant] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        *,
        model: str | None = None,
        context_window: int | None = None,
        summarizer: Summarizer | None = None,
        settings: CompactionSettings | Mapping[str, CompactionSettings] | None = None,
        format: MessageFormat[M],
        store: RecordStore | None = None,
        on_event: EventHandler | Iterable[EventHandler] = (),
        estimator: TokenEstimator | None = None,
        carry: CarryFunction | None = None,
        before_compact: AdviceFunction | None = None,
        notice: bool | str = False,
        background: bool = False,
        clock: Callable[[], Instant] | None = None,
    ) -> None: ...

    def __init__(
        self,
        *,
        model: str | None = None,
        context_window: int | None = None,
        summarizer: Summarizer | None = None,
        settings: CompactionSettings | Mapping[str, CompactionSettings] | None = None,
        format: MessageFormat[M] | None = None,
        store: RecordStore | None = None,
        on_event: EventHandler | Iterable[EventHandler] = (),
        estimator: TokenEstimator | None = None,
        carry: CarryFunction | None = None,
        before_compact: AdviceFunction | None = None,
        notice: bool | str = False,
        background: bool = False,
        clock: Callable[[], Instant] | None = None,
    ) -> None:
        self._settings = ModelSettings(settings)
        self._merges = any(each.merge_user_messages for each in self._settings.all)
        self._check_merging(format)
        _check_windows(model, context_window, self._settings)

        self._model = model
        self._format = format
        self._has_background = background
        self._estimator = CharacterEstimator() if estimator is None else GuardedEstimator(estimator)
        self._lock = threading.Lock()
        # The most recently used is last. A session with changes by hand that are in no store is never evicted.
        self._sessions: OrderedDict[str, CompactionSession[M]] = OrderedDict()
        self._evicted: WeakValueDictionary[str, CompactionSession[M]] = WeakValueDictionary()
        # Closed or forgotten, but the host may hold them, and go on with them.
        self._dropped: WeakSet[CompactionSession[M]] = WeakSet()

        self._shared = SharedState(
            find_settings=self._settings.map_settings(_guard_extensions).find,
            model=model,
            windows=Windows(model, context_window),
            requested_outputs={},
            answer_limits={},
            calibrations={},
            tellers=Tellers(carry, before_compact),
            notice=notice_text(notice),
        )
        self._services = Services(
            summarizer=summarizer,
            store=store,
            handlers=_list_handlers(on_event),
            clock=clock or system_clock,
            summary_timeout_seconds=max(each.summary_timeout_seconds for each in self._settings.all),
        )

    def __repr__(self) -> str:
        """Return the model, if it is named, and the number of conversations in memory."""
        model = f"{self._model!r}, " if self._model else ""
        count = len(self._sessions)
        return f"CompactionController({model}{count:,} session{'' if count == 1 else 's'})"

    @property
    def settings(self) -> CompactionSettings:
        """The policy for the controller's own model."""
        return self._settings.find(self._model)

    @property
    def background(self) -> bool:
        """Whether summaries are written while the conversation goes on."""
        return self._has_background

    def settings_for(self, model: str | None) -> CompactionSettings:
        """Return the policy for the calls of a model (None: the controller's own model)."""
        return self._settings.find(model or self._model)

    # -- conversations

    @overload
    def session(
        self,
        id: str,
        format: None = None,
        *,
        carry: CarryFunction | None = None,
        before_compact: AdviceFunction | None = None,
        notice: bool | str | None = None,
    ) -> CompactionSession[M]: ...

    @overload
    def session(
        self,
        id: str,
        format: MessageFormat[N],
        *,
        carry: CarryFunction | None = None,
        before_compact: AdviceFunction | None = None,
        notice: bool | str | None = None,
    ) -> CompactionSession[N]: ...

    @arguments.validate(arguments.KINDS)
    def session(
        self,
        id: str,
        format: MessageFormat[N] | None = None,
        *,
        carry: CarryFunction | None = None,
        before_compact: AdviceFunction | None = None,
        notice: bool | str | None = None,
    ) -> CompactionSession[M] | CompactionSession[N]:
        """Return the session with this id, made on first use.

        Args:
            id: Names the conversation; records in the store are kept under it.
            format: How this conversation's messages are written, if not in the controller's format. Another one than before: the
                next list is read in this format, and records and pins stay. None: the format last used; if there is none, it is
                detected from the first list.
            carry: As in the controller, for this conversation; asked after the controller's, so that its text of a name wins. None:
                the function given last.
            before_compact: As in the controller, for this conversation; asked after the controller's, so that its focus wins. None:
                the function given last.
            notice: As in the controller, for this conversation. None: as given last; if it was never given, that of the controller.

        Raises:
            ConfigurationError: the id is no text, the format is no `MessageFormat` or cannot merge messages as the settings
                require, `carry` or `before_compact` is no function, or `notice` is neither a bool nor a text.
        """
        self._check_merging(format)
        with self._lock:
            session = self._sessions.get(id) or self._evicted.pop(id, None)
            if session is None:
                chosen = self._format if format is None else cast("MessageFormat[M]", format)  # then N is M
                session = CompactionSession(
                    id, format=chosen, estimator=self._estimator, shared=self._shared, services=self._services
                )
                session.engine.conversation.background.is_on = self._has_background
            self._sessions[id] = session
            self._sessions.move_to_end(id)
            if len(self._sessions) > MAX_SESSIONS:
                self._evict()

        if format is not None:
            session.engine.use_format(format)
        conversation = session.engine.conversation
        conversation.tellers = conversation.tellers.with_given(Tellers(carry, before_compact))
        if notice is not None:
            conversation.notice = notice_text(notice)
        return session

    def _check_merging(self, format: MessageFormat[Any] | None) -> None:
        """Check that a format can merge messages, if settings say so; None means one of the core's formats, which all can.

        Raises:
            ConfigurationError: the format has no `merge`.
        """
        if self._merges and format is not None and not can(as_format(format), "merge"):
            raise ConfigurationError(
                f"merge_user_messages=True: the format {format.name!r} has no merge(view); leave the setting out, or "
                "give a format that has one"
            )

    def _evict(self) -> None:
        """Evict the session used least recently, unless it alone has the changes that its host made by hand."""
        oldest = next((id for id, session in self._sessions.items() if not session.engine.is_only_copy), None)
        if oldest is not None:
            self._evicted[oldest] = self._sessions.pop(oldest)

    def close(self, id: str) -> None:
        """Free one conversation's memory; its records in the store stay.

        Without a store its records and pins are lost: save them before with `export_records()` of the session, and load them
        again with `import_records()`.

        Raises:
            ConfigurationError: the id is no text.
        """
        arguments.check(arguments.KINDS, {"id": id})
        with self._lock:
            self._drop(id)

    async def aclose(self) -> None:
        """Wait for the summaries that are written in the background, each at most as long as one may take, and store them.

        The controller can be used again.
        """
        for session in self._list_held():
            await session.aclose()

    def close_sync(self) -> None:
        """As `aclose`, for callers without an event loop."""
        for session in self._list_held():
            session.close_sync()

    def _list_held(self) -> list[CompactionSession[M]]:
        with self._lock:
            return [*self._sessions.values(), *self._evicted.values()]

    def _drop(self, id: str) -> CompactionSession[M] | None:
        """Remove a conversation from memory; return its session, which the host may hold."""
        session = self._sessions.pop(id, None) or self._evicted.pop(id, None)
        if session is not None:
            session.engine.conversation.background.discard()
            self._dropped.add(session)
        return session

    async def forget(self, id: str) -> None:
        """Remove a conversation from memory, and its records from the store.

        Sessions that you hold, closed ones too, and later calls with this id, begin anew. In the store an id and a time stay, by
        which other workers learn of it: they begin anew too, and write back neither what they had nor what they could not save.

        Raises:
            RecordError: the store failed, or has entries that cannot be read; the memory is free already, call it again.
            ConfigurationError: the id is no text.
        """
        await Driver(self._services, threading.RLock()).run(self._forget(id))

    def forget_sync(self, id: str) -> None:
        """As `forget`, for callers without an event loop."""
        Driver(self._services, threading.RLock()).run_sync(self._forget(id))

    async def forget_prefix(self, prefix: str) -> list[str]:
        """Forget every conversation whose id begins with `prefix`, as `forget` does; return their ids, sorted.

        For all data of a user, if the ids begin with the user: "user-7/". The store must be a `ListingStore`. A conversation that
        only another worker knows, because it is not saved yet, is not found.

        Raises:
            ConfigurationError: the prefix is empty or no text, or the store cannot list its conversations.
            RecordError: as `forget`, or the store failed to list.
        """
        return await Driver(self._services, threading.RLock()).run(self._forget(prefix, is_prefix=True))

    def forget_prefix_sync(self, prefix: str) -> list[str]:
        """As `forget_prefix`, for callers without an event loop."""
        return Driver(self._services, threading.RLock()).run_sync(self._forget(prefix, is_prefix=True))

    def _forget(self, given: str, *, is_prefix: bool = False) -> Flow[list[str]]:
        """Remove conversations from memory, then from the store; return the ids of those that had anything.

        Args:
            given: The id of one, or the beginning of the ids of all.
        """
        arguments.check(_FORGETTING, {"prefix" if is_prefix else "id": given})
        now: Instant = yield Now()  # before any of them begins anew
        with self._lock:
            known = {*self._sessions, *self._evicted, *(session.id for session in self._dropped)}
            ids = {id for id in known if id.startswith(given)} if is_prefix else {given}
            held = {*filter(None, map(self._drop, ids)), *(each for each in self._dropped if each.id in ids)}
        forgotten = {session.id for session in held if not session.engine.conversation.is_unused}
        for session in held:
            session.begin_anew()

        listed: Sequence[str] = ()
        if self._services.store is not None:
            if is_prefix:
                arguments.check(_FORGETTING, {"store": self._services.store})
                listed = yield from ask(f"sessions {given!r}...", "session_ids", given)
            # A store that matches patterns may list the conversations of others.
            found = {id for id in listed if id.startswith((given, quote_id(given)))}
            forgotten.update((yield from remove_all(sorted(ids | found), now)))
        return sorted(forgotten)

    @property
    def engine(self) -> Engine[Any]:
        """The engine of the default session as it is."""
        with self._lock:
            if (held := self._sessions.get(DEFAULT_SESSION)) is not None:
                self._sessions.move_to_end(DEFAULT_SESSION)
                return held.engine
        return self.session(DEFAULT_SESSION).engine


def _guard_extensions(settings: CompactionSettings) -> CompactionSettings:
    """Return the settings with a trigger and strategies that cannot fail a call."""
    if settings.strategies is not None:
        settings = replace(settings, strategies=tuple(map(guard_strategy, settings.strategies)))
    return settings if settings.trigger is None else replace(settings, trigger=guard_trigger(settings.trigger))


def _list_handlers(on_event: object) -> tuple[EventHandler, ...]:
    """Return the handlers in `on_event=`, which is one handler or several."""
    handlers: tuple[object, ...] = (on_event,)
    if not callable(on_event) and not isinstance(on_event, str) and isinstance(on_event, Iterable):
        handlers = tuple(cast("Iterable[object]", on_event))
    for handler in handlers:
        arguments.check({"on_event": arguments.HANDLER}, {"on_event": handler})
    return cast("tuple[EventHandler, ...]", handlers)  # the arguments of a callable cannot be checked


def _check_windows(model: str | None, context_window: int | None, of_models: ModelSettings) -> None:
    """Refuse settings of the controller's own model that exceed its window, or that need its window if that is unknown."""
    settings, where = of_models.find(model), of_models.error_prefix(model)
    keep = settings.keep_recent_tokens
    if context_window is not None and keep is not None and keep > context_window:
        raise ConfigurationError(
            f"{where}keep_recent_tokens={keep} is above context_window={context_window}: keep less"
        )

    for written, part in settings.triggers.items():
        if context_window is not None and isinstance(part, TokensTrigger) and part.tokens > context_window:
            raise ConfigurationError(f"{where}{written} is above context_window={context_window}: lower the trigger")
        has_default = context_window is not None or settings.default_context_window is not None
        if isinstance(part, RatioTrigger) and model and not has_default and find_window(model) is None:
            raise unknown_window_error(f"{where}{written}", model)
