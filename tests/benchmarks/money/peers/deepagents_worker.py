"""deepagents' `SummarizationMiddleware`, as `create_summarization_middleware` sets it up for a model with a known window."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import create_summarization_middleware
from langchain.agents.middleware import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError as LangChainOverflow
from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from compaction_hooks import ContextOverflowError
from tests.benchmarks.money.peers.langchain_messages import Conversation, fake_model
from tests.benchmarks.money.peers.serving import Chat, Notes, serve

_TAGS = ("<summary>\n", "\n</summary>")


class DeepAgents:
    """The middleware around a model without answers, with its own state."""

    def __init__(self, window: int, notes: Notes) -> None:
        self._conversation = Conversation()
        self._notes = notes
        self._messages: list[AnyMessage] = []
        self._state: dict[str, Any] = {}
        self._sent: Sequence[AnyMessage] = ()
        self._model = fake_model(window)
        folder = tempfile.mkdtemp(prefix="deepagents-")
        self._middleware: Any = create_summarization_middleware(
            self._model, FilesystemBackend(root_dir=folder, virtual_mode=True), summarizer=self._summarize
        )

    def _summarize(self, messages: list[AnyMessage]) -> str:
        prompt = self._middleware._lc_helper._format_summary_prompt(messages)
        previous, rest = None, messages
        if messages and _TAGS[0] in messages[0].text:
            previous, rest = messages[0].text.partition(_TAGS[0])[2].removesuffix(_TAGS[1]), messages[1:]
        return self._notes.summarize(self._conversation.chats(rest), previous=previous, prompt=prompt)

    def send(self, new: Sequence[Chat], usage: tuple[int, int] | None) -> Sequence[int | Chat]:
        self._messages += self._conversation.add(new, usage)
        systems = self._conversation.system_messages()
        state: Any = {"messages": self._messages, **self._state}
        request: ModelRequest[Any] = ModelRequest(
            model=self._model,
            messages=self._messages,
            system_message=SystemMessage(content=systems[0].content) if systems else None,
            state=state,
        )
        try:
            response = self._middleware.wrap_model_call(request, self._answer)
        except LangChainOverflow as error:
            raise ContextOverflowError(str(error)) from error
        if isinstance(response, ExtendedModelResponse) and response.command is not None:
            self._take(response.command.update)
        return self._conversation.reply(self._sent)

    def _answer(self, request: ModelRequest[Any]) -> ModelResponse[Any]:
        self._sent = request.messages
        return ModelResponse(result=[AIMessage(content="")])

    def _take(self, update: Any) -> None:
        replaced = {message.id: message for message in update.pop("messages", ())}
        self._messages = [replaced.get(message.id, message) for message in self._messages]
        self._state |= update


if __name__ == "__main__":
    serve(DeepAgents)
