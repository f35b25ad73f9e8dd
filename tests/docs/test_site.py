"""What is built into the site: every page of docs/, in the order of its lists, and every public module."""

import re

import compaction_hooks
from tests.docs.test_docs import DOCS, ROOT
from tests.test_architecture import PUBLIC_MODULES

SETTINGS = (ROOT / ".mkdocs.yml").read_text(encoding="utf-8")
NAVIGATION, PLUGINS = SETTINGS.split("\nnav:\n")[1].split("\ntheme:\n")[0], SETTINGS.split("\nplugins:\n")[1]


def listed(page: str, folder: str = "") -> list[str]:
    """Return the pages that the lists and tables of a page name, in their order."""
    text = (DOCS / page).read_text(encoding="utf-8").partition("\n## ")[2]
    return [folder + path for path in re.findall(r"\]\(([\w/-][\w./-]*\.md)\)", text)]


def test_the_navigation_has_every_page_once() -> None:
    pages = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", NAVIGATION, re.MULTILINE)
    assert sorted(pages) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_the_navigation_has_the_kinds_of_the_list_of_pages() -> None:
    kinds = re.findall(r"^## (.+)$", (DOCS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"^  - (.+):", NAVIGATION, re.MULTILINE) == ["Home", *kinds]


def test_the_list_for_agents_describes_each_page_of_the_lists_in_their_order() -> None:
    told = re.findall(r'^ +- (\S+\.md): "?.+?"?$', PLUGINS, re.MULTILINE)
    pages = [page for page in told if not page.startswith("figures/")]
    assert pages == listed("README.md") + listed("api/README.md", "api/")
    assert sorted({*told} - {*pages}) == sorted(f"figures/{page.name}" for page in (DOCS / "figures").glob("*.md"))


def test_every_public_module_has_a_page_of_the_reference() -> None:
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("compaction_*.md")}
    assert {*pages} == PUBLIC_MODULES
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
