"""The sessions of one adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from compaction_adapters.kit.ids import inner_prefix
from compaction_adapters.kit.openings import opening_key
from compaction_hooks import CallOptions, CompactionController, CompactionSession, MessageFormat, parse_overflow
from compaction_hooks.validity import is_reasoning_refusal

N = TypeVar("N")
"""The type of a framework's messages."""


class Sessions(Generic[N]):
    """The sessions of a controller in one framework's format, and the options of the last call of each.

    Args:
        controller: A controller, shared or not, of any format.
        format: The framework's message format.
    """

    def __init__(self, controller: CompactionController[Any], format: MessageFormat[N]) -> None:
        self.controller = controller
        self.format = format
        self._calls: WeakKeyDictionary[CompactionSession[N], CallOptions] = WeakKeyDictionary()
        self._openings: WeakKeyDictionary[CompactionSession[N], str] = WeakKeyDictionary()
        self._nested: WeakKeyDictionary[CompactionSession[N], set[str]] = WeakKeyDictionary()
        self._lists: WeakKeyDictionary[CompactionSession[N], list[N]] = WeakKeyDictionary()

    def open(self, session_id: str) -> CompactionSession[N]:
        """Return the session with this id, and its state in memory."""
        return self.controller.session(session_id, format=self.format)

    def find(self, conversation_id: str | None, messages: Sequence[N]) -> CompactionSession[N]:
        """Return the session of a model call.

        Frameworks run an agent as another one's tool with the id of the outer run: of the lists with one id, the first one whose
        call was answered has the session with this id, and each that begins otherwise has one of its own.

        Args:
            conversation_id: The framework's own id; None: the opening of the messages names the conversation.
            messages: The whole list.
        """
        opening = opening_key(self.format, messages)
        if conversation_id is None:
            return self.open(f"opening-{opening}")
        session = self.open(conversation_id)
        if self._openings.get(session, opening) == opening:
            return session
        # Shortened, so that key-value stores have the id of most conversations whole: `forget` finds it by its beginning.
        nested = f"{inner_prefix(conversation_id)}{opening[:16]}"
        self._nested.setdefault(session, set()).add(nested)
        return self.open(nested)

    def note_opening(self, session: CompactionSession[N], messages: Sequence[N]) -> None:
        """Remember the beginning of a list whose call was answered: a session without one takes any."""
        if session not in self._openings:
            self._openings[session] = opening_key(self.format, messages)

    def family(self, session: CompactionSession[N]) -> list[str]:
        """Return the id of a session, and those of other lists that this process saw under it."""
        return [session.id, *sorted(self._nested.get(session, ()))]

    def recognize(self, session: CompactionSession[N], messages: list[N], is_copy: Callable[[N, N], bool]) -> list[N]:
        """Return the list with the objects of the session's last list in place of their copies: the core knows these at once.

        Args:
            is_copy: Whether the second message is a copy of the first.
        """
        last = self._lists.get(session, [])
        same = next((index for index, pair in enumerate(zip(last, messages, strict=False)) if not is_copy(*pair)), None)
        count = min(len(last), len(messages)) if same is None else same
        known = self._lists[session] = [*last[:count], *messages[count:]]
        return known

    def open_once(self, session_id: str) -> CompactionSession[N]:
        """Return a session for its caller alone: the controller does not keep it."""
        session = self.open(session_id)
        self.controller.close(session_id)
        return session

    def remember_call(self, session: CompactionSession[N], options: CallOptions) -> None:
        """Remember the options of a call, for manual compactions between calls."""
        # The event handler writes to the stream of this call, which is closed by then.
        self._calls[session] = {**options, "on_event": None}

    def last_call(self, session: CompactionSession[N]) -> CallOptions:
        """Return the options of a session's last call; empty before the first."""
        return self._calls.get(session, {})

    def is_curable(self, error: Exception, model: str | None) -> bool:
        """Return whether a request failed for its tokens, its bytes or its reasoning, so that sending it again is no use.

        Whether another view could succeed is the controller's decision.
        """
        info = parse_overflow(error, patterns=self.controller.settings_for(model).overflow_patterns)
        is_too_large = info is not None and (info.kind == "context_overflow" or info.is_bytes)
        return is_too_large or is_reasoning_refusal(error)
