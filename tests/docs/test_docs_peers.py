"""The other libraries that pages compare with: one table has their versions, and no page gives another one."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "figures").glob("*.md"))]
TABLE = ROOT / "docs" / "benchmarks.md"
ROW = re.compile(r"^\| (?P<peer>[\w-]+) \| (?P<version>\d+\.\d+\.\d+)\b", re.MULTILINE)
"""A row of the table: the peer and its version."""


def versions() -> dict[str, str]:
    """Return the versions of the peers by their names in lower case."""
    table = TABLE.read_text(encoding="utf-8").partition("## The peers")[2]
    return {row["peer"].lower(): row["version"] for row in ROW.finditer(table)}


def named(text: str, peer: str) -> list[str]:
    """Return the versions that a text gives right after the name of a peer, but for lower bounds."""
    name = rf"(?<![\w-]){re.escape(peer)}(?![\w-])"
    version = r"(\d+\.\d+(?:\.\d+)?)(?![.\w]*\w| (?:or newer|and later))"
    return re.findall(rf"{name}[`*|,( ]*(?:read in )?{version}", text, re.IGNORECASE)


def test_no_page_gives_a_peer_another_version_than_the_table() -> None:
    assert len(versions()) >= 9
    others = [
        (page.name, peer, found)
        for page in PAGES
        for peer, version in versions().items()
        for found in named(page.read_text(encoding="utf-8"), peer)
        if found != version
    ]
    assert others == []


def test_a_version_is_found_next_to_its_peer() -> None:
    text = "LangChain 1.4.7, `litellm` (read in 1.106), langchain-core 1.7.2, | deepagents | 0.7.32 |, langmem 0.0.30 or newer."
    found = {peer: named(text, peer) for peer in ("langchain", "litellm", "deepagents", "langmem")}
    assert found == {"langchain": ["1.4.7"], "litellm": ["1.106"], "deepagents": ["0.7.32"], "langmem": []}
