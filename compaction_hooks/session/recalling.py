"""Reading again what the view of a conversation leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

from compaction_hooks import arguments
from compaction_hooks.dress.project import make_view
from compaction_hooks.engine.engine import Engine
from compaction_hooks.messages import M
from compaction_hooks.recall import Covered, RecallTool
from compaction_hooks.recall.covered import Listing
from compaction_hooks.recall.parts import known_texts
from compaction_hooks.recall.tool import Recallable, count_answers
from compaction_hooks.session.options import T, check_call

_LISTING = arguments.Kind(callable, "be a function that returns the list of the run: recall_tool(lambda: messages)")


class RecallMethods(Generic[M]):
    """The methods of a conversation by which the program and the model read again what its view leaves out."""

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
