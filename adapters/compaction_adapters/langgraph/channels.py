"""The channels a graph needs: the view for the model node, the records, and a name for a run without a thread.

LangGraph takes channels from the schemas of a graph and of its nodes, and drops what a node returns for any other key. The
node therefore brings a schema of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, cast

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import LastValue, UntrackedValue  # pyright: ignore[reportMissingTypeStubs]
from langgraph.channels.base import BaseChannel  # pyright: ignore[reportMissingTypeStubs]
from typing_extensions import TypedDict  # the one of LangGraph's own states: a class cannot inherit from both kinds

from compaction_adapters.langchain_core import union_records
from compaction_hooks.errors import ConfigurationError

RECORDS_KEY: Final = "compaction_records"
RUN_KEY: Final = "compaction_run"
VIEW_KEY: Final = "llm_input_messages"
"""What `create_react_agent` reads before `messages`."""

_READ: Final = "__pregel_read"
_SEND: Final = "__pregel_send"
"""`langgraph._internal._constants`: under these, a task finds what reads and what writes the channels of its graph."""


class UntrackedView(UntrackedValue[Any]):
    """A value that is never checkpointed: the list for the model lasts until the end of the run.

    It may be declared again as an ordinary key, by a node's schema that names only the type.
    """

    __slots__ = ()


# `StateGraph` accepts two declarations of a key when the later one is a `LastValue`. In `create_react_agent` without a
# `state_schema` of the user's own, the agent node has declared the key before this channel comes.
LastValue.register(UntrackedView)


class _Shared(UntrackedValue[Any]):
    """As above; of several values in one step, any."""

    __slots__ = ()

    def __init__(self, typ: Any, guard: bool = False) -> None:
        super().__init__(typ, guard)


class CompactionState(TypedDict, total=False):
    """What the model node reads: `class State(MessagesState, CompactionState): ...`.

    The value is there from the compaction node on until the run ends. It is not there when a run is resumed at the model node
    itself, after an interrupt or a failure: use `CompactionNode.view(state)` where that may be.
    """

    llm_input_messages: Annotated[list[AnyMessage], UntrackedView]


def node_schema(messages_key: str, output_key: str) -> type[Any]:
    """Return what a node reads and so declares: messages, records, the run's name, and the view it writes."""
    fields = {
        messages_key: list[AnyMessage],
        output_key: Annotated[list[AnyMessage], UntrackedView],
        RECORDS_KEY: Annotated[list[Mapping[str, object]], union_records],
        RUN_KEY: Annotated[str, _Shared],
    }
    made: Callable[..., type[Any]] = cast("Callable[..., type[Any]]", TypedDict)  # its keys are not known to a checker
    return made("CompactionNodeState", fields, total=False)


class Channels:
    """The channels of the graph a task runs in, as far as they can be seen from within; none outside a graph.

    Args:
        config: The configuration of the task.
    """

    def __init__(self, config: RunnableConfig) -> None:
        configurable = cast("Mapping[str, Any]", config.get("configurable") or {})
        self._read: Callable[[Sequence[str], bool], Mapping[str, object]] | None = configurable.get(_READ)
        self._send: Callable[[Sequence[tuple[str, object]]], object] | None = configurable.get(_SEND)

    def get(self, key: str) -> object:
        """Return a channel's value at the beginning of the step; None when it has none or there is none."""
        if self._read is None:
            return None
        try:
            return self._read([key], False).get(key)
        except KeyError:
            return None

    def declares(self, key: str) -> bool:
        """Whether the graph has this channel; true where that cannot be told."""
        if self._read is None:
            return True
        try:
            self._read([key], False)
        except KeyError:
            return False
        return True

    def adds_up(self, key: str) -> bool | None:
        """Whether a channel has a reducer, so that what is written is added to what it holds; None where that cannot be told."""
        for held in getattr(self._read, "args", ()):
            channel = cast("Mapping[str, object]", held).get(key) if isinstance(held, Mapping) else None
            if isinstance(channel, BaseChannel):
                return _has_reducer(cast(object, channel))
        return None

    def demand(self, view_key: str) -> None:
        """Refuse a graph that would drop what a node returns, or add one view to another.

        Raises:
            ConfigurationError: it lacks a channel, or that of the view has a reducer.
        """
        missing = [key for key in (view_key, RECORDS_KEY, RUN_KEY) if not self.declares(key)]
        if missing:
            raise ConfigurationError(
                f"the graph has no channel {' and '.join(map(repr, missing))}, so that LangGraph would drop what CompactionNode "
                'returns: add the node itself, graph.add_node("compact", node), or name its schema where something is around it, '
                'graph.add_node("compact", around_node, input_schema=node.schema)'
            )
        if self.adds_up(view_key):
            raise ConfigurationError(
                f"{view_key!r} has a reducer, which would add each list for the model to the one before: declare it without, "
                f"{view_key}: list[AnyMessage], or by inheriting from CompactionState"
            )

    def write(self, values: Mapping[str, object]) -> None:
        """Write these channels, beside what the task's node returns; those the graph lacks are left out."""
        if self._read is not None and self._send is not None:
            self._send([(key, value) for key, value in values.items() if self.declares(key)])


def _has_reducer(channel: object) -> bool:
    return hasattr(channel, "operator") or hasattr(channel, "reducer")  # of BinaryOperatorAggregate, of DeltaChannel


Values: TypeAlias = dict[str, Any]
"""What a node returns: by key, what is to be written."""
