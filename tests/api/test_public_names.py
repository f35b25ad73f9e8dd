"""Names that programs import. A name that goes, or moves, breaks them: it is a change for the changelog.

Each method, argument, setting, option and event has a file of tests that names it.
"""

import ast
import importlib
import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from compaction_hooks import CallOptions, CompactionController, CompactionEvent, CompactionSession, CompactionSettings
from compaction_hooks.triggers import RatioTrigger
from tests.cases import folded

NAMES = {
    "compaction_hooks": """
        CallOptions CompactionController CompactionError CompactionEvent CompactionFailed CompactionFinished CompactionOutcome
        CompactionReason CompactionRecord CompactionResult CompactionSession CompactionSettings CompactionSkipped
        CompactionStarted ConfigurationError ContextOverflowError EventHandler ExtractiveSummarizer Format Message MessageFormat
        OverflowInfo RecordStore SessionState StoreFailed Summarizer Summary SummaryRequest TokenEstimator Usage
        is_context_overflow parse_overflow project
    """,
    "compaction_hooks.errors": """
        CompactionError ConfigurationError ContextOverflowError FormatError MissingExtraError RecordError SummaryRefusedError
    """,
    "compaction_hooks.events": "CompactionFailed CompactionFinished CompactionSkipped CompactionStarted StoreFailed",
    "compaction_hooks.formats": """
        AnthropicFormat OpenAIChatFormat OpenAIResponsesFormat media_from_base64 media_from_url
    """,
    "compaction_hooks.messages": """
        Media Message Format MessageFormat Opaque PlainMessage Text Thinking ToolCall ToolResult Usage
    """,
    "compaction_hooks.native": "Issuer NativeItems NativeSummarizer is_native_refusal",
    "compaction_hooks.recall": "Covered CoveredKind CoveredPart Found RecallTool diff find_facts",
    "compaction_hooks.repair": "INTERRUPTED NO_REQUEST NO_WORDS repaired",
    "compaction_hooks.stores": "KeyValue KeyValueStore ListingStore MemoryStore RecordStore SQLiteStore",
    "compaction_hooks.strategies": "ClearToolResults DropOldest ShortenParts Strategy Summarize",
    "compaction_hooks.testing": """
        ADAPTER_FACTS AdapterFact AdapterHarness Answer BrokenPromise Call HostConversation Opening
        ProviderSide Script ScriptedProvider ScriptedTool SeenRequest Turn as_anthropic as_openai_chat check_adapter
        check_format check_session check_store check_strategy check_trigger check_view generated_history hostile_history
        long_script realistic_history tools_of
    """,
    "compaction_hooks.tiktoken_estimator": "TiktokenEstimator",
    "compaction_hooks.tokens": """
        CharacterEstimator TokenEstimator context_tokens estimate_messages_tokens message_tokens usage_from_anthropic
        usage_from_openai
    """,
    "compaction_hooks.triggers": "RatioTrigger ReserveTrigger TokensTrigger Trigger",
    "compaction_hooks.validity": """
        RULES Problem Provider Rule RuleId foreign_rule is_alike is_blank is_server_call is_server_result problems
        provider_named rules_of takes_call_id worsened
    """,
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_where_programs_import_them(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


@folded("module", [*NAMES])
def test_type_hints_of_public_classes_and_their_methods_can_be_read(module: str) -> None:
    """Libraries that build forms, command lines and schemas from dataclasses read them."""
    unreadable: list[str] = []
    for name in NAMES[module].split():
        value = getattr(importlib.import_module(module), name)
        public = [each for each in dir(value) if each[0] != "_"] if isinstance(value, type) else []
        members = [value, *(inspect.getattr_static(value, each) for each in ["__init__", *public])]
        for hinted in members:
            try:
                get_type_hints(getattr(hinted, "fget", hinted))
            except NameError as error:
                unreadable.append(f"{name}: {error}")
            except TypeError:  # neither a class nor a function
                continue
    assert unreadable == []


def test_settings_may_be_a_field_of_a_pydantic_model() -> None:
    pydantic = pytest.importorskip("pydantic")
    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    model: Any = pydantic.create_model("App", settings=(CompactionSettings, ...), __config__=config)
    given = CompactionSettings(trigger=RatioTrigger(0.5))
    assert model(settings=given).settings is given
    assert model(settings={"trigger": RatioTrigger(0.5)}).settings == given


FOR_THE_PACKAGE = {"engine", "quiet_engine", "begin_anew"}
"""Attributes that the package itself uses."""
FOLDERS = ("api", "faults", "overflow", "view")


def test_each_public_name_has_a_file_of_tests() -> None:
    methods = {name for made in (CompactionController, CompactionSession) for name in dir(made) if name[0] != "_"}
    names = {name.removesuffix("_sync") for name in methods - FOR_THE_PACKAGE} | {"project", "parse_overflow"}
    names |= (
        {field.name for field in fields(CompactionSettings)}
        | set(CallOptions.__annotations__)
        | {event.__name__ for event in get_args(CompactionEvent)}
    )
    names |= set(inspect.signature(CompactionController).parameters)
    tests = [path for folder in FOLDERS for path in (Path(__file__).parents[1] / folder).glob("test_*.py")]
    told = "\n".join(f"{path.stem} {ast.get_docstring(ast.parse(path.read_text('utf-8')))}" for path in tests)
    assert {name for name in names if not re.search(rf"(?<![A-Za-z]){name}(?![A-Za-z])", told)} == set()
