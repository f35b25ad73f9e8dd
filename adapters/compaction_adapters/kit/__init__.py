"""The part of an adapter that does not depend on its framework.

    controller_from         return the controller that a user gave, or make one from their keywords
    settings_from           read settings from JSON
    Sessions                the sessions of a controller in one framework's format, the last call of each, and whether
                            another form of the request may cure an error
    ModelCalls              the conversations of an adapter that sends the model calls itself: their sessions, streams and recall
    opening_key             name a conversation by its beginning
    join_id                 name a conversation by several parts, told apart from all others
    ControllerMethods       the controller, and `forget_prefix`
    ByHand                  these, compact, undo, pin, forget and load for adapters whose conversations have an id, async and sync
    PartsFormat             the writing half of a message format: a subclass reads, and changes one part
    RECALL, COMPACT         the tools for the model, `model_tools` the ones that an adapter's keywords turn on (`ModelTool`)
    tool_schema, positive   a tool and a limit, as the options of a call take them
    asker, summary_of       ask a model for a summary, sync or async as the caller is, and read the answer
    with_reasoning_room     ask an async model for a summary, with room for its reasoning
    ask_client              the same by a provider's client, sync or async as the client is; `REASONING_TOKENS` of its answer
    ask_in_place            ask the conversation's own model by the list of the call, which it has in its cache;
                            `repeat_options` of the call
    NativeSummaries         a summarizer by a provider's own compaction; `address_of` a client; for Anthropic the models, the
                            header (`ANTHROPIC_BETA`), the limit (`NATIVE_TOKENS`), the option, and the reading of its answer;
                            for OpenAI the arguments and the reading
    Flow, Twin              one flow of calls, for sync callers (`run`) and async ones (`run_async`); of one flow a class has two
                            methods (`TwinMethods`, `awaited`, `blocking`)
    run_in_loop             run a coroutine in the event loop of a sync caller's thread
    status_of, fields_of    an event in the few words of a status line, or with all its figures
    require                 name the extra to install when a framework is missing

It needs no framework, and uses only the public names of compaction_hooks.
"""

from compaction_adapters.kit.by_hand import ByHand, ControllerMethods
from compaction_adapters.kit.calls import ModelCalls
from compaction_adapters.kit.controllers import (
    CommonKeywords,
    ControllerKeywords,
    PolicyKeywords,
    Settings,
    controller_from,
    settings_from,
    with_changes,
)
from compaction_adapters.kit.events import Stage, Status, fields_of, status_of
from compaction_adapters.kit.extras import require
from compaction_adapters.kit.ids import join_id
from compaction_adapters.kit.native import (
    ANTHROPIC_BETA,
    NATIVE_TOKENS,
    NativeSummaries,
    address_of,
    compact_arguments,
    compaction_option,
    compaction_usage,
    compacts,
    read_block,
    read_items,
)
from compaction_adapters.kit.openings import opening_key
from compaction_adapters.kit.options import positive, tool_schema
from compaction_adapters.kit.parts import PartsFormat, Pieces
from compaction_adapters.kit.sessions import Sessions
from compaction_adapters.kit.summaries import (
    REASONING_TOKENS,
    ask_client,
    ask_in_place,
    asker,
    repeat_options,
    summary_of,
    with_reasoning_room,
)
from compaction_adapters.kit.tools import COMPACT, RECALL, ModelTool, model_tools
from compaction_adapters.kit.twins import Flow, Twin, TwinMethods, awaited, blocking, run, run_async, run_in_loop

__all__ = [
    "ANTHROPIC_BETA",
    "COMPACT",
    "NATIVE_TOKENS",
    "REASONING_TOKENS",
    "RECALL",
    "ByHand",
    "CommonKeywords",
    "ControllerKeywords",
    "ControllerMethods",
    "Flow",
    "ModelCalls",
    "ModelTool",
    "NativeSummaries",
    "PartsFormat",
    "Pieces",
    "PolicyKeywords",
    "Sessions",
    "Settings",
    "Stage",
    "Status",
    "Twin",
    "TwinMethods",
    "address_of",
    "ask_client",
    "ask_in_place",
    "asker",
    "awaited",
    "blocking",
    "compact_arguments",
    "compaction_option",
    "compaction_usage",
    "compacts",
    "controller_from",
    "fields_of",
    "join_id",
    "model_tools",
    "opening_key",
    "positive",
    "read_block",
    "read_items",
    "repeat_options",
    "require",
    "run",
    "run_async",
    "run_in_loop",
    "settings_from",
    "status_of",
    "summary_of",
    "tool_schema",
    "with_changes",
    "with_reasoning_room",
]
