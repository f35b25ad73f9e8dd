"""Where an agent's checkpoints keep the records of its conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NotRequired, cast

from langchain.agents.middleware.types import AgentState, PrivateStateAttr, ResponseT
from langchain_core.runnables import RunnableConfig

from compaction_adapters.langchain_core.channels import RecordsChannel, held_in

CHANNEL: Final = "_compaction_records"


class CompactionState(AgentState[ResponseT]):
    """The part of an agent's state that the middleware adds: the records, as plain JSON, in no input, output or `values` event."""

    _compaction_records: NotRequired[Annotated[list[Mapping[str, object]], PrivateStateAttr, RecordsChannel]]


def stored_records(config: RunnableConfig) -> Sequence[Mapping[str, object]]:
    """Return the records of the thread whose agent runs with this configuration."""
    return cast("Sequence[Mapping[str, object]]", held_in(config, CHANNEL) or ())
