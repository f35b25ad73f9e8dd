"""The modules that are public, by `docs/versions.md`."""

import re
from pathlib import Path


def public_modules(checkout: Path) -> set[str]:
    """Return the modules that the page lists in its part about public names."""
    page = (checkout / "docs" / "versions.md").read_text(encoding="utf-8")
    part = page.partition("\n## What is public\n")[2].partition("\n## ")[0]
    return set(re.findall(r"(?<!\S)compaction_(?:hooks|adapters)[\w.]*", part))
