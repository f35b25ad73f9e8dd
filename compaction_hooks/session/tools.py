"""The tools of the model of a conversation, and reading again what its view leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

from compaction_hooks import arguments
from compaction_hooks.compact_tool import CompactTool, ToolRequest
from compaction_hooks.dress.project import make_view
from compaction_hooks.engine.engine import Engine
from compaction_hooks.messages import M
from compaction_hooks.recall import Covered, RecallTool
from compaction_hooks.recall.covered import Listing
from compaction_hooks.recall.parts import known_texts
from compaction_hooks.recall.tool import Recallable, count_answers
from compaction_hooks.session.options import T, check_call

_LISTING = arguments.Kind(callable, "be a function that returns the list of the run: recall_tool(lambda: messages)")
_LIMITS = {
    "min_fraction": arguments.Kind(
        lambda value: arguments.is_number(value) and 0 <= value <= 1, "be a number between 0 and 1"
    ),
    "max_per_turn": arguments.whole("compactions"),
}


class ToolMethods(Generic[M]):
    """The methods of a conversation by which its model gets tools, and the program reads again what its view leaves out."""

    @property
    def engine(self) -> Engine[Any]:
        """The engine of the conversation; no part of it is public."""
        raise NotImplementedError

    def covered(self, messages: Sequence[T]) -> Covered:
        """Return what the view of a list leaves out or shortens: a sequence of parts, with `search` and `read`.

        It is read from this list alone, and neither the list nor the session is changed. The records of a store are known after
        the first call, or after `load`. Reasoning is not among the parts, nor is text that the list itself no longer has.

        Raises:
            FormatError: a message cannot be read.
        """
        return self._find_recallable(messages).covered

    def recall_tool(self, messages: Callable[[], Sequence[T]]) -> RecallTool:
        """Return a tool by which the model reads again what its view leaves out: its name, description, JSON schema and function.

        From now on the markers of this session's new records name the tool. In a new process make the tool before the first call.

        Args:
            messages: Returns the whole list of the run, as `transform_context` gets it.
        """
        arguments.check({"messages": _LISTING}, {"messages": messages})
        with self.engine.conversation.lock:
            self.engine.conversation.has_recall = True
        return RecallTool(lambda: self._find_recallable(messages()), self.engine.conversation.id)

    def compact_tool(self, min_fraction: float = 0.6, max_per_turn: int = 1) -> CompactTool:
        """Return a tool by which the model asks for a compaction: its name, description, JSON schema and function.

        The next call of this session then compacts, and its summary has the note that the model gave to the tool. The order lives
        in this process.

        Args:
            min_fraction: The least part of the trigger that the view must take, of the window if nothing triggers; from 0 to 1.
            max_per_turn: The most compactions that the model may ask for since the user's last request; from 1 on.

        Raises:
            ConfigurationError: an argument is out of its bounds.
        """
        arguments.check(_LIMITS, {"min_fraction": min_fraction, "max_per_turn": max_per_turn})

        def ask(focus: str, note: str) -> str:
            engine = self.engine
            conversation = engine.conversation
            with conversation.lock:
                last, budget = conversation.newest_snapshot, engine.last_budget()
                settings = engine.shared.find_settings((last and last.model) or engine.shared.model)
                limit = None if budget is None else budget.trigger if settings.auto_compact else budget.window
                asked = ToolRequest(
                    focus=focus,
                    note=note,
                    snapshot=last,
                    tokens=conversation.newest_tokens,
                    limit=limit,
                    is_vetoed=last is not None and conversation.cooldown.is_vetoed(last),
                    min_fraction=min_fraction,
                    max_per_turn=max_per_turn,
                )
                return conversation.tool_orders.add(asked)

        return CompactTool(ask, self.engine.conversation.id)

    def _find_recallable(self, messages: Sequence[T]) -> Recallable:
        engine = self.engine
        conversation = engine.conversation
        last = conversation.last_sent
        model = last.snapshot.model if last else engine.shared.model
        call = check_call(engine, [*messages], {"model": model} if model else {})

        with conversation.lock:
            listed = conversation.repair(call.messages, model) if call.settings.repair else call.messages
            listing = conversation.listing
            if listing is None:
                # A reading of its own: the session's reading is that of the list to send.
                listing = conversation.listing = Listing(conversation.reader)

            history = listing.read(listed, conversation.records.own_texts)
            record = conversation.records.find_active(history)
            start = conversation.find_native_start(history, model)
            large = conversation.find_large(history, record, call.settings)
            budget = engine.last_budget()
            form = conversation.format

        view = make_view(history, record, form, start, large=large.reductions)
        covered = Covered(listing.find_index(history, view), "\n".join(known_texts(view.messages(history))))
        return Recallable(covered, budget.window if budget else 0, count_answers(history))
