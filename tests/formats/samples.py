"""Messages of the formats with everything they can hold, written for these tests."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

PIXELS = bytes(range(48))
IMAGE = base64.b64encode(PIXELS).decode()
DATA_URL = f"data:image/png;base64,{IMAGE}"
IMAGE_HASH = hashlib.sha256(PIXELS).hexdigest()
CACHE_MARK = {"type": "ephemeral"}

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You mend parsers."},
    {"role": "developer", "content": [{"type": "text", "text": "Be brief.", "cache_control": CACHE_MARK}]},
    {"role": "user", "content": "Mend it.", "name": "ada", "x_ticket": 7},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "See "},
            {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "input_audio", "input_audio": {"data": IMAGE, "format": "mp3"}},
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{IMAGE}", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "hologram", "depth": 3},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Two files are needed.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "read", "arguments": '{"path": "a.py"}'},
                "index": 0,
            },
            {
                "id": "call_2",
                "type": "function",
                "function": {"name": "read", "arguments": '{"path":"b.py"}'},
                "index": 1,
            },
        ],
        "model": "gpt-5",
        "finish_reason": "tool_calls",
        "usage": {"prompt_tokens": 120, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 100}},
        "provider_specific_fields": {"k": [1]},
    },
    {"role": "tool", "tool_call_id": "call_1", "name": "read", "content": "import b", "cache_control": CACHE_MARK},
    {
        "role": "tool",
        "tool_call_id": "call_2",
        "is_error": True,
        "content": [{"type": "text", "text": "no such "}, {"type": "text", "text": "file"}],
    },
    {
        "role": "assistant",
        "content": "Let me edit.",
        "reasoning_content": "the same as in the blocks",
        "thinking_blocks": [
            {"type": "thinking", "thinking": "An edit.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eHh4"},
        ],
        "tool_calls": [{"id": "call_3", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}],
    },
    {"role": "tool", "tool_call_id": "call_3", "content": "done"},
    {"role": "assistant", "content": "", "refusal": "I cannot."},
    {"role": "assistant", "content": None, "audio": {"id": "audio_1"}, "refusal": "Not aloud."},
    {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "function", "name": "old", "content": "legacy"},
    {"role": "critic", "content": "I disagree.", "weight": 0.5},
    {"role": "user", "content": "Summary so far.", "is_compact_summary": True},
]

ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "Mend it.", "x_ticket": 7},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "See ", "cache_control": CACHE_MARK},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": IMAGE}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a plain document"}},
            {"type": "container_upload", "file_id": "file_2"},
        ],
    },
    {
        "id": "msg_1",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "stop_reason": "tool_use",
        "usage": {
            "input_tokens": 20,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 5,
            "output_tokens": 9,
        },
        "content": [
            {"type": "thinking", "thinking": "Two files are needed.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eHh4eA=="},
            {"type": "text", "text": "Reading."},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "parsers"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {
                "type": "tool_use",
                "id": "toolu_1",
                "name": "read",
                "input": {"path": "ü.py"},
                "caller": {"type": "direct"},
            },
            {
                "type": "tool_use",
                "id": "toolu_2",
                "name": "read",
                "input": {"path": "b.py"},
                "cache_control": CACHE_MARK,
            },
        ],
    },
    {
        "role": "user",
        "x_turn": 2,
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "import b", "cache_control": CACHE_MARK},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "no such "},
                    {"type": "text", "text": "file", "cache_control": CACHE_MARK},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
                ],
            },
            {"type": "text", "text": "Go on, "},
            {"type": "text", "text": "please."},
        ],
    },
    {
        "role": "assistant",
        "content": [{"type": "compaction", "content": "what was before"}, {"type": "text", "text": "ok"}],
    },
    {"role": "assistant", "content": "Done."},
    {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
]

RESPONSES: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Mend it.", "x_ticket": 7},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "See "},
            {"type": "input_image", "image_url": DATA_URL, "detail": "low"},
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Two files "}, {"type": "summary_text", "text": "are needed."}],
        "encrypted_content": "gAAAAABo",
    },
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": '{"path": "a.py"}'},
    {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_2", "name": "patch", "input": "*** Begin"},
    {"type": "function_call_output", "call_id": "call_1", "output": "import b", "status": "completed"},
    {
        "type": "custom_tool_call_output",
        "call_id": "call_2",
        "output": [{"type": "input_text", "text": "done"}, {"type": "input_image", "image_url": DATA_URL}],
    },
    {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "call_3",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
        "status": "completed",
    },
    {"type": "local_shell_call_output", "call_id": "call_3", "output": "a.py"},
    {"type": "shell_call", "call_id": "call_4", "action": {"commands": ["ls", "pwd"]}},
    {
        "type": "shell_call_output",
        "call_id": "call_4",
        "max_output_length": 100,
        "output": [{"stdout": "a.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {
        "type": "apply_patch_call",
        "call_id": "call_5",
        "status": "completed",
        "operation": {"type": "update_file", "path": "a.py", "diff": "@@"},
    },
    {"type": "apply_patch_call_output", "call_id": "call_5", "status": "failed", "output": "no match"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "final_answer",
        "content": [
            {"type": "output_text", "text": "Done.", "annotations": []},
            {"type": "refusal", "refusal": "No more."},
        ],
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "parsers"}},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": IMAGE},
    {"type": "mcp_call", "id": "mcp_1", "name": "find", "server_label": "docs", "arguments": "{}", "output": "found"},
    {"type": "tool_search_call", "call_id": "call_6", "execution": "client", "arguments": {"q": "parse"}},
    {"type": "tool_search_output", "call_id": "call_6", "execution": "client", "tools": []},
    {"type": "item_reference", "id": "msg_0"},
    {"type": "additional_tools", "role": "developer", "tools": []},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABp"},
]

COMPUTER: list[dict[str, Any]] = [
    {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "call_7",
        "action": {"type": "screenshot"},
        "status": "completed",
    },
    {
        "type": "computer_call_output",
        "call_id": "call_7",
        "acknowledged_safety_checks": [{"id": "sc_1"}],
        "output": {"type": "computer_screenshot", "image_url": DATA_URL},
    },
]

GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "Mend it."}]},
    {
        "role": "user",
        "x_ticket": 7,
        "parts": [
            {"text": "See "},
            {"inlineData": {"mimeType": "image/png", "data": IMAGE}, "mediaResolution": {"level": "LOW"}},
            {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.org/a.pdf"}},
            {"hologram": {"depth": 3}},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"text": "Two files are needed.", "thought": True, "thoughtSignature": "c2ln"},
            {"text": "Reading."},
            {
                "functionCall": {"id": "c1", "name": "read", "args": {"path": "ü.py"}},
                "thoughtSignature": "c2lnbmVk",
            },
            {"functionCall": {"id": "c2", "name": "read", "args": {"path": "b.py"}}},
            {"functionCall": {"name": "list", "args": {}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "read", "response": {"output": "import b"}}},
            {"functionResponse": {"id": "c2", "name": "read", "response": {"error": "no such file"}}},
            {
                "functionResponse": {
                    "name": "list",
                    "response": {"files": ["ü.py"], "more": False},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": IMAGE, "displayName": "shot"}}],
                }
            },
            {"text": "Go on, "},
            {"text": "please."},
        ],
    },
    {"role": "model", "parts": [{"executableCode": {"language": "PYTHON", "code": "1 + 1"}}]},
    {"role": "model", "parts": [{"text": "", "thoughtSignature": "c2ln"}]},
    {"role": "model", "parts": []},
    {"parts": [{"text": "A content without a role is the user's."}]},
]

BEDROCK: list[dict[str, Any]] = [
    {"role": "user", "content": [{"text": "Mend it."}], "x_ticket": 7},
    {
        "role": "user",
        "content": [
            {"text": "See "},
            {"cachePoint": {"type": "default"}},
            {"image": {"format": "png", "source": {"bytes": IMAGE}}},
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/a.png"}}}},
            {"document": {"format": "pdf", "name": "a", "source": {"bytes": IMAGE}}},
            {"document": {"format": "txt", "name": "b", "source": {"text": "a plain document"}}},
            {"guardContent": {"text": {"text": "guarded words"}}},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "Two files are needed.", "signature": "c2ln"}}},
            {"reasoningContent": {"redactedContent": "eHh4eA=="}},
            {"text": "Reading."},
            {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "ü.py"}}},
            {"toolUse": {"toolUseId": "t2", "name": "read", "input": {"path": "b.py"}}},
            {"cachePoint": {"type": "default"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "t1", "content": [{"text": "import b"}]}},
            {"cachePoint": {"type": "default"}},
            {
                "toolResult": {
                    "toolUseId": "t2",
                    "status": "error",
                    "content": [
                        {"text": "no such "},
                        {"json": {"file": "b.py"}},
                        {"image": {"format": "png", "source": {"bytes": IMAGE}}},
                    ],
                }
            },
            {"text": "Go on, "},
            {"text": "please."},
            {"cachePoint": {"type": "default"}},
        ],
    },
    {"role": "assistant", "content": [{"text": "Done."}]},
]
