"""The site in .site/, as `nox -s docs` builds it: what it shows of the code, what it gives to agents, what it asks of others."""

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

from tests.cases import folded
from tests.docs.test_docs import DOCS, ROOT, text
from tests.docs.test_docs import PAGES as ALL_PAGES
from tests.docs.test_site import SETTINGS
from tests.test_architecture import MODULES

SITE = ROOT / ".site"
(ADDRESS,) = re.findall(r"^site_url: (.+)$", SETTINGS, re.MULTILINE)
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
MODULE_PAGES = sorted(page.stem for page in (DOCS / "api").glob("compaction_*.md"))


def folder_of(page: str) -> Path:
    """Return the folder of a page in the site."""
    return SITE / page.removesuffix("README.md").removesuffix(".md")


def public_names(module: str) -> set[str]:
    """Return the names in `__all__`; without it, those that the module defines and that have no underscore."""
    found: set[str] = set()
    nodes = [each for node in MODULES[module].body for each in (node.body if isinstance(node, ast.If) else [node])]
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                return set(ast.literal_eval(value))
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                found.add(name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case _:
                pass
    return {name for name in found if not name.startswith("_")}


class Loads(HTMLParser):
    """The addresses that a browser asks for when it shows a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_loaded = tag != "link" or given.get("rel") in ("stylesheet", "icon", "preload", "preconnect", "dns-prefetch")
        names = ("src", "srcset", "data", "poster") + (("href",) if tag == "link" else ())
        self.addresses += [value for name in names if is_loaded and (value := given.get(name))]


@folded("module", MODULE_PAGES)
def test_the_reference_has_the_public_names_of_a_module_and_no_others(module: str) -> None:
    html = (folder_of(f"api/{module}.md") / "index.html").read_text(encoding="utf-8")
    shown = {name.removeprefix(f"{module}.") for name in re.findall(r'<h\d id="([\w.]+)" class="doc ', html)}
    names = {name.partition(".")[0] for name in shown}
    if module == "compaction_hooks":
        elsewhere = html.partition("<tbody>")[2].partition("</tbody>")[0]
        names |= set(re.findall(r"<code>(\w+)</code>", elsewhere))
    type_variables = {name for name in names | public_names(module) if re.fullmatch(r"[A-Z]", name)}
    assert names - type_variables == public_names(module) - type_variables
    assert not [name for name in shown if re.search(r"(^|\.)_(?!_\w+__$)", name)]


@folded("page", PAGES)
def test_a_page_loads_nothing_from_elsewhere(page: str) -> None:
    html = (folder_of(page) / "index.html").read_text(encoding="utf-8")
    addresses = Loads(html).addresses
    assert addresses
    assert not [address for address in addresses if re.match(r"(?:https?:)?//", address)]


def test_the_link_to_the_repository_does_not_ask_for_its_stars() -> None:
    html = (SITE / "index.html").read_text(encoding="utf-8")
    assert 'class="md-source"' in html
    assert 'data-md-component="source"' not in html


def test_agents_can_read_every_page_as_markdown() -> None:
    index = (SITE / "llms.txt").read_text(encoding="utf-8")
    listed = re.findall(rf"^- \[.+\]\(<?{re.escape(ADDRESS)}([^>)]*)>?\): \S", index, re.MULTILINE)
    assert len(listed) == index.count("\n- [")
    assert {SITE / path for path in listed} == {folder_of(page) / "index.md" for page in PAGES if page != "README.md"}
    whole = (SITE / "llms-full.txt").read_text(encoding="utf-8")
    for path in listed:
        page = (SITE / path).read_text(encoding="utf-8")
        assert page.startswith("# ")
        assert page.splitlines()[0] in whole


@folded("page", ALL_PAGES)
def test_addresses_of_the_site_lead_to_files_of_it(page: str) -> None:
    paths = [SITE / path for path in re.findall(rf"{re.escape(ADDRESS)}([^)#\s>]*)", text(page))]
    assert not [path for path in paths if not (path.is_file() or (path / "index.html").is_file())]
