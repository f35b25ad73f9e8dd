"""The watch of model calls inside a handler, which takes no callbacks of ours."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from langchain_core.tracers.context import register_configure_hook
from langgraph.constants import TAG_NOSTREAM

from compaction_adapters.langchain_core import TokenWatch


class HandlerWatch(TokenWatch):
    """Watches the model calls inside `watch()`, except those that other middleware hides from the user."""

    @contextmanager
    def watch(self) -> Generator[None]:
        """Watch the model calls inside this context."""
        token = _WATCH.set(self)
        try:
            yield
        finally:
            _WATCH.reset(token)

    def on_llm_new_token(self, token: Any, *, tags: list[str] | None = None, **seen: Any) -> None:
        """Record that a call streamed a chunk."""
        if TAG_NOSTREAM not in (tags or ()):
            super().on_llm_new_token(token, **seen)


_WATCH: Final[ContextVar[HandlerWatch | None]] = ContextVar("compaction_handler_watch", default=None)
register_configure_hook(_WATCH, inheritable=False)
