"""Summaries asked in place, in agent loops around the clients of three APIs over HTTP."""

from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

import anthropic
import openai
from compaction_adapters import anthropic as by_anthropic
from compaction_adapters import openai as by_openai

from compaction_hooks import CompactionController, CompactionFinished, MessageFormat
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from tests.in_place_scene import REQUEST, SETTINGS, WINDOW, check_in_place, read_page
from tests.provider import LoopbackProvider

PARAMETERS = {"type": "object", "properties": {"page": {"type": "integer"}}}
TOOL = {"name": "read_page", "description": "Read a page.", "parameters": PARAMETERS}
MODEL = "m-1"
SYSTEM = "You read."


class Loop:
    """An agent loop around the client of an API."""

    def __init__(self, provider: LoopbackProvider, api: str, key: str, **options: Any) -> None:
        self.api, self.options = api, options
        if api == "anthropic":
            self.client: Any = anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key=key, max_retries=0)
            summarizer = by_anthropic.in_place(self.client)
            format: MessageFormat[Any] = AnthropicFormat()
        else:
            self.client = openai.AsyncOpenAI(base_url=provider.openai_url, api_key=key, max_retries=0)
            summarizer = by_openai.in_place(self.client)
            format = OpenAIChatFormat() if api == "chat" else OpenAIResponsesFormat()
        self.events: list[CompactionFinished] = []
        self.session = CompactionController(
            context_window=WINDOW,
            model=MODEL,
            settings=SETTINGS,
            summarizer=summarizer,
            format=format,
            on_event=self._note,
        ).session("run")
        self.messages: list[Any] = []

    def _note(self, event: object) -> None:
        if isinstance(event, CompactionFinished):
            self.events.append(event)

    async def ask(self) -> str:
        system, tools = (None if self.api == "chat" else SYSTEM), [self._tool()]
        self.messages.append({"role": "user", "content": REQUEST})
        while True:
            answer = await self.session.call(
                self.messages, self._send, system=system, tools=tools, request=self.options
            )
            text, said, pages = self._read(answer)
            self.messages += said
            if not pages:
                return text
            self.messages += [self._result(id, page) for id, page in pages]

    def _tool(self) -> Any:
        if self.api == "chat":
            return {"type": "function", "function": TOOL}
        if self.api == "responses":
            return {"type": "function", **TOOL}
        return {"name": TOOL["name"], "description": TOOL["description"], "input_schema": PARAMETERS}

    async def _send(self, view: list[Any]) -> Any:
        if self.api == "chat":
            return await self.client.chat.completions.create(
                model=MODEL, messages=view, tools=[self._tool()], **self.options
            )
        if self.api == "responses":
            return await self.client.responses.create(
                model=MODEL, input=view, instructions=SYSTEM, tools=[self._tool()], **self.options
            )
        return await self.client.messages.create(
            model=MODEL, messages=view, system=SYSTEM, tools=[self._tool()], max_tokens=1000, **self.options
        )

    def _read(self, answer: Any) -> tuple[str, list[Any], list[tuple[str, int]]]:
        if self.api == "chat":
            message = answer.choices[0].message
            calls = [(call.id, int(call.function.arguments.strip('{}" page:'))) for call in message.tool_calls or ()]
            return message.content or "", [message.model_dump(exclude_none=True)], calls
        if self.api == "responses":
            items = [item.model_dump(exclude_none=True) for item in answer.output]
            calls = [
                (i["call_id"], int(i["arguments"].strip('{}" page:'))) for i in items if i["type"] == "function_call"
            ]
            return answer.output_text, items, calls
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        calls = [(block["id"], block["input"]["page"]) for block in content if block["type"] == "tool_use"]
        return "".join(one.get("text", "") for one in content), [{"role": "assistant", "content": content}], calls

    def _result(self, id: str, page: int) -> Any:
        text = read_page(page)
        if self.api == "chat":
            return {"role": "tool", "tool_call_id": id, "content": text}
        if self.api == "responses":
            return {"type": "function_call_output", "call_id": id, "output": text}
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}


async def test_limits_and_streams_in_extra_body_are_those_of_the_summary(provider: LoopbackProvider) -> None:
    loop = Loop(provider, "chat", "extra", extra_body={"max_completion_tokens": 50, "top_k": 5})
    side = provider.conversation("extra")
    await check_in_place(side, loop.ask)
    asked = [request.body for request in side.requests if request.is_in_place]
    assert {(body["top_k"], body.get("max_completion_tokens")) for body in asked} == {(5, None)}
    await loop.client.close()


@pytest.mark.parametrize(
    ("api", "has_answer"),
    [
        pytest.param("chat", True, id="chat-summary", marks=pytest.mark.full),
        pytest.param("chat", False, id="chat-tool call", marks=pytest.mark.full),
        pytest.param("responses", True, id="responses-summary", marks=pytest.mark.full),
        pytest.param("responses", False, id="responses-tool call"),
        pytest.param("anthropic", True, id="anthropic-summary"),
        pytest.param("anthropic", False, id="anthropic-tool call", marks=pytest.mark.full),
    ],
)
async def test_a_summary_is_asked_by_the_list_of_the_call(
    provider: LoopbackProvider, api: str, has_answer: bool
) -> None:
    options = {"metadata": {"user_id": "u"}} if api == "anthropic" else {"temperature": 0.5}
    loop = Loop(provider, api, f"{api}-{has_answer}", **options)
    await check_in_place(provider.conversation(f"{api}-{has_answer}"), loop.ask, has_answer=has_answer)
    assert all(event.usage and not event.usage.is_estimate for event in loop.events)
    await loop.client.close()
