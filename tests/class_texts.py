"""A text of 1,500 to 6,000 characters for every class of the estimator, with the token counts of real tokenizers.

Those beyond ASCII repeat themselves, because shorter ones are not read in stretches.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("fixtures") / "class_texts.json"


@dataclass(frozen=True)
class ClassText:
    """A text and its tokens by cl100k_base and o200k_base, which `tests/internal/tokens/test_tiktoken_estimator.py` recounts."""

    text: str
    cl100k: int
    o200k: int

    @property
    def larger_count(self) -> int:
        """The larger count: cl100k_base's for all but a few texts, up to two and a half times as many outside ASCII."""
        return max(self.cl100k, self.o200k)


CLASS_TEXTS: Mapping[str, ClassText] = {
    name: ClassText(**fields) for name, fields in json.loads(FILE.read_text(encoding="utf-8")).items()
}
