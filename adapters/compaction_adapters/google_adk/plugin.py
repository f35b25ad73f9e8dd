"""The plugin `CompactionPlugin`, which plans each model call of an app, and makes it through the session of its conversation."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Unpack

from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import Session
from google.genai import types

from compaction_adapters.google_adk.contents import FORMAT, is_copy, read_response, with_contents
from compaction_adapters.google_adk.planned import PlannedCall, Send, plan
from compaction_adapters.google_adk.summaries import SENT, Sent, ask_by, in_place_or
from compaction_adapters.google_adk.tools import SessionTool, takes_functions
from compaction_adapters.kit import RECALL, ControllerKeywords, ModelCalls, join_id, model_tools, positive
from compaction_hooks import CallOptions, CompactionController, Message

logger = logging.getLogger("compaction_hooks")


class CompactionPlugin(ModelCalls[types.Content], BasePlugin):
    """Keeps the conversations of an app inside the context window, and recovers when the provider says that one is too long.

    Each model call sends a view; the events of the session stay whole. Each agent of a session has a conversation of its own, see
    `conversation_id`. The calls are made by a function that the plugin puts on the class of the agent's model. Live calls
    (`run_live`) have no callbacks, so they go on as they are.

        app = App(name="coder", root_agent=agent, plugins=[CompactionPlugin()])

    Args:
        controller: A controller, shared or not, of any format. None: make one from the keywords.
        recall: Whether every agent gets a tool by which its model reads again what its views leave out.
        compact: Whether every agent gets a tool by which its model asks for a compaction.
        name: The plugin's name, which is unique in an app.
        **keywords: Those of `CompactionController`.

    Raises:
        ConfigurationError: both a controller and keywords are given.
    """

    _shares_ids = False
    _is_copy = staticmethod(is_copy)  # ADK makes the contents of each call anew

    def __init__(
        self,
        controller: CompactionController[Any] | None = None,
        *,
        recall: bool = False,
        compact: bool = False,
        name: str = "compaction",
        **keywords: Unpack[ControllerKeywords],
    ) -> None:
        super().__init__(controller, keywords, FORMAT)
        BasePlugin.__init__(self, name)
        self._tools = model_tools(recall=recall, compact=compact)
        self._has_warned = False

    @staticmethod
    def conversation_id(session: Session, agent: str, branch: str | None = None, scope: str | None = None) -> str:
        """Return the id of an agent's conversation in a session, which belongs to an app and a user.

        Args:
            agent: The agent's name: each agent of a session sees the events of the others in another form.
            branch: The branch of the agent's events, if it runs next to others.
            scope: The isolation scope of the agent's events, if it was given a task.
        """
        return join_id(session.app_name, session.user_id, session.id, agent, branch or "", scope or "")

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        """Plan the call. The agent's model makes it when all callbacks have seen it."""
        if llm_request.previous_interaction_id:
            self._warn_once()
            return

        invocation, agent = callback_context.get_invocation_context(), callback_context.agent_name
        call = PlannedCall(
            request=llm_request,
            model=await invocation.agent.canonical_model_async(callback_context),
            conversation_id=self.conversation_id(
                invocation.session, agent, invocation.branch, invocation.isolation_scope
            ),
            own_compaction=invocation.events_compaction_config,
            respond=self._respond,
        )
        for tool in self._tools:
            tool.check_name(llm_request.tools_dict)
        if self._tools and takes_functions(llm_request.config):
            place = call.conversation_id, llm_request.contents
            llm_request.append_tools([SessionTool(tool, partial(self._run_tool, tool, *place)) for tool in self._tools])
        plan(call)

    def _warn_once(self) -> None:
        if not self._has_warned:
            logger.warning("calls of Google's Interactions API go on as they are: the server keeps their history")
        self._has_warned = True

    async def _respond(self, call: PlannedCall, send: Send, stream: bool) -> AsyncGenerator[LlmResponse]:
        """Make a planned call by the model's own function, and yield its responses."""
        options, place = _options_of(call, send), (call.conversation_id, call.request.contents)
        has_recall = isinstance(call.request.tools_dict.get(RECALL.name), SessionTool)

        def open_stream(view: list[types.Content]) -> AsyncGenerator[LlmResponse]:
            return send(with_contents(call.request, view), stream)

        async def send_whole(view: list[types.Content]) -> list[LlmResponse]:
            async with aclosing(open_stream(view)) as responses:
                return [response async for response in responses]

        if not stream:
            for response in await self._call(*place, send_whole, _read_last, options, has_recall=has_recall):
                yield response
            return
        async with aclosing(
            self._stream(*place, open_stream, read_response, options, _is_prelude, has_recall=has_recall)
        ) as responses:
            async for response in responses:
                yield response


def _is_prelude(_: LlmResponse) -> bool:
    return False  # a model that cannot answer raises before its first response


def _read_last(responses: list[LlmResponse]) -> Message | None:
    return read_response(responses[-1]) if responses else None


def _options_of(call: PlannedCall, send: Send) -> CallOptions:
    config: Any = call.request.config
    model = call.request.model
    bound = {
        "response_schema": config.response_schema,
        "response_json_schema": config.response_json_schema,
        "response_mime_type": config.response_mime_type,
        "tool_choice": "any" if _must_call(config) else None,
    }
    return CallOptions(
        model=model,
        # ADK's class for Claude has a limit of its own, and sends it with each call.
        max_output_tokens=positive(config.max_output_tokens) or positive(getattr(call.model, "max_tokens", None)),
        system=config.system_instruction,
        tools=config.tools,
        request={
            "events_compaction_config": call.own_compaction,
            **bound,
            SENT: Sent(send, with_contents(call.request, ())),
        },
        summarizer=in_place_or(ask_by(send, model, config)),
    )


def _must_call(config: types.GenerateContentConfig) -> bool:
    """Return whether the model is made to call a function."""
    calling = None if config.tool_config is None else config.tool_config.function_calling_config
    return calling is not None and calling.mode is types.FunctionCallingConfigMode.ANY
