"""Plain messages of the core's formats, and what `read_plain` promises of each."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from compaction_hooks.formats import (
    AnthropicFormat,
    BedrockConverseFormat,
    GeminiFormat,
    OpenAIChatFormat,
    OpenAIResponsesFormat,
)
from compaction_hooks.messages import Format, Text, ToolCall, ToolResult
from compaction_hooks.tokens import message_tokens

FRAME_TOKENS = 28
"""The most tokens of the frame of a text: `engine.quiet` reckons with it."""
Call: TypeAlias = tuple[str, str, Any]
"""The id, the tool's name and the arguments of a call."""


def utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def check_plain(format: Format[Any], message: Any) -> bool:
    """Check that a message's texts are those of its reading, and their bound is no less than its estimate.

    Return whether the message is plain.
    """
    plain = format.read_plain(message)
    if plain is None:
        return False
    is_answer, texts, calls, results = plain
    pieces = format.read(message)
    assert {piece.role == "assistant" for piece in pieces} == {is_answer}
    assert not any(piece.usage or piece.model or piece.stop_reason or piece.is_summary for piece in pieces)
    assert [*calls] == [call.id for piece in pieces for call in piece.calls]
    assert [*results] == [result.call_id for piece in pieces for result in piece.results]
    said = [part.text for piece in pieces for part in piece.parts if isinstance(part, Text)]
    asked = [text for piece in pieces for call in piece.calls for text in (call.name, call.arguments)]
    told = [result.text for piece in pieces for result in piece.results]
    assert sorted("".join(texts)) == sorted("".join([*said, *asked, *told]))
    assert all(isinstance(part, Text | ToolCall | ToolResult) for piece in pieces for part in piece.parts)
    assert not any(call.opaque_chars for piece in pieces for call in piece.calls)
    assert not any(result.media for piece in pieces for result in piece.results)
    bound = sum(map(utf8_bytes, texts)) + FRAME_TOKENS * (len(texts) or 1)
    assert bound >= sum(message_tokens(piece, utf8_bytes) for piece in pieces)
    return True


# -- writers: the words of the user or the model, calls, results (call id, tool, text)


def chat(words: Sequence[str], calls: Sequence[Call], result: tuple[str, str, str] | None) -> dict[str, Any]:
    if result:
        return {"role": "tool", "tool_call_id": result[0], "content": result[2]}
    entries = [{"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a)}} for i, n, a in calls]
    text = "".join(words) or None
    return {"role": "assistant", "content": text, "tool_calls": entries} if calls else {"role": "user", "content": text}


def responses(words: Sequence[str], calls: Sequence[Call], result: tuple[str, str, str] | None) -> dict[str, Any]:
    if result:
        return {"type": "function_call_output", "call_id": result[0], "output": result[2]}
    if calls:
        call_id, name, arguments = calls[0]
        return {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
    return {"role": "user", "content": [{"type": "input_text", "text": text} for text in words or [""]]}


def anthropic(words: Sequence[str], calls: Sequence[Call], result: tuple[str, str, str] | None) -> dict[str, Any]:
    blocks: list[Any] = [{"type": "text", "text": text} for text in words]
    blocks += [{"type": "tool_use", "id": id, "name": name, "input": input} for id, name, input in calls]
    if result and not calls:
        blocks.insert(len(blocks) // 2, {"type": "tool_result", "tool_use_id": result[0], "content": result[2]})
    return {"role": "assistant" if calls else "user", "content": blocks}


def gemini(words: Sequence[str], calls: Sequence[Call], result: tuple[str, str, str] | None) -> dict[str, Any]:
    parts: list[Any] = [{"text": text} for text in words]
    parts += [{"functionCall": {"name": name, "args": args}} for _, name, args in calls]
    if result and not calls:
        response = {"name": result[1], "response": {"output": result[2]}}
        parts += [{"function_response": response}, {"functionResponse": {**response, "id": result[0]}}]
    return {"role": "model" if calls else "user", "parts": parts}


def converse(words: Sequence[str], calls: Sequence[Call], result: tuple[str, str, str] | None) -> dict[str, Any]:
    blocks: list[Any] = [{"text": text} for text in words]
    blocks += [{"toolUse": {"toolUseId": id, "name": name, "input": input}} for id, name, input in calls]
    if result and not calls:
        output = [{"text": result[2]}, {"json": {"said": result[2]}}]
        blocks.append({"toolResult": {"toolUseId": result[0], "status": "error", "content": output}})
    return {"role": "assistant" if calls else "user", "content": blocks}


WRITERS: Mapping[str, Any] = {
    "anthropic": anthropic,
    "bedrock_converse": converse,
    "gemini": gemini,
    "openai_chat": chat,
    "openai_responses": responses,
}


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
