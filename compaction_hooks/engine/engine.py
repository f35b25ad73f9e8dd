"""What one conversation runs on."""

from __future__ import annotations

from collections.abc import Iterable

from compaction_hooks.engine.call import SharedState
from compaction_hooks.engine.conversation import Conversation
from compaction_hooks.engine.persistence import write
from compaction_hooks.engine.sending import SendingFlow
from compaction_hooks.messages import M, MessageFormat
from compaction_hooks.runtime.drivers import Driver, Services
from compaction_hooks.view.record import CompactionRecord


class Engine(SendingFlow[M]):
    """One conversation at work: its state, its share of the controller, its flows, and the driver of them."""

    def __init__(self, conversation: Conversation[M], shared: SharedState, services: Services) -> None:
        super().__init__(conversation, shared)
        self.driver = Driver(services, conversation.lock)

    @property
    def is_loaded(self) -> bool:
        """Whether the records of the store, if there is one, are here."""
        return self.conversation.queue.was_loaded or not self.shared.has_store

    def is_written_in(self, format: MessageFormat[M]) -> bool:
        """Whether the messages are read by a format of this name; from then on by no other."""
        with self.conversation.lock:
            if self.conversation.format.name != format.name:
                return False
            self.conversation.is_format_open = False
            return True

    def import_records(self, records: Iterable[CompactionRecord]) -> int:
        """Take over records, for the store too; return how many were new."""
        conversation = self.conversation
        with conversation.lock:
            new = conversation.add_records(records)
            for record in new if self.shared.has_store else ():
                for record_id in record.takes_back:
                    conversation.queue.remove(record_id)
                if not record.takes_back:
                    conversation.queue.save(record)
        return len(new)

    def save_in_this_thread(self) -> None:
        """Tell the store what it has not been told, unless it belongs to the event loop that runs in this thread."""
        if self.conversation.queue.unwritten and self.driver.can_store_here:
            self.driver.run_sync(write(self.conversation))
