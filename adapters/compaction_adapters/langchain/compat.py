"""Features of newer LangChain versions for a middleware; compaction itself needs none of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def trace_policy() -> Any:
    """Return the policy that keeps the conversation out of the middleware's trace span; the span of the model call holds it."""
    try:
        from langgraph.types import TracePolicy, omit_payload
    except ImportError:
        return None
    return TracePolicy(process_inputs=omit_payload)


def transformers() -> Sequence[Any]:
    """Return the transformers that keep a summary's tokens out of `run.messages` and `astream_events(version="v3")`."""
    try:
        from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
    except ImportError:
        return ()
    return (InternalCallTransformer,)
