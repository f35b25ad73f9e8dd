"""What a caller may tell of one call, beside the messages."""

from __future__ import annotations

from typing import TypedDict

from compaction_hooks.events import EventHandler
from compaction_hooks.summarizers import Summarizer


class CallOptions(TypedDict, total=False):
    """Keywords of `transform_context`, `call`, `compact`, `recover` and their sync twins.

    Attributes:
        model: The model of this call, for its window; None: the controller's.
        context_window: That model's window in tokens, where the host knows it; one given to the controller holds before it.
        max_output_tokens: What this call asks the model for at most, in tokens; None: what the settings say.
        system: A system prompt that is not in the list but counts: text or JSON.
        tools: Tool schemas that count, as JSON.
        repair: Whether to mend a broken history in the list that is handed out; None: as the settings say.
        summarizer: Asked for a summary where the controller was given none; None: the extractive one, which needs no model.
        on_event: One more event handler, for this call.
    """

    model: str | None
    context_window: int | None
    max_output_tokens: int | None
    system: object
    tools: object
    repair: bool | None
    summarizer: Summarizer | None
    on_event: EventHandler | None
