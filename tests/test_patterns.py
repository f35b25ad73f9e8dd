"""Regular expressions cost nothing until they are used, and are then the standard library's."""

from __future__ import annotations

import re

import pytest

from compaction_hooks.text.patterns import lazy_pattern


def test_finds_what_the_compiled_expression_finds() -> None:
    found = lazy_pattern(r"(\d+) TOKENS", re.IGNORECASE)
    assert [match[1] for match in found.finditer("4 tokens, 5 Tokens")] == ["4", "5"]
    assert found.sub("some", "4 tokens") == "some"
    assert found.pattern == r"(\d+) TOKENS"


def test_asks_only_once_for_each_method() -> None:
    found = lazy_pattern("a+")
    assert found.search is found.search


def test_a_wrong_expression_shows_when_it_is_used() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error, match="missing"):
        broken.match("")
