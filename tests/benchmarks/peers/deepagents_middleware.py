"""deepagents' summarization middleware with its defaults: its `awrap_model_call`, around a model that answers at once."""

from collections.abc import Sequence
from typing import Any, cast

from deepagents.backends import StoreBackend
from deepagents.middleware.summarization import create_summarization_middleware
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError as LangChainOverflow
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.store.memory import InMemoryStore

from compaction_hooks import ContextOverflowError
from tests.benchmarks.peers.langchain_messages import AgentPeer, chat_model
from tests.benchmarks.peers.peer import Summarize


class Peer(AgentPeer):
    name = "deepagents"
    packages = ("deepagents", "langchain", "langchain-core")
    reads_usage = True

    def __init__(self, window: int, summarize: Summarize) -> None:
        super().__init__(window, summarize)
        self._model = chat_model(window)
        backend: Any = StoreBackend(store=InMemoryStore(), namespace=lambda _: ("benchmark",))
        self._middleware: Any = create_summarization_middleware(
            self._model, backend, summarizer=cast("Any", self._summarize)
        )
        self._state: dict[str, Any] = {}
        self._sent: Sequence[BaseMessage] = ()

    async def view(self) -> Sequence[BaseMessage]:
        system, messages, state = cast("Any", (self.head[0] if self.head else None, self.messages, self._state))
        request = ModelRequest(model=self._model, messages=messages, system_message=system, state=state, runtime=None)
        try:
            answer = await self._middleware.awrap_model_call(request, self._call)
        except LangChainOverflow as error:
            raise ContextOverflowError(str(error)) from error
        if isinstance(answer, ExtendedModelResponse) and answer.command:
            update: Any = dict(cast("Any", answer.command.update))
            replaced = {message.id: message for message in update.pop("messages", ())}
            self.messages = [replaced.get(message.id, message) for message in self.messages]
            self._state |= update
        return self._sent

    async def _call(self, request: Any) -> Any:
        self._sent = request.messages
        return ModelResponse(result=[AIMessage("")])

    async def _summarize(self, messages: list[BaseMessage]) -> str:
        return self.summarize_messages(self._middleware._lc_helper, messages, "<summary>\n", "\n</summary>")
