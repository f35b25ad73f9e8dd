"""Writer of `compaction_hooks/tokens/known_windows.py`, the windows of current models by genai-prices. Run by `nox -s windows`."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "compaction_hooks" / "tokens" / "known_windows.py"
MAKERS = ("anthropic", "openai", "google", "deepseek", "x-ai", "mistral", "moonshotai", "minimax", "zai", "meta")
"""Providers that make models. Other providers serve the same models, under names that contain these."""
OTHER_KINDS = re.compile(
    r"embed|audio|realtime|transcribe|tts|image|ocr|moderation|search|vision|instruct|live|voxtral|computer|guard|her$"
    r"|claude-2|gpt-3|o1|gemini-(?:1|pro|flash-1)|grok-2|moonshot-v1|0613|1106|16k"
)
"""Models not meant for agents, and models out of use."""
ALIKE = 0.95
"""Windows whose ratio is at least this count as equal, since some makers round. The smaller one is used."""
UNDATED = re.compile(r"-(?:latest|preview|\d{4}|\d{8}|\d{4}-\d\d-\d\d|0)$")
HEAD = '''"""Windows of models in tokens, by the beginnings of their names; for machines without genai-prices and litellm.

Written by `nox -s windows` from the data of genai-prices {version}, {date}: do not edit. The longest beginning counts.
"""

from typing import Final

KNOWN_WINDOWS: Final[dict[int, str]] = {{
'''


def windows() -> dict[str, int]:
    """Return the windows of the makers' own models, by name in lower case without dates; of several the smallest."""
    from genai_prices import data_snapshot

    found: dict[str, int] = {}
    for provider in data_snapshot.get_snapshot().providers:
        for model in provider.models if provider.id in MAKERS else ():
            if model.context_window and not OTHER_KINDS.search(model.id):
                name = plain(model.id)
                found[name] = min(model.context_window, found.get(name, model.context_window))
    return found


def plain(name: str) -> str:
    """Return a model's name in the form of the table: without a date, Claude's with hyphens only."""
    name = name.lower().rpartition("/")[2]
    name = name.replace(".", "-") if name.startswith("claude") else name
    return UNDATED.sub("", name)


def beginnings(table: Mapping[str, int]) -> dict[str, int]:
    """Return the fewest beginnings of names that give every name its window; each includes a version."""
    chosen: dict[str, int] = {}
    for name in sorted(table, key=lambda name: (name.count("-"), name)):
        if is_alike(longest(chosen, name) or 0, table[name]):
            continue
        family = next((begin for begin in prefixes(name) if is_family(begin, table)), name)
        chosen[family] = min(members(family, table).values()) if family != name else table[name]
    return chosen


def prefixes(name: str) -> Iterator[str]:
    """Yield the shorter beginnings of a name that include a version, the shortest first."""
    words = name.split("-")
    for count in range(1, len(words)):
        if any(map(str.isdigit, "-".join(words[:count]))):
            yield "-".join(words[:count])


def is_family(begin: str, table: Mapping[str, int]) -> bool:
    """Return whether all models whose names begin so have one window, or nearly."""
    found = members(begin, table).values()
    return is_alike(min(found), max(found))


def members(begin: str, table: Mapping[str, int]) -> dict[str, int]:
    """Return the models whose names begin so."""
    return {name: tokens for name, tokens in table.items() if f"{name}-".startswith(f"{begin}-")}


def is_alike(one: int, other: int) -> bool:
    """Return whether a window may be told for another one: not larger, and hardly smaller."""
    return other * ALIKE <= one <= other


def longest(chosen: Mapping[str, int], name: str) -> int | None:
    """Return the window of the longest beginning of a name, as `windows._from_table` finds it."""
    words = name.split("-")
    found = (chosen.get("-".join(words[:count])) for count in range(len(words), 0, -1))
    return next(filter(None, found), None)


def main() -> None:
    found = beginnings(windows())
    lines: list[str] = []
    for tokens in sorted(set(found.values())):
        names = " ".join(sorted(name for name in found if found[name] == tokens))
        wrapped = textwrap.wrap(names, 110)
        lines.append(f'    {tokens:_}: "{wrapped[0]}"' + "".join(f'\n    " {line}"' for line in wrapped[1:]) + ",\n")
    head = HEAD.format(version=version("genai-prices"), date=f"{datetime.now(UTC):%Y-%m-%d}")
    TARGET.write_text(f"{head}{''.join(lines)}}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
