"""What typical mistakes are answered: at once, by the field, its value and the fix."""

import asyncio
import functools
import importlib
import math
import os
from collections.abc import Mapping
from typing import Any

import pytest

from compaction_hooks import CompactionController, CompactionError, ConfigurationError
from tests.cases import folded

CORE = {
    # the options of a call
    "hooks.transform_context_sync(messages, windoww=3)": "windoww=3: did you mean context_window?",
    "asyncio.run(hooks.transform_context(messages, max_output_token=9))": "did you mean max_output_tokens?",
    "hooks.compact_sync(messages, focuss='x')": "focuss=<str>: did you mean focus of compact()?",
    "hooks.transform_context_sync(messages, focus='x')": "focus=<str>: did you mean focus of compact()?",
    "hooks.compact_sync(messages, answer=print)": "did you mean answer of call()?",
    "hooks.transform_context_sync(messages, colour='red')": "colour=<str>: it takes context_window, max_output_tokens",
    "hooks.transform_context_sync(messages, context_window='8k')": "context_window=<str> must be a whole number of tokens",
    "hooks.transform_context_sync(messages, tools=[{('a',): 1}])": "`tools` must be text or JSON",
    "hooks.transform_context_sync(messages, tools=[{'n': 10**5_000}])": "`tools` must be text or JSON",
    "hooks.transform_context_sync(messages, tools=[functools.reduce(lambda deep, _: {'a': deep}, range(100_000), {})])": (
        "must be text or JSON"
    ),
    "hooks.transform_context_sync(messages, system={('a',): 1})": "`system` and `tools` must be",
    "hooks.transform_context_sync(messages, model=5)": 'model=5 must be the name of a model, such as "gpt-5.2"',
    "hooks.transform_context_sync(messages, repair='yes')": "repair=<str> must be True or False",
    "hooks.transform_context_sync(messages, 'stop')": "signal=<str> must be an event with is_set()",
    "hooks.compact_sync(messages, -1)": "keep_recent_tokens=-1 must be a whole number of tokens",
    "hooks.recover_sync('prompt is too long', messages)": "must be the exception that the model call raised",
    # the messages
    "hooks.transform_context_sync(None)": "messages must be the list of the conversation's messages, not NoneType",
    "hooks.transform_context_sync(messages[0])": "not dict: write [message]",
    "hooks.transform_context_sync('hello')": "not str: write [message]",
    "hooks.transform_context_sync(message for message in messages)": "not generator: write list(messages)",
    "hooks.transform_context_sync(['hello'])": "a message must be a dict, not str",
    "hooks.transform_context_sync([{'content': 'hello'}])": 'a chat message needs "role"',
    "project(None, None)": "messages must be the list",
    "project(messages, {'id': 'a'})": "record=<dict> must be CompactionRecord(...)",
    "project(messages, None, model=5)": "model=5 must be the name of a model",
    "problems(messages)": "a message to check must be a Message(...), not dict: read it with a MessageFormat",
    # the model call
    "hooks.call_sync(messages, send_async)": "is async: write `await call(messages, send)`",
    "hooks.call_sync(messages, lambda view: send_async(view))": "gave a coroutine to call_sync: write `await call(",
    "hooks.call_sync(messages, 'gpt-5')": "send=<str> must be a function",
    "asyncio.run(hooks.call(messages, None))": "send=None must be a function",
    "hooks.call_sync(messages, print, answer=5)": "answer=5 must be a function",
    # the conversation
    "hooks.session(None)": 'id=None must be a text that names the conversation, such as "thread-1"',
    "hooks.session(5)": "id=5 must be a text",
    "hooks.session('a', carri=print)": "session got an unexpected argument carri=<function print>: did you mean carry?",
    "hooks.close(5)": "id=5 must be a text",
    # the controller
    "CompactionController(model=5)": 'model=5 must be the name of a model, such as "gpt-5.2"',
    "CompactionController(window=8_000)": "CompactionController got an unexpected argument window=8000: did you mean context_",
    "CompactionController(context_window='8k')": "context_window=<str> must be a whole number of tokens",
    "CompactionController(context_window=math.inf)": "context_window=inf must be a whole number of tokens",
    "CompactionController(context_window=True)": "context_window=True must be a whole number of tokens",
    "CompactionController(context_window=1.5)": "context_window=1.5 must be a whole number of tokens",
    "CompactionController(context_window=0)": "context_window=0 must be a whole number of tokens from 1,024 on",
    "CompactionController(context_window=128)": "a whole number of tokens from 1,024 on, such as 128_000",
    "CompactionSettings(default_context_window=200)": "default_context_window=200 must be a whole number of tokens from 1,024 on",
    "hooks.transform_context_sync([], context_window=128)": "context_window=128 must be a whole number of tokens from 1,024 on",
    "CompactionController(context_window=8_000, settings=CompactionSettings(trigger_tokens=20_000))": "above context_window=8000",
    "CompactionController(summarizer='typo')": "summarizer=<str> must be a callable that answers a SummaryRequest",
    "CompactionController(summarizer=ExtractiveSummarizer)": "write summarizer=ExtractiveSummarizer(...)",
    "CompactionController(settings={'trigger_ratio': 0.8})": "settings['trigger_ratio']=0.8 must be CompactionSettings(...)",
    "CompactionController(settings=CompactionSettings)": "write settings=CompactionSettings(...)",
    "CompactionController(format='anthropic')": "format=<str> must be a MessageFormat",
    "CompactionController(format=AnthropicFormat)": "write format=AnthropicFormat(...)",
    "hooks.session('a', format=AnthropicFormat)": "write format=AnthropicFormat(...)",
    "CompactionController(store='records.db')": "SQLiteStore(path) of compaction_hooks.stores",
    "CompactionController(store=SQLiteStore)": "write store=SQLiteStore(...)",
    "CompactionController(on_event='log')": "on_event=<str> must be a callable that takes an event",
    "CompactionController(on_event=5)": "on_event=5 must be a callable",
    "CompactionController(on_event=[print, None])": "on_event=None must be a callable",
    "CompactionController(estimator='tiktoken')": "estimator=<str> must have estimate_tokens",
    "CompactionController(clock=5)": "clock=5 must be a function",
    # a setting, the name that another library has for it, or no name at all
    "CompactionController(trigger_ratio=0.8)": "did you mean settings=CompactionSettings(trigger_ratio=0.8)?",
    "CompactionController(trigger=RatioTrigger(0.8))": "did you mean settings=CompactionSettings(trigger=...)?",
    "CompactionController(summary_prompt='In French, please.')": "did you mean settings=CompactionSettings(summary_prompt=...)?",
    "CompactionController(keep_turn=3)": "did you mean settings=CompactionSettings(keep_turns=...)?",
    "CompactionController(threshold=0.8)": (
        "did you mean settings=CompactionSettings(trigger_ratio=...) or settings=CompactionSettings(trigger_tokens=...)?"
    ),
    "CompactionController(max_tokens=8_000)": "did you mean context_window or settings=CompactionSettings(trigger_tokens=",
    "CompactionController(tokenizer=len)": "tokenizer=<function len>: did you mean estimator?",
    "CompactionController(on_compaction=print)": "did you mean on_event?",
    "CompactionController('gpt-5')": "CompactionController takes no argument by position: write model='gpt-5'",
    "CompactionController(128_000)": "by position: write context_window=128000",
    "CompactionController(CompactionSettings())": "by position: write settings=...",
    "CompactionController(messages)": "takes no argument by position: it takes background, before_compact, carry,",
    "CompactionSettings(0.95)": "write trigger_ratio=0.95 or summary_timeout_seconds=0.95 or host_timeout_seconds=0.95",
    "CompactionSettings(threshold=0.8)": "did you mean trigger_ratio or trigger_tokens?",
    "CompactionSettings(context_window=8_000)": "did you mean CompactionController(context_window=8000)?",
    "hooks.session('a', None, print)": "session takes 2 arguments by position: write carry=... or before_compact=...",
    "hooks.transform_context_sync(messages, threshold=0.8)": "did you mean trigger_ratio or trigger_tokens?",
    "hooks.transform_context_sync(messages, reserve_tokens=9)": "did you mean CompactionSettings(reserve_tokens=9)?",
    "importlib.import_module('compaction_hooks').SQLiteStore": "from compaction_hooks.stores import SQLiteStore",
    # stores and formats
    "SQLiteStore(None)": "path=None must be the path of a file",
    "SQLiteStore('/a prompt' * 50)": "the record store <path of 450 characters> failed (unable to open database file): create",
    "SQLiteStore(file='records.db')": "SQLiteStore got an unexpected argument file=<str>: it takes path",
    "OpenAIChatFormat(summary_field={})": "did you mean summary_fields?",
    "can(OpenAIChatFormat(), 'a prompt')": 'methods=<str> must be names of methods of Format, such as "merge"',
    "next(read_sessions('a prompt ' * 50))": "<path of 450 characters>: cannot be read (File name too long)",
    # the settings
    "CompactionSettings(keep_turn=3)": "CompactionSettings got an unexpected argument keep_turn=3: did you mean keep_turns?",
    "CompactionSettings(notice=True)": "did you mean CompactionController(notice=True)?",
    "CompactionSettings(trigger_cap_tokens=0)": 'trigger_cap_tokens=0 must be "auto", a number of tokens above zero, or None',
    "CompactionSettings(trigger_cap_tokens=9, trigger_ratio=0.8)": "trigger_cap_tokens=9 and trigger_ratio= exclude one another",
    "CompactionSettings(reserve_tokens=0)": "reserve_tokens=0 must be a whole number of tokens above zero",
    "CompactionSettings(keep_recent_tokens=-5)": "keep_recent_tokens=-5 must be a whole number of tokens",
    "CompactionSettings(keep_recent_tokens=math.inf)": "keep_recent_tokens=inf must be a whole number of tokens",
    "CompactionSettings(keep_recent_tokens=0.5)": "keep_recent_tokens=0.5 must be a whole number of tokens",
    "CompactionSettings(breaker_failures=2.5)": "breaker_failures=2.5 must be a whole number of failures",
    "CompactionSettings(summary_timeout_seconds=None)": "summary_timeout_seconds=None must be a number of seconds",
    "CompactionSettings(summary_timeout_seconds=0.0)": "summary_timeout_seconds=0.0 must be a number of seconds",
    "CompactionSettings(summary_timeout_seconds=math.nan)": "summary_timeout_seconds=nan must be a number of seconds",
    "CompactionSettings(trigger_ratio='a')": "trigger_ratio=<str> must be a number between 0.1 and 1.0",
    "CompactionSettings(trigger_ratio=80)": "trigger_ratio=80 must be a number between 0.1 and 1.0",
    "CompactionSettings(auto_compact='no')": "auto_compact=<str> must be True or False",
    "CompactionSettings(max_result_tokens=0)": "max_result_tokens=0 must be a whole number of tokens",
    "CompactionSettings(sealed_reasoning='never')": 'sealed_reasoning=<str> must be "auto", "drop" or "keep"',
    "CompactionSettings(overflow_patterns='too big')": "overflow_patterns=<str> must be several texts",
    "CompactionSettings(tool_rules=['grep'])": "tool_rules=<list> must be a dict of rules by tool name",
    "CompactionSettings(tool_rules={'grep': None})": "tool_rules['grep']=None must be",
    "CompactionSettings(tool_rules={'grep': True})": "tool_rules['grep']=True must be",
    "CompactionSettings(tool_rules={'grep': 'often'})": 'tool_rules[\'grep\']=<str> must be "keep", "never", "first"',
    # one setting and another
    "CompactionSettings(keep_turns=0)": "keep_turns=0 must be a whole number of turns",
    "CompactionSettings(keep_recent_ratio=1.5)": "keep_recent_ratio=1.5 must be a part of the window",
    "CompactionSettings(keep_recent_tokens=5, keep_recent_ratio=0.5)": "keep_recent_tokens=5 and keep_recent_ratio=0.5 exclude",
    "CompactionSettings(keep_recent_tokens=9_000, trigger_tokens=8_000)": "keep_recent_tokens=9000 is above trigger_tokens=8000",
    "CompactionSettings(keep_recent_ratio=0.8, trigger_ratio=0.7)": "keep_recent_ratio=0.8 is above trigger_ratio=0.7",
    "CompactionSettings(trigger=ReserveTrigger() | TokensTrigger(8_000), keep_recent_tokens=9_000)": (
        "keep_recent_tokens=9000 is above TokensTrigger(tokens=8000):"
    ),
    "CompactionSettings(trigger=ReserveTrigger() | RatioTrigger(0.5), keep_recent_ratio=0.6)": (
        "keep_recent_ratio=0.6 is above RatioTrigger(ratio=0.5):"
    ),
    "CompactionController(context_window=200_000, settings=CompactionSettings(keep_recent_tokens=300_000))": (
        "keep_recent_tokens=300000 is above context_window=200000"
    ),
    "CompactionSettings(trigger=RatioTrigger(0.8), reserve_tokens=8_000)": "reserve_tokens=8000 and trigger= exclude one another:",
    "CompactionSettings(trigger=RatioTrigger(0.8), trigger_ratio=0.5)": "trigger_ratio=0.5 and trigger= exclude one another:",
    "CompactionSettings(trigger=RatioTrigger(0.8), trigger_tokens=9_000)": "trigger_tokens=9000 and trigger= exclude one another:",
    "CompactionSettings(trigger=ReserveTrigger)": "trigger=",
    "CompactionSettings(trigger='reserve')": "trigger=<str>",
    "CompactionController(context_window=100_000, settings=CompactionSettings(trigger=TokensTrigger(200_000)))": (
        "TokensTrigger(tokens=200000) is above context_window=100000"
    ),
    "CompactionController(model='unheard-of', settings=CompactionSettings(trigger=RatioTrigger(0.5)))": (
        "RatioTrigger(ratio=0.5) is a part of the context window"
    ),
    "CompactionController(model='unheard-of', settings=CompactionSettings(trigger_ratio=0.5))": "set context_window=... (tokens)",
    "ReserveTrigger(0)": "tokens=0 must be a whole number of tokens above zero",
    "RatioTrigger(1.5)": "ratio=1.5 must be a number between 0.1 and 1.0",
    "TokensTrigger(0.5)": "tokens=0.5 must be a whole number of tokens",
    "CompactionSettings(strategies=[])": "strategies=[] must be a list of strategies",
    "CompactionSettings(strategies=ClearToolResults())": " must be a list of strategies",
    "CompactionSettings(strategies='clear')": "strategies=<str> must be a list of strategies",
    "CompactionSettings(strategies=[Summarize(), ClearToolResults])": "strategies[1]=ClearToolResults is a class: write ",
    "CompactionSettings(strategies=[print])": " must be a strategy with propose(snapshot, goal)",
    "CompactionSettings(strategies=[DropOldest()], clear_tool_results=False)": "exclude one another: leave ClearToolResults",
    "CompactionSettings(tool_rules={'plan': 'never', 'grep': 3}, clear_tool_results=False)": "tool_rules['grep']=3 is for results",
    "CompactionSettings(tool_rules={'grep': 'first'}, clear_tool_results=False)": "tool_rules['grep']='first' is for results",
    "CompactionSettings(strategies=[Summarize()], identifier_tokens=9)": "exclude one another: give it to Summarize(",
    "CompactionSettings(strategies=[Summarize()], add_continuation=False)": "exclude one another: give it to Summarize(",
    "ClearToolResults(protect_tokens=-1)": "protect_tokens=-1 must be a whole number of tokens",
    "ClearToolResults(minimum_gain_tokens=0.5)": "minimum_gain_tokens=0.5 must be a whole number",
    "ShortenParts(least_chars=0)": "least_chars=0 must be a whole number of characters above zero",
    "Summarize(add_continuation=1)": "add_continuation=1 must be True or False",
    "DropOldest(add_continuation=None)": "add_continuation=None must be True or False",
    "CompactionSettings(merge_user_messages=1)": "merge_user_messages=1 must be True or False",
    "CompactionSettings(summary_prompt='  ')": "without {messages}: the con",
    "CompactionSettings(summary_prompt='Summarize: {messages}')": "without {messages}: the con",
    "CompactionSettings(summary_prompt=3)": "without {messages}: the con",
    "CompactionSettings(summary_instructions=' ')": " must be a text with further lines for the summarizer",
    "OpenAIChatFormat(summary_fields={'role': 'system'})": "must be a dict of further fields",
    "AnthropicFormat(summary_fields={'content': ''})": "must be a dict of further fields",
    "OpenAIResponsesFormat(summary_fields=['metadata'])": "must be a dict of further fields",
    # the settings of each model
    "CompactionController(settings={'gpt-5*': 0.8})": "settings['gpt-5*']=0.8 must be CompactionSettings",
    "CompactionController(settings={5: CompactionSettings()})": "settings=5 must have names of models as keys",
    "CompactionController(settings={'*': CompactionSettings(), 'gpt-5*': CompactionSettings()})": (
        "settings['gpt-5*'] never counts: '*' in front of it"
    ),
    "CompactionController(model='gpt-5', context_window=9_000, settings={'gpt*': CompactionSettings(trigger_tokens=10_000)})": (
        "settings['gpt*']: trigger_tokens=10000 is above context_window=9000"
    ),
    "CompactionController(model='unheard-of', settings={'*': CompactionSettings(trigger_ratio=0.5)})": (
        "settings['*']: trigger_ratio=0.5 is a part of the context window"
    ),
}
LANGGRAPH = {
    "CompactionNode(model='gpt-5')": "model='gpt-5' must be the chat model itself: init_chat_model('gpt-5')",
    "CompactionNode(model=5)": "model=5 must be the chat model itself",
    "CompactionNode('gpt-5')": "the first argument must be a CompactionController, not str",
    "CompactionNode(window=8_000)": "CompactionNode got an unexpected argument window=8000: did you mean context_window?",
    "CompactionNode(message_key='chat')": "did you mean messages_key?",
    "CompactionNode(store=InMemoryStore())": "wrap it in BaseStoreRecordStore(...) of compaction_adapters.langgraph",
    "CompactionNode().wrap('gpt-5')": "wrap('gpt-5') must be the chat model itself: init_chat_model('gpt-5')",
    "CompactionNode(summarizer='typo')": "summarizer=<str> must be a callable",
    "CompactionNode(tools=('grep',))": "tools must be those of the model, not <str>",
    "CompactionNode().load_sync('thread-1', messages)": "config must be the dict that names the thread, not list: write load",
    "CompactionNode().compact_sync(messages, 'thread-1')": "not str: write load(graph, config), with",
    "CompactionNode().undo_sync(messages, 'thread-1')": "not str: write load(graph, config)",
    "CompactionNode().forget_sync('thread-1', messages)": "not list: write load(graph, config)",
}
LANGCHAIN = {
    "hooks.transform_context_sync([HumanMessage('hi')])": "a HumanMessage is read by compaction_adapters.langchain",
    "CompactionMiddleware(window=8_000)": "did you mean context_window?",
    "CompactionMiddleware(trigger=0.8)": "trigger=0.8",
    "CompactionMiddleware('openai:gpt-5')": "be a CompactionController, not str; a model's name goes into model=...",
    "CompactionMiddleware(model=print)": "model= must be a chat model that writes the summaries, or the name of one (a summarizer",
    "CompactionMiddleware(model='unheard-of')": "The window needs no name: it is that of the model that the agent",
    "CompactionMiddleware(model='a prompt ' * 50)": "(a summarizer needs a chat model or its name, not <str>)",
    "summarizer('a prompt ' * 50)": "a summarizer needs a chat model or its name, not <str>",
    "CompactionMiddleware().load_sync('thread-1', messages)": "config must be the dict that names the thread, not list: write load",
    "CompactionMiddleware().compact_sync(messages, 'thread-1')": "not str: write load(graph, config), with",
    "CompactionMiddleware().undo_sync(messages, 'thread-1')": "not str: write load(graph, config)",
    "CompactionMiddleware().forget_sync('thread-1', messages)": "not list: write load(graph, config)",
}
PYDANTIC_AI = {
    "hooks.transform_context_sync([ModelRequest.user_text_prompt('hi')])": "is read by compaction_adapters.pydantic_ai",
    "Compaction(window=8_000)": "Compaction got an unexpected argument window=8000: did you mean context_window?",
    "Compaction(on_event='log')": "on_event=<str> must be a callable that takes an event",
    "Compaction(summarizer='nope:gpt')": "'nope:gpt' names no provider that pydantic-ai knows: write it as \"openai:gpt-5.4-mini\"",
    "Compaction(8_000)": "the first argument must be a CompactionController, not int",
    "Compaction(model=print)": "model= must be the name of the model whose context window applies, not builtin_function",
    "Compaction().compact_sync([], focus='x')": 'name the conversation, compact(messages, "thread-1")',
    "Compaction().compact_sync('thread-1', messages)": "list is neither an id nor a run's context: write compact(messages, ",
    "Compaction().compact_sync([], 7)": "int is neither an id nor a run's context: write compact(messages, ",
    "Compaction().compact_sync(messages)": "messages must be ModelRequest or ModelResponse, not dict",
    "Compaction().compact_sync(messages, 'thread-1')": "messages must be ModelRequest or ModelResponse, not dict",
    "Compaction().compact_sync('hi', 'thread-1')": "messages must be the list of the conversation's messages, not str",
    "Compaction().load_sync('thread-1', messages)": "messages must be ModelRequest or ModelResponse, not dict",
    "Compaction().load_sync('thread-1', 'hi')": "messages must be the list of the conversation's messages, not str",
    "Compaction(context_window='8k')": "context_window=<str> must be a whole number of tokens",
    "history_processor(window=8_000)": "history_processor got an unexpected argument window=8000: did you mean context_window?",
}
LITELLM = {
    "with_compaction(litellm.completion, window=8_000)": "with_compaction got an unexpected argument window=8000",
    "with_compaction(litellm.completion, sesion_id='a')": "did you mean session_id?",
    "with_compaction(litellm.completion, model=print)": "a model that writes the summaries goes into summarizer=",
    "CompactionCallback(window=8_000)": "did you mean context_window?",
}
TINYAGENT = {
    "compaction_hook(window=8_000)": "compaction_hook got an unexpected argument window=8000: did you mean context_window?",
    "compaction_hook(8_000)": "the first argument must be a CompactionController, not int",
    "compaction_hook(model=print)": "a model that writes the summaries goes into summarizer=",
}
OPENAI_AGENTS = {
    "CompactionModelProvider(window=8_000)": "did you mean context_window?",
    "CompactionModelProvider('gpt-5')": "the first argument must be a CompactionController, not str",
    "CompactionModelProvider(model=print)": "a model that writes the summaries goes into summarizer=",
    "CompactionModelProvider().undo_sync()": "name the conversation by the id that its calls have",
}
GOOGLE_ADK = {
    "CompactionPlugin(window=8_000)": "did you mean context_window?",
    "CompactionPlugin(trigger_ratio=0.8)": "did you mean settings=CompactionSettings(trigger_ratio=0.8)?",
    "CompactionPlugin(max_tokens=8_000)": "did you mean context_window or settings=CompactionSettings(trigger_tokens=...) or",
    "CompactionPlugin('compaction')": "the first argument must be a CompactionController, not str",
    "CompactionPlugin(model=print)": "a model that writes the summaries goes into summarizer=",
    "summarizer([])": "summarizer([]): give one of ADK's models, or a name that it knows",
    "summarizer('a prompt ' * 50)": "summarizer(<str>): give one of ADK's models",
    "summarizer('no-such-model')": "give one of ADK's models, or a name that it knows",
}
STRANDS = {
    "CompactionConversationManager(window=8_000)": "did you mean context_window?",
    "CompactionConversationManager(40)": "the first argument must be a CompactionController, not int",
    "CompactionConversationManager(model=print)": "a model that writes the summaries goes into summarizer=",
}
AGENT_FRAMEWORK = {
    "hooks.transform_context_sync(normalize_messages('hi'))": "is read by compaction_adapters.agent_framework",
    "CompactionMiddleware(window=8_000)": "did you mean context_window?",
    "CompactionMiddleware('gpt-5')": "the first argument must be a CompactionController, not str",
    "CompactionMiddleware(model=print)": "a model that writes the summaries goes into summarizer=",
}
MISTAKES = {
    "compaction_hooks": CORE,
    "langgraph": LANGGRAPH,
    "langchain": LANGCHAIN,
    "pydantic_ai": PYDANTIC_AI,
    "litellm": LITELLM,
    "tinyagent": TINYAGENT,
    "openai_agents": OPENAI_AGENTS,
    "google_adk": GOOGLE_ADK,
    "strands": STRANDS,
    "agent_framework": AGENT_FRAMEWORK,
}
"""By the package that must be installed: as the user writes it, and a part of the answer."""
OF_FRAMEWORKS = {
    "langgraph": ("langgraph.store.memory", "InMemoryStore"),
    "langchain": ("langchain_core.messages", "HumanMessage"),
    "pydantic_ai": ("pydantic_ai.messages", "ModelRequest"),
    "agent_framework": ("agent_framework", "normalize_messages"),
}
"""What else these are written with."""

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or litellm would download it


async def send_async(view: list[object]) -> str:
    return f"an answer to {len(view)} messages"


def names(package: str) -> dict[str, Any]:
    """Return the names used in these mistakes; raise ImportError if the package is not installed."""
    rooms = ("formats", "messages", "replay", "stores", "strategies", "triggers", "validity")
    modules = ["compaction_hooks", *(f"compaction_hooks.{room}" for room in rooms)]
    found: dict[str, Any] = {"send_async": send_async}
    found |= {module.__name__: module for module in (asyncio, functools, importlib, math)}
    if package != "compaction_hooks":
        modules.append(f"compaction_adapters.{package}")
    if package == "litellm":
        found[package] = importlib.import_module(package)
    if package in OF_FRAMEWORKS:
        module, name = OF_FRAMEWORKS[package]
        found[name] = getattr(importlib.import_module(module), name)
    for room in map(importlib.import_module, modules):
        found |= {name: getattr(room, name) for name in room.__all__}
    messages = [{"role": "user", "content": "hi"}]
    return {**found, "hooks": found["CompactionController"](context_window=8_000), "messages": messages}


def answer_to(code: str, package: str) -> Exception | None:
    """Make one mistake and return the error that answers it, or None."""
    try:
        eval(code, names(package))
    except Exception as error:  # noqa: BLE001 - the test judges any error
        return error
    return None


@folded("code", [*CORE])
def test_a_mistake_is_answered_with_the_field_the_value_and_the_fix(code: str) -> None:
    error = answer_to(code, "compaction_hooks")
    assert isinstance(error, CompactionError | ValueError | TypeError | ImportError)
    assert CORE[code] in str(error)
    assert len(str(error)) < 400


@pytest.mark.parametrize("package", [package for package in MISTAKES if package != "compaction_hooks"])
def test_a_mistake_with_an_adapter_is_answered_where_its_framework_is_installed(package: str) -> None:
    try:
        names(package)
    except ImportError as missing:
        pytest.skip(str(missing))
    answers = {code: str(answer_to(code, package)) for code in MISTAKES[package]}
    assert not {code: answer for code, answer in answers.items() if MISTAKES[package][code] not in answer}


def test_a_mistake_in_a_later_call_is_refused_as_in_the_first() -> None:
    """The quick path answers most calls; a mistake must not slip through there."""
    hooks = CompactionController(context_window=8_000)
    messages: list[Mapping[str, object]] = [{"role": "user", "content": "hi"}]
    hooks.transform_context_sync(messages)
    with pytest.raises(TypeError, match="windoww=3: did you mean context_window"):
        hooks.transform_context_sync(messages, windoww=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="not generator"):
        hooks.transform_context_sync(message for message in messages)  # type: ignore[arg-type]
