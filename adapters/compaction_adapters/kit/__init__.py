"""The part of an adapter that does not depend on its framework.

    controller_from         the controller that a user gave, or the one that their keywords make
    settings_from           settings that are written down as JSON
    Sessions                the sessions of a controller in one framework's format, the last call of each, and whether an
                            error is worth another form of the request
    PartsFormat             the writing half of a message format: a subclass reads, and changes one part
    tool_schema, positive   a tool and a limit, as the options of a call take them
    asker, summary_of       asks a model for a summary in the way the caller waits, and reads the answer
    Flow, Twin              one flow of calls, for callers that wait (`run`) and callers that await (`run_async`)
    status_of, fields_of    an event in the few words of a status line, or with all its figures
    require                 says what to install when a framework is missing

Needs no framework, and uses nothing but what every user of compaction_hooks can import.
"""

from compaction_adapters.kit.controllers import (
    ControllerKeywords,
    PolicyKeywords,
    Settings,
    controller_from,
    settings_from,
    with_changes,
)
from compaction_adapters.kit.events import Stage, Status, fields_of, status_of
from compaction_adapters.kit.extras import require
from compaction_adapters.kit.options import positive, tool_schema
from compaction_adapters.kit.parts import PartsFormat, Pieces
from compaction_adapters.kit.sessions import Sessions
from compaction_adapters.kit.summaries import asker, summary_of
from compaction_adapters.kit.twins import Flow, Twin, run, run_async

__all__ = [
    "ControllerKeywords",
    "Flow",
    "PartsFormat",
    "Pieces",
    "PolicyKeywords",
    "Sessions",
    "Settings",
    "Stage",
    "Status",
    "Twin",
    "asker",
    "controller_from",
    "fields_of",
    "positive",
    "require",
    "run",
    "run_async",
    "settings_from",
    "status_of",
    "summary_of",
    "tool_schema",
    "with_changes",
]
