"""Has the user seen a token of this model call yet? Then it must not be made once more."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler


class TokenWatch(BaseCallbackHandler):
    """Watches the model calls it is a callback of.

    A model streams when somebody listens (`stream_mode="messages"`, `astream_events`), or when it is told to; `invoke` returns
    the whole message all the same, so that its callbacks are the only sign.
    """

    run_inline = True
    """Called in order with the stream, not from another thread."""

    def __init__(self) -> None:
        self._streamed: set[UUID] = set()
        self.has_broken = False
        """Whether a call failed after its first chunk."""

    @property
    def has_tokens(self) -> bool:
        """Whether a call gave at least one chunk."""
        return bool(self._streamed)

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Take no notice. Without this method langchain writes all messages out as one text for `on_llm_start`."""

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - the signature is langchain's
        """Note that a call gave a chunk."""
        self._streamed.add(run_id)

    def on_stream_event(self, event: Any, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - the signature is langchain's
        """Note that a call gave an event (`astream_events(version="v3")`)."""
        self._streamed.add(run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - likewise
        """Note that a call failed."""
        self.has_broken |= run_id in self._streamed
