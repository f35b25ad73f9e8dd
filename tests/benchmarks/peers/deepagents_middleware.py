"""deepagents' summarization middleware: its `awrap_model_call`, around a model that answers at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from deepagents.backends import StoreBackend
from deepagents.middleware.summarization import create_summarization_middleware
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.store.memory import InMemoryStore

from tests.benchmarks.peers.langchain_messages import LangChainConversation, chat_model, langchain_peer, summarize
from tests.benchmarks.peers.worker import serve

_ANSWER = ModelResponse(result=[AIMessage("")])


class _Middleware(LangChainConversation):
    def __init__(self, window: int) -> None:
        super().__init__()
        self._model = chat_model(window)
        backend: Any = StoreBackend(store=InMemoryStore(), namespace=lambda _: ("benchmark",))
        self._middleware: Any = create_summarization_middleware(self._model, backend, summarizer=cast("Any", summarize))
        self._state: dict[str, Any] = {}
        self._sent: Sequence[BaseMessage] = ()

    async def view(self) -> Sequence[BaseMessage]:
        system: Any = self.head[0] if self.head else None
        state: Any = self._state
        messages: Any = self.messages
        request = ModelRequest(model=self._model, messages=messages, system_message=system, state=state, runtime=None)
        answer = await self._middleware.awrap_model_call(request, self._call)
        if isinstance(answer, ExtendedModelResponse) and answer.command:
            update: Any = answer.command.update
            self._state |= {key: value for key, value in update.items() if key != "messages"}
        return self._sent

    async def _call(self, request: Any) -> Any:
        self._sent = request.messages
        return _ANSWER


PEER = langchain_peer(
    name="deepagents",
    packages=("deepagents", "langchain", "langchain-core"),
    settings="`create_summarization_middleware`, defaults: trigger 85 % of the window, keeps 10 %, history to a store in memory",
    open=_Middleware,
    reads_usage=True,
)

if __name__ == "__main__":
    serve(PEER)
