"""Watches the model calls inside of a handler, which takes no callbacks of ours."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from langchain_core.tracers.context import register_configure_hook
from langgraph.constants import TAG_NOSTREAM

from compaction_adapters.langchain_core import TokenWatch


class HandlerWatch(TokenWatch):
    """Watches what is called while it is `watching`, but for what other middleware keeps out of the user's sight."""

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch what is called in here."""
        token = _WATCH.set(self)
        try:
            yield
        finally:
            _WATCH.reset(token)

    def on_llm_new_token(self, token: Any, *, tags: list[str] | None = None, **seen: Any) -> None:
        """Note that a call gave a chunk."""
        if TAG_NOSTREAM not in (tags or ()):
            super().on_llm_new_token(token, **seen)


_WATCH: Final[ContextVar[HandlerWatch | None]] = ContextVar("compaction_handler_watch", default=None)
register_configure_hook(_WATCH, inheritable=False)
