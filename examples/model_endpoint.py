"""The model of the examples: a loopback server with scripted answers, or a real endpoint from the environment.

COMPACTION_EXAMPLE_MODEL        the model's name; set it to use a real model
COMPACTION_EXAMPLE_API_KEY      its key
COMPACTION_EXAMPLE_BASE_URL     an OpenAI-like endpoint; OpenAI's own when unset
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compaction_hooks.testing import Answer, Call


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """An endpoint of OpenAI's chat completions.

    Attributes:
        is_offline: Whether the answers are scripted; then nothing leaves this machine.
    """

    base_url: str
    api_key: str
    model: str
    is_offline: bool


@contextmanager
def model_endpoint(*answers: str | Call, window: int = 16_384) -> Generator[ModelEndpoint, None, None]:
    """Yield the endpoint; a loopback server stops at the end of the with block.

    Args:
        answers: The model's answers, in order: a text or a tool call. A real model ignores them.
        window: The loopback server's limit, in tokens; it rejects longer requests as real providers do.
    """
    model = os.environ.get("COMPACTION_EXAMPLE_MODEL")
    if model:
        base_url = os.environ.get("COMPACTION_EXAMPLE_BASE_URL", "https://api.openai.com/v1")
        yield ModelEndpoint(base_url, os.environ["COMPACTION_EXAMPLE_API_KEY"], model, is_offline=False)
        return
    # Examples run from a checkout, in whose tests the server is.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.provider import LoopbackProvider

    played = [Answer(answer) if isinstance(answer, str) else Answer(calls=(answer,)) for answer in answers]
    with LoopbackProvider() as provider:
        provider.conversation("offline", window=window, answers=played)
        yield ModelEndpoint(provider.openai_url, "offline", "scripted-model", is_offline=True)
