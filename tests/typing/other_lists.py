"""Programs with plain dicts and with LangChain's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from compaction_adapters.langchain import LangChainFormat
from langchain_core.messages import BaseMessage, HumanMessage

from compaction_hooks import (
    CompactionController,
    CompactionEvent,
    CompactionSession,
    CompactionSettings,
    EventHandler,
    SummaryRequest,
)

if TYPE_CHECKING:
    from typing import assert_type

    from compaction_hooks import NoSuchName  # type: ignore[attr-defined]  # noqa: F401  # pyright: ignore


def summarize(request: SummaryRequest) -> str:
    """Summarize in a word."""
    return f"{len(request.messages)} messages"


async def tell(event: CompactionEvent) -> None:
    """Tell of an event."""
    print(event)


handlers: list[EventHandler] = [print, tell]
hooks = CompactionController(
    context_window=16_384, summarizer=summarize, settings=CompactionSettings(repair=True), on_event=handlers
)
dicts: list[dict[str, Any]] = [{"role": "user", "content": "Port the parser."}]
texts = [{"role": "user", "content": "Port the parser."}]
mappings: list[Mapping[str, object]] = [*dicts]
spoken: list[BaseMessage] = [HumanMessage("Port the parser.")]


def views() -> None:
    """Whatever the type of a list, the view is of the same."""
    assert_type(hooks.transform_context_sync(dicts), list[dict[str, Any]])
    assert_type(hooks.transform_context_sync(texts), list[dict[str, str]])
    assert_type(hooks.transform_context_sync(mappings), list[Mapping[str, object]])
    assert_type(hooks.compact_sync(dicts).messages, list[dict[str, Any]])
    langchain = CompactionController(context_window=16_384, format=LangChainFormat())
    assert_type(langchain.transform_context_sync(spoken), list[BaseMessage])


async def awaited(session: CompactionSession[Any]) -> str:
    """A program's own functions keep their types."""

    async def send(view: list[dict[str, Any]]) -> str:
        return f"an answer to {len(view)} messages"

    return await session.call(dicts, send)
