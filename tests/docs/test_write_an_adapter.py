"""docs/write-an-adapter.md: the adapter for an invented framework is short, and passes every check it tells of."""

import re
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("httpx")

from compaction_hooks.testing import ADAPTER_FACTS, AdapterFact, check_adapter, check_format
from tests.cases import sampled
from tests.docs.parley import SAMPLES, Harness
from tests.provider import LoopbackProvider

PAGE = Path(__file__).resolve().parents[2] / "docs" / "write-an-adapter.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE))
"""The files of the page, by module name, in the order they import one another."""


@pytest.fixture(scope="module", autouse=True)
def modules() -> Iterator[dict[str, ModuleType]]:
    """The page's files as modules that can be imported."""
    made: dict[str, ModuleType] = {}
    for name, source in BLOCKS.items():
        sys.modules[name] = made[name] = ModuleType(name)
        exec(compile(source, f"{PAGE.name}: {name}.py", "exec"), made[name].__dict__)
    yield made
    for name in made:
        del sys.modules[name]


def harness(modules: dict[str, ModuleType]) -> Harness:
    page = modules["parley_compaction"]
    return Harness(page.ParleyFormat(), page.compaction)


def test_the_adapter_has_fewer_than_60_lines() -> None:
    assert list(BLOCKS) == ["parley_compaction", "test_parley_compaction"]
    assert len(BLOCKS["parley_compaction"].splitlines()) < 60


def test_the_format_keeps_its_contract(modules: dict[str, ModuleType]) -> None:
    modules["test_parley_compaction"].test_the_format_keeps_its_contract()
    check_format(modules["parley_compaction"].ParleyFormat(), SAMPLES)


@pytest.mark.parametrize(
    "fact", sampled([fact for fact in ADAPTER_FACTS if fact.needs in (None, "history")], 4), ids=str
)
def test_the_adapter_has_every_fact(
    fact: AdapterFact, provider: LoopbackProvider, modules: dict[str, ModuleType]
) -> None:
    check_adapter(harness(modules), provider, fact)


@pytest.mark.parametrize("fact", [fact for fact in ADAPTER_FACTS if fact.needs in ("sync", "streaming")], ids=str)
def test_features_that_the_framework_lacks_are_skipped(
    fact: AdapterFact, provider: LoopbackProvider, modules: dict[str, ModuleType]
) -> None:
    with pytest.raises(unittest.SkipTest, match=f"parley has no {fact.needs}"):
        check_adapter(harness(modules), provider, fact)


def test_the_pages_own_tests_notice_an_adapter_that_does_nothing(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = modules["test_parley_compaction"]
    monkeypatch.setattr(page, "compaction", lambda controller, agent: None)
    long_session = next(fact for fact in ADAPTER_FACTS if fact.name == "long_session")
    with pytest.raises(AssertionError):
        page.test_the_adapter_has_every_fact(long_session)


def test_the_pages_own_tests_notice_a_format_that_reads_nothing(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = modules["test_parley_compaction"]
    monkeypatch.setattr(page.ParleyFormat, "read", lambda self, message: [])
    with pytest.raises(AssertionError):
        page.test_the_format_keeps_its_contract()


def test_the_page_explains_every_fact_and_no_other() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", TEXT.partition("## When a fact fails")[2], re.MULTILINE)
    assert explained == [fact.name for fact in ADAPTER_FACTS]
