"""Windows of models in tokens, by the beginnings of their names; for machines without genai-prices and litellm.

Written by `nox -s windows` from the data of genai-prices 0.2.3, 2026-11-22: do not edit. The longest beginning counts.
"""

from typing import Final

KNOWN_WINDOWS: Final[dict[int, str]] = {
    8_192: "gpt-4",
    32_000: "gpt-4-32k",
    64_000: "deepseek-chat deepseek-reasoner",
    128_000: "chatgpt-4o deepseek-v3.1 deepseek-v3.2 glm-4.6v gpt-4-turbo gpt-4o gpt-5.3",
    131_072: "gpt-oss-120b gpt-oss-20b grok-3 kimi-k2-0711 ministral-3b",
    200_000: "claude-3 claude-4 claude-haiku-4 claude-opus-4 claude-sonnet-4 codex-mini o3 o4",
    204_800: "minimax-m2 minimax-m2.1 minimax-m2.5 minimax-m2.7",
    256_000: "codestral grok-4 grok-build-0.1 grok-code-fast-1",
    262_144: "devstral gemma-4 kimi-k2-0905 kimi-k2-thinking kimi-k2-turbo kimi-k2.5 kimi-k2.6 kimi-k2.7 ministral-14b"
    " ministral-8b mistral-large mistral-medium-3 mistral-small",
    400_000: "gpt-5 gpt-5.1 gpt-5.2 gpt-5.3-codex gpt-5.4-mini gpt-5.4-nano",
    500_000: "grok-4.5 grok-4.6 grok-4.7",
    1_000_000: "claude-fable-5 claude-haiku-5 claude-mythos-5 claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-5"
    " claude-sonnet-4-6 claude-sonnet-5 deepseek-flash deepseek-v4 gemini-2.0 gemini-2.5 gemini-3 gemini-3.1"
    " gemini-3.5 gemini-3.6 gemini-3.7 gemini-3.8 glm-5.2 glm-5.3 gpt-4.1 gpt-5.5 grok-4.20 grok-4.3 minimax-m3"
    " minimax-m3.1",
    1_000_192: "minimax-01",
    1_048_576: "gemini-4 kimi-k3 kimi-k3.1 mistral-large-4 muse-spark-1.1 muse-spark-1.2 muse-spark-1.3 muse-wonder-1.0",
    1_050_000: "gpt-5.4 gpt-5.6 gpt-6 gpt-6.1",
    2_000_000: "grok-4-1 grok-4-fast",
}
