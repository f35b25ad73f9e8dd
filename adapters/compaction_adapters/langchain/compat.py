"""Features of newer LangChain versions for a middleware; compaction itself needs none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def trace_policy() -> Any:
    """Return what keeps the whole conversation out of the middleware's own trace span; the span of the model call holds it."""
    try:
        from langgraph.types import TracePolicy, omit_payload
    except ImportError:
        return None
    return TracePolicy(process_inputs=omit_payload)


def transformers() -> Sequence[Any]:
    """Return what keeps the tokens of a summary out of `run.messages` and `astream_events(version="v3")`."""
    try:
        from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
    except ImportError:
        return ()
    return (InternalCallTransformer,)
