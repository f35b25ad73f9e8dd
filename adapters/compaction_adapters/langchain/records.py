"""Where an agent's checkpoints keep the records of its conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NotRequired, cast

from langchain.agents.middleware.types import AgentState, PrivateStateAttr, ResponseT

from compaction_adapters.langchain_core import union_records

CHANNEL: Final = "_compaction_records"


class CompactionState(AgentState[ResponseT]):
    """What the middleware adds to an agent's state: the records, as plain JSON. Hidden from input and output."""

    # The reducer stands last, because LangGraph looks for it there.
    _compaction_records: NotRequired[Annotated[list[Mapping[str, object]], PrivateStateAttr, union_records]]


def stored_records(state: Mapping[str, Any]) -> Sequence[Mapping[str, object]]:
    """Return the records in an agent's state."""
    return cast("Sequence[Mapping[str, object]]", state.get(CHANNEL) or ())
