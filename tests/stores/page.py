"""The code of docs/stores.md, for tests that run it."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "stores.md"


def blocks(heading: str) -> list[str]:
    section = PAGE.read_text(encoding="utf-8").split(f"# {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def run(*code: str) -> dict[str, object]:
    names: dict[str, object] = {}
    for block in code:
        awaited = eval(compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(awaited):
            asyncio.run(awaited)
    return names
