"""Every data file of the tests and the examples has its origin and licence in tests/fixtures/README.md."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path("tests", "fixtures", "README.md")


def test_every_data_file_is_in_the_table_of_origins_once() -> None:
    paths = re.findall(r"`((?:tests|examples)/[^`]+)`", (ROOT / TABLE).read_text(encoding="utf-8"))
    named = [path for path in paths if not path.endswith(("/", ".py"))]
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".md"}
    }
    assert Counter(named) == Counter(files)
