"""The core's formats as dialects of `tests.repairs`."""

from collections.abc import Sequence
from typing import Any

from compaction_hooks.formats import AnthropicFormat, BedrockConverseFormat, OpenAIChatFormat, OpenAIResponsesFormat
from tests.repairs import Dialect

Calls = Sequence[tuple[str, int]]


def _chat_asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if thinks:
        message["reasoning_content"] = "hm"
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": "run", "arguments": f'{{"n":{n}}}'}} for id, n in calls
        ]
    return [message]


def _chat_tells(results: Calls) -> list[Any]:
    return [{"role": "tool", "tool_call_id": id, "content": f"result {n}"} for id, n in results]


CHAT = Dialect(
    format=OpenAIChatFormat(),
    system=lambda text: {"role": "system", "content": text},
    user=lambda text: {"role": "user", "content": text or None},
    asks=_chat_asks,
    tells=_chat_tells,
)


def _anthropic_asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
    blocks: list[Any] = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}] if thinks else []
    blocks += [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": id, "name": "run", "input": {"n": n}} for id, n in calls]
    return [{"role": "assistant", "content": blocks}]


def _anthropic_tells(results: Calls) -> list[Any]:
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": f"result {n}"} for id, n in results]
    return [{"role": "user", "content": blocks}]


ANTHROPIC = Dialect(
    format=AnthropicFormat(),
    system=lambda text: {"role": "system", "content": text},
    user=lambda text: {"role": "user", "content": text},
    asks=_anthropic_asks,
    tells=_anthropic_tells,
)


def _responses_asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
    items: list[Any] = [{"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"}] if thinks else []
    items += (
        [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}] if text else []
    )
    for id, n in calls:
        items.append({"type": "function_call", "call_id": id, "name": "run", "arguments": f'{{"n":{n}}}'})
    return items


def _responses_tells(results: Calls) -> list[Any]:
    return [{"type": "function_call_output", "call_id": id, "output": f"result {n}"} for id, n in results]


RESPONSES = Dialect(
    format=OpenAIResponsesFormat(),
    system=lambda text: {"role": "developer", "content": text},
    user=lambda text: {"role": "user", "content": text},
    asks=_responses_asks,
    tells=_responses_tells,
)


def _converse_asks(text: str, calls: Calls, thinks: bool) -> list[Any]:
    reasoning = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
    blocks: list[Any] = [reasoning] if thinks else []
    blocks += [{"text": text}] if text else []
    blocks += [{"toolUse": {"toolUseId": id, "name": "run", "input": {"n": n}}} for id, n in calls]
    return [{"role": "assistant", "content": blocks}]


def _converse_tells(results: Calls) -> list[Any]:
    blocks = [{"toolResult": {"toolUseId": id, "content": [{"text": f"result {n}"}]}} for id, n in results]
    return [{"role": "user", "content": blocks}]


CONVERSE = Dialect(
    format=BedrockConverseFormat(),
    system=lambda text: {"role": "system", "content": [{"text": text}]},
    user=lambda text: {"role": "user", "content": [{"text": text}]},
    asks=_converse_asks,
    tells=_converse_tells,
)

ALL = {"chat": CHAT, "anthropic": ANTHROPIC, "responses": RESPONSES, "converse": CONVERSE}
