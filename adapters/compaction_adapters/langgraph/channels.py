"""The channels a graph needs: the records, and a view for nodes that read it from the state.

LangGraph takes channels from the schemas of a graph and of its nodes, and drops a node's values for any other key. The node
therefore has a schema of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, cast

from langchain_core.messages import AnyMessage
from langgraph.channels import UntrackedValue  # pyright: ignore[reportMissingTypeStubs]
from typing_extensions import TypedDict  # the one of LangGraph's own states: a class cannot inherit from both kinds

from compaction_adapters.langchain_core import Task
from compaction_adapters.langchain_core.channels import RecordsChannel
from compaction_hooks.errors import ConfigurationError

RECORDS_KEY: Final = "compaction_records"
VIEW_KEY: Final = "llm_input_messages"
"""The key that `create_react_agent` reads before `messages`."""


class UntrackedView(UntrackedValue[Any]):
    """A view that a model node reads from the state: never checkpointed, there until the end of the run."""

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        """Store the view. Several views, from tasks started by `Send`, belong to several conversations: store none."""
        if len(values) < 2:
            return super().update(values)
        self.value = UntrackedView(self.typ).value
        return True


class CompactionState(TypedDict, total=False):
    """The part of a state with the view, for the model node: `class State(MessagesState, CompactionState): ...`.

    The view exists from the compaction node until the run ends, and not if a run is resumed at the model node.
    """

    llm_input_messages: Annotated[list[AnyMessage], UntrackedView]


def node_schema(messages_key: str) -> type[Any]:
    """Return the schema of the state that a node reads and so declares: messages and records."""
    fields = {
        messages_key: list[AnyMessage],
        RECORDS_KEY: Annotated[list[Mapping[str, object]], RecordsChannel],
    }
    make: Callable[..., type[Any]] = cast("Callable[..., type[Any]]", TypedDict)  # a type checker cannot know its keys
    return make("CompactionNodeState", fields, total=False)


def has_reducer(task: Task, key: str) -> bool | None:
    """Return whether a channel has a reducer, which combines each new value with the old one; None outside a graph."""
    channel = task.channels.get(key)
    # BinaryOperatorAggregate has an operator, DeltaChannel a reducer.
    return None if channel is None else hasattr(channel, "operator") or hasattr(channel, "reducer")


def takes_view(task: Task, key: str | None, *, is_found: bool) -> bool:
    """Return whether a view must be written to the state for the model node to read it.

    Args:
        key: The state's key for the view; None for no key.
        is_found: Whether the model finds the view itself. Then only a channel made for views takes one, since another is
            checkpointed, and would give a resumed run the view of an earlier state.

    Raises:
        ConfigurationError: the graph would drop the records; the view would reach no model; or its channel has a reducer.
    """
    if not task.declares(RECORDS_KEY):
        raise ConfigurationError(
            f"the graph has no channel {RECORDS_KEY!r}, so that LangGraph would drop what CompactionNode "
            'returns: add the node itself, graph.add_node("compact", node), or name its schema where something is around it, '
            'graph.add_node("compact", around_node, input_schema=node.schema)'
        )

    if key is None:
        return False

    declaration = f"{key}: Annotated[list[AnyMessage], UntrackedView]"
    if key == VIEW_KEY:
        declaration = "class State(MessagesState, CompactionState): ..."
    if not task.declares(key):
        if is_found:
            return False
        raise ConfigurationError(
            f"the graph has no channel {key!r}, so that LangGraph would drop the list for the model. Call the model that "
            'compact.wrap(model) returns, with state["messages"]: it finds the list itself. Or read the list from the state, '
            f"and declare it there: {declaration}. Or, if the model node itself calls compact.wrap(model) or "
            "compact.view(state): CompactionNode(output_key=None)"
        )

    if has_reducer(task, key):
        raise ConfigurationError(
            f"{key!r} has a reducer, which would add each list for the model to the one before: declare it without, {declaration}"
        )

    return not is_found or not task.channels or isinstance(task.channels[key], UntrackedView)
