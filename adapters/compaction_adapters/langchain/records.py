"""The state channels in which an agent's checkpoints keep the records of its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NotRequired

from langchain.agents.middleware.types import AgentState, PrivateStateAttr, ResponseT

from compaction_adapters.langchain_core.channels import RecordsChannel

CHANNEL: Final = "_compaction_records"


class CompactionState(AgentState[ResponseT]):
    """The part of an agent's state that the middleware adds, in no input, output or `values` event.

    It holds the records as plain JSON.
    """

    _compaction_records: NotRequired[Annotated[list[Mapping[str, object]], PrivateStateAttr, RecordsChannel]]
