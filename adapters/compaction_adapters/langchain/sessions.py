"""Which session a model call belongs to."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config

from compaction_adapters.langchain.records import stored_records
from compaction_adapters.langchain_core import CarriedSessions, conversation_id, thread_id
from compaction_hooks import CompactionController, CompactionSession

MAX_RUNS: Final = 64
"""Runs that are remembered, since nothing tells when one has ended. A longer one goes on from its state."""


@dataclass(slots=True)
class _Run:
    """One run of a graph, with those in it.

    Attributes:
        control: What LangGraph knows the run by; held so that its address names this run only.
        session_ids: Sessions that no later run will ask for.
    """

    control: object
    name: str = field(default_factory=lambda: f"run-{uuid.uuid4()}")
    session_ids: set[str] = field(default_factory=set[str])


class AgentSessions(CarriedSessions):
    """Opens the session of the conversation a model call belongs to, with the records it can be given.

    A thread's own session is named by the thread, that of a subgraph by thread and checkpoint namespace, that of a run without a
    thread by the run. The last two are over before their messages are: so each is also given, when it begins, the records made
    here that are true of its messages.
    """

    def __init__(self, controller: CompactionController[Any]) -> None:
        super().__init__(controller)
        self._runs_lock = threading.Lock()
        self._runs: OrderedDict[int, _Run] = OrderedDict()

    def of(self, request: ModelRequest[Any]) -> CompactionSession[BaseMessage]:
        """Return the session of the call that is asked for, with the records of the state it is asked in."""
        config = current_config()
        return self.open(self._name(request.runtime), request.messages, stored_records(config), config)

    def _name(self, runtime: object) -> str:
        config = current_config()
        with self._runs_lock:
            run = self._run(getattr(runtime, "control", None))
            name = conversation_id(config, run.name) or run.name
            if name != thread_id(config):
                run.session_ids.add(name)
        return name

    def _run(self, control: object) -> _Run:
        """Return the run this control belongs to; where LangGraph gives none, a run of this call only."""
        if control is None:
            return _Run(None)
        run = self._runs.pop(id(control), None) or _Run(control)
        self._runs[id(control)] = run
        if len(self._runs) > MAX_RUNS:
            _, ended = self._runs.popitem(last=False)
            for session_id in ended.session_ids:
                self.controller.close(session_id)
        return run


def current_config() -> RunnableConfig:
    """Return the configuration of the node that is running; an empty one outside a graph."""
    try:
        return get_config()
    except RuntimeError:
        return {}
