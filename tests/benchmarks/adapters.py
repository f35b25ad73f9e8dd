"""What an adapter adds to its framework: the time to import it, and the time of a call in which nothing is due.

    python -m tests.benchmarks.adapters langgraph langchain pydantic_ai litellm

Run it in an environment with the frameworks that you name (`nox -s frameworks` makes four). Printed are:

- import: processor time in ms of a fresh process that has made a call with the framework alone, until it has imported the
  adapter and made its first call, above that of another call with the framework alone;
- 50 and 1,000 messages: the median wall time in ms of a call above the same call with an empty hook of the same kind, in turns.
  Each call brings two new messages. LangChain's own middleware is in the table as a measure.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

WINDOW = 10**9
CALLS, WARM = 40, 10
ENDED = {"finish_reason": "stop"}
"""What every provider says of an answer; without it the text of an error is looked for in the answer."""
Send = Callable[[list[Any]], Awaitable[object]]
"""Makes one call of a framework with these messages."""


def langchain(kind: str) -> tuple[Send, Callable[[int], list[Any]]]:
    """Return an agent without tools, and messages for it."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage

    class Empty(AgentMiddleware[Any, Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    model = FakeMessagesListChatModel(responses=[AIMessage("Fine.", response_metadata=ENDED)])
    middleware: Any = Empty()
    if kind == "ours":
        from compaction_adapters.langchain import CompactionMiddleware

        middleware = CompactionMiddleware(context_window=WINDOW)
    if kind == "theirs":
        middleware = SummarizationMiddleware(model, trigger=("tokens", WINDOW))
    agent: Any = create_agent(model, [], middleware=[middleware])
    return _send_to_graph(agent), _langchain_messages


def langgraph(kind: str) -> tuple[Send, Callable[[int], list[Any]]]:
    """Return a graph of a hook and a model, and messages for it."""
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage
    from langgraph.graph import MessagesState, StateGraph

    model: Any = FakeMessagesListChatModel(responses=[AIMessage("Fine.", response_metadata=ENDED)])
    hook: Any = _empty_node
    if kind == "ours":
        from compaction_adapters.langgraph import CompactionNode

        hook = CompactionNode(context_window=WINDOW)
        model = hook.wrap(model)

    async def answer(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("compact", hook)
    graph.add_node("model", answer)
    graph.set_entry_point("compact")
    graph.add_edge("compact", "model")
    return _send_to_graph(graph.compile()), _langchain_messages


async def _empty_node(state: Any) -> Any:
    return {}


def _send_to_graph(graph: Any) -> Send:
    config = {"configurable": {"thread_id": "one"}}
    return lambda messages: graph.ainvoke({"messages": messages}, config)


def _langchain_messages(first: int) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage

    return [AIMessage(f"Answer {first}.", id=f"a{first}"), HumanMessage(f"Question {first}?", id=f"q{first}")]


def pydantic_ai(kind: str) -> tuple[Send, Callable[[int], list[Any]]]:
    """Return an agent without tools, and messages for it."""
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.function import FunctionModel

    class Empty(AbstractCapability[Any]):
        async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
            return request_context

    capability: Any = Empty()
    if kind == "ours":
        from compaction_adapters.pydantic_ai import Compaction

        capability = Compaction(context_window=WINDOW, summarizer=lambda _: "- so far")
    agent: Any = Agent(
        FunctionModel(lambda *_: ModelResponse([TextPart("Fine.")], finish_reason="stop")), capabilities=[capability]
    )

    def make(first: int) -> list[Any]:
        asked = ModelRequest([UserPromptPart(f"Question {first}?")])
        return [ModelResponse([TextPart(f"Answer {first}.")]), asked]

    history: list[Any] = []

    async def send(messages: list[Any]) -> object:
        """Go on from the last run, whose requests the framework has completed."""
        result = await agent.run("And now?", message_history=history or messages, conversation_id="one")
        history[:] = result.all_messages()
        return result

    return send, make


def litellm(kind: str) -> tuple[Send, Callable[[int], list[Any]]]:
    """Return a function that takes messages, and messages for it."""
    import litellm

    async def complete(*, model: str, messages: list[Any]) -> Any:
        return litellm.ModelResponse()

    async def empty(*, model: str, messages: list[Any]) -> Any:
        return await complete(model=model, messages=messages)

    function: Any = empty
    if kind == "ours":
        from compaction_adapters.litellm import with_compaction

        function = with_compaction(complete, context_window=WINDOW, session_id="one")

    def make(first: int) -> list[Any]:
        asked = {"role": "user", "content": f"Question {first}?"}
        return [{"role": "assistant", "content": f"Answer {first}."}, asked]

    return lambda messages: function(model="gpt-5", messages=messages), make


def openai_agents(kind: str) -> tuple[Send, Callable[[int], list[Any]]]:
    """Return an agent without tools, whose model is wrapped or not, and items for it."""
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, set_tracing_disabled
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    class Fine(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            text = ResponseOutputText(text="Fine.", type="output_text", annotations=[])
            said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
            return ModelResponse([said], Usage(), None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    set_tracing_disabled(True)
    model: Model = Fine()
    config = RunConfig(call_model_input_filter=lambda data: data.model_data)
    if kind == "ours":
        from compaction_adapters.openai_agents import CompactionModelProvider

        provider = CompactionModelProvider(context_window=WINDOW)
        model, config = provider.wrap(model), provider.run_config("one")
    agent = Agent("one", model=model)

    def make(first: int) -> list[Any]:
        asked = {"role": "user", "content": f"Question {first}?"}
        return [{"role": "assistant", "content": f"Answer {first}."}, asked]

    return lambda messages: Runner.run(agent, messages, run_config=config), make


def google_adk(kind: str) -> tuple[Send, Callable[[int], list[Any]]]:
    """Return an app of an agent without tools, and contents for its session."""
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.events import Event
    from google.adk.models import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, FinishReason, Part

    class Fine(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            said = Content(role="model", parts=[Part(text="Fine.")])
            yield LlmResponse(content=said, finish_reason=FinishReason.STOP)

    class Empty(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            return None

    plugin: Any = Empty("empty")
    if kind == "ours":
        from compaction_adapters.google_adk import CompactionPlugin

        plugin = CompactionPlugin(context_window=WINDOW)
    app = App(name="bench", root_agent=LlmAgent(name="one", model=Fine(model="fine")), plugins=[plugin])
    runner = InMemoryRunner(app=app)
    place: dict[str, Any] = {"user_id": "one", "session_id": "one"}

    def make(first: int) -> list[Any]:
        texts = {"model": f"Answer {first}.", "user": f"Question {first}?"}
        return [Content(role=role, parts=[Part(text=text)]) for role, text in texts.items()]

    async def send(messages: list[Any]) -> object:
        """Run the newest message; all before it are in the session, or are put there."""
        session = await runner.session_service.get_session(app_name="bench", **place)
        if session is None:
            session = await runner.session_service.create_session(app_name="bench", **place)
            for content in messages[:-1]:
                author = "user" if content.role == "user" else "one"
                await runner.session_service.append_event(session, Event(author=author, content=content))
        return [event async for event in runner.run_async(new_message=messages[-1], **place)]

    return send, make


def agent_framework(kind: str) -> tuple[Send, Callable[[int], list[Any]]]:
    """Return an agent without tools, and messages for its session."""
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatMiddleware,
        ChatMiddlewareLayer,
        ChatResponse,
        FunctionInvocationLayer,
        Message,
    )

    class Fine(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
        def _inner_get_response(self, **_: Any) -> Any:
            async def answer() -> Any:
                return ChatResponse(messages=[Message("assistant", ["Fine."])], finish_reason="stop")

            return answer()

    class Empty(ChatMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            await call_next()

    middleware: Any = Empty()
    if kind == "ours":
        from compaction_adapters.agent_framework import CompactionMiddleware

        middleware = CompactionMiddleware(context_window=WINDOW)
    agent: Any = Agent(client=Fine(), middleware=[middleware])
    session = agent.create_session()

    def make(first: int) -> list[Any]:
        return [Message("assistant", [f"Answer {first}."]), Message("user", [f"Question {first}?"])]

    async def send(messages: list[Any]) -> object:
        """Run the newest message; all before it are in the session, or are put there."""
        session.state.setdefault("in_memory", {"messages": messages[:-1]})
        return await agent.run(messages[-1], session=session)

    return send, make


def strands(kind: str) -> tuple[Send, Callable[[int], list[Any]]]:
    """Return an agent without tools, and messages for it."""
    from strands import Agent
    from strands.agent.conversation_manager import NullConversationManager
    from strands.middleware import InvokeModelStage
    from strands.models import Model

    class Fine(Model):
        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> Any:
            return {"model_id": "fine"}

        def structured_output(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def stream(self, *_: Any, **__: Any) -> Any:
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "Fine."}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    async def empty(context: Any, next_fn: Any) -> Any:
        async for event in next_fn(context):
            yield event

    manager: Any = NullConversationManager()
    if kind == "ours":
        from compaction_adapters.strands import CompactionConversationManager

        manager = CompactionConversationManager(context_window=WINDOW)
    agent = Agent(model=Fine(), conversation_manager=manager, callback_handler=None)
    if kind == "empty":
        agent.add_middleware(InvokeModelStage, empty)

    def make(first: int) -> list[Any]:
        texts = {"assistant": f"Answer {first}.", "user": f"Question {first}?"}
        return [{"role": role, "content": [{"text": text}]} for role, text in texts.items()]

    async def send(messages: list[Any]) -> object:
        """Ask the newest message; all before it are in the agent, or are put there."""
        agent.messages = agent.messages or messages[:-1]
        return await agent.invoke_async(messages[-1]["content"])

    return send, make


FRAMEWORKS = {"langgraph": langgraph, "langchain": langchain, "pydantic_ai": pydantic_ai, "litellm": litellm}
FRAMEWORKS |= {
    "openai_agents": openai_agents,
    "google_adk": google_adk,
    "strands": strands,
    "agent_framework": agent_framework,
}


async def measure(name: str, kind: str, count: int) -> float:
    """Return the median time of a call above that with an empty hook, in ms."""
    (ours, make), (empty, _) = FRAMEWORKS[name](kind), FRAMEWORKS[name]("empty")
    messages = [message for number in range(0, count, 2) for message in make(number)][1:]
    spent: dict[Send, list[float]] = {ours: [], empty: []}
    for number in range(CALLS + WARM):
        messages = [*messages, *make(count + 2 * number)]
        for send in (ours, empty) if number % 2 else (empty, ours):
            start = time.perf_counter()
            await send(messages)
            spent[send].append((time.perf_counter() - start) * 1000)
    mine, other = (statistics.median(times[WARM:]) for times in spent.values())
    return mine - other


def measure_import(name: str) -> float:
    """Return the least processor time of several fresh processes in which our hook begins, in ms."""
    command = [sys.executable, "-m", "tests.benchmarks.adapters", "--first", name]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(6)]
    return min(float(done.stdout.splitlines()[-1]) for done in runs)


async def first_call(name: str) -> None:
    """Print the processor time in which our hook begins in this process, in ms."""
    spent: list[float] = []
    for kind in ("empty", "empty", "ours"):
        start = time.process_time()
        send, make = FRAMEWORKS[name](kind)
        await send(make(0)[1:])
        spent.append((time.process_time() - start) * 1000)
    print(spent[2] - spent[1])


async def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frameworks", nargs="*", help=", ".join(FRAMEWORKS))
    parser.add_argument("--first", metavar="FRAMEWORK", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        await first_call(options.first)
        return
    print(f"{'ms above the framework':<24}{'import':>10}{'50':>10}{'1,000':>10}")
    for name in options.frameworks:
        figures = [measure_import(name), await measure(name, "ours", 50), await measure(name, "ours", 1_000)]
        print(f"{name:<24}" + "".join(f"{figure:>10.2f}" for figure in figures), flush=True)
        if name == "langchain":
            figures = [await measure(name, "theirs", count) for count in (50, 1_000)]
            print(f"{'SummarizationMiddleware':<34}" + "".join(f"{figure:>10.2f}" for figure in figures), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
