"""Messages of the core's formats, from `tests/fixtures/formats/`: cases of reading, and samples of all that a message may hold."""

import base64
import json
from pathlib import Path
from typing import Any

from compaction_hooks.formats import (
    AnthropicFormat,
    BedrockConverseFormat,
    GeminiFormat,
    OpenAIChatFormat,
    OpenAIResponsesFormat,
)

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "formats"
CASES: dict[str, Any] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
FORMATS: dict[str, Any] = {
    each.name: each
    for each in (
        AnthropicFormat(),
        BedrockConverseFormat(),
        GeminiFormat(),
        OpenAIChatFormat(),
        OpenAIResponsesFormat(),
    )
}
IMAGE = base64.b64encode(bytes(range(48))).decode()
"""The image in the samples."""


def samples(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = CASES[name]["samples"]
    return found


GEMINI, BEDROCK = samples("gemini"), samples("bedrock_converse")
