"""What is built into the site: every page of docs/, in the order of its lists, and every public module."""

import re

import compaction_hooks
from tests.docs.test_docs import DOCS, ROOT
from tests.test_architecture import MODULES, PUBLIC_MODULES

SETTINGS = (ROOT / ".mkdocs.yml").read_text(encoding="utf-8")
NAVIGATION, PLUGINS = SETTINGS.split("\nnav:\n")[1].split("\ntheme:\n")[0], SETTINGS.split("\nplugins:\n")[1]
ADAPTERS = {
    name for name in MODULES if re.fullmatch(r"compaction_adapters\.\w+", name) and not name.endswith(".langchain_core")
}
"""The adapters, their kit, stores and handlers. langchain_core is a part of two of them, whose pages have its public names."""


def described(page: str, folder: str = "") -> list[tuple[str, str]]:
    """Return the pages that the tables of a page list, each with its description."""
    rows = re.findall(
        r"^\| \[.+?\]\((\S+\.md)\) \| ([^|]+) \|", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE
    )
    return [(folder + path, description) for path, description in rows]


def test_the_navigation_has_every_page_once() -> None:
    pages = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", NAVIGATION, re.MULTILINE)
    assert sorted(pages) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_the_navigation_has_the_kinds_of_the_list_of_pages() -> None:
    kinds = re.findall(r"^## (.+)$", (DOCS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"^  - (.+):", NAVIGATION, re.MULTILINE) == ["Home", *kinds]


def test_the_list_for_agents_says_of_each_page_what_the_tables_say() -> None:
    listed = re.findall(r'^ +- (\S+\.md): "?(.+?)"?$', PLUGINS, re.MULTILINE)
    assert listed == described("README.md") + described("api/README.md", "api/")


def test_every_public_module_has_a_page_of_the_reference() -> None:
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("compaction_*.md")}
    assert {*pages} == PUBLIC_MODULES | ADAPTERS | {"compaction_hooks.tiktoken_estimator"}
    assert [name for name, text in pages.items() if re.findall(r"^::: (.+)$", text, re.MULTILINE) != [name]] == []


def test_the_page_of_the_package_has_every_public_name() -> None:
    text = (DOCS / "api" / "compaction_hooks.md").read_text(encoding="utf-8")
    here = re.findall(r"^        - (\w+)$", text, re.MULTILINE)
    elsewhere = [
        (module, re.findall(r"`(\w+)`", names))
        for module, names in re.findall(r"^\| \[(.+?)\].*?\| (`.+) \|$", text, re.MULTILINE)
    ]
    assert sorted([*here, *(name for _, names in elsewhere for name in names)]) == list(compaction_hooks.__all__)
    assert {module for module, _ in elsewhere} <= PUBLIC_MODULES
