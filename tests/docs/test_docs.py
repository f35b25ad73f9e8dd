"""The pages: links lead somewhere, docs/README.md lists every page, and every program on a page is run by a test."""

import re
import tomllib
from pathlib import Path

import pytest

import compaction_hooks
from tests.adapters import programs as adapters
from tests.cases import folded

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")),
]

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, TABLE, DOCS = PYPROJECT["project"], PYPROJECT["tool"]["compaction-hooks"]["adapters"], ROOT / "docs"
RAW = PROJECT["urls"]["Homepage"].replace("github.com", "raw.githubusercontent.com") + "/main"
ON_GITHUB = re.compile(rf"{re.escape(PROJECT['urls']['Homepage'])}/blob/main/([^)#\s]+)#?([^)\s]*)")
"""A file's full address: a package page and the site show pages from where a relative link to it leads nowhere."""

RUN_BY = {
    "docs/README.md": "docs/test_readme.py",
    "docs/before-compact.md": "api/test_before_compact.py",
    "docs/check.md": "testing/test_plugin.py",
    "docs/choosing-settings.md": "docs/test_docs_settings.py",
    "docs/figures/choosing-settings.md": "docs/test_docs_settings.py",
    "docs/notice.md": "docs/test_docs.py",
    "docs/overflow.md": "docs/test_docs.py",
    "docs/compact-tool.md": "docs/test_docs.py",
    "docs/recall.md": "docs/test_docs.py",
    "docs/replay.md": "docs/test_docs.py",
    "docs/carry.md": "api/test_carry.py",
    "docs/sessions.md": "docs/test_docs.py",
    "docs/settings.md": "docs/test_docs_settings.py",
    "docs/stores.md": "stores/page.py",
    "docs/troubleshooting.md": "docs/test_docs_troubleshooting.py",
    "docs/tutorial.md": "docs/test_docs_calls.py",
    "docs/write-a-policy.md": "docs/test_docs_settings.py",
    "docs/write-an-adapter.md": "docs/test_write_an_adapter.py",
    **{f"docs/{extra}.md": "adapters/programs.py" for extra in TABLE if (DOCS / f"{extra}.md").is_file()},
    "docs/migration.md": "adapters/programs.py",
    "docs/model-summaries.md": "adapters/programs.py",
    "docs/native.md": "adapters/programs.py",
    "docs/recipes.md": "adapters/test_recipes.py",
    "docs/recipes-services.md": "adapters/test_recipes.py",
    "docs/tracing.md": "adapters/programs.py",
}
"""Whose programs are run where, in tests/."""


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", text(page), flags=re.DOTALL | re.MULTILINE)


def programs(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text(page), re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """The places of a page that a link can name: its headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def relative_links(page: str) -> list[tuple[str, str]]:
    """The relative links of a page: the page or file meant, and the place on it, or ""."""
    found: list[tuple[str, str]] = re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", prose(page))
    here = (ROOT / page).parent
    return [((here / path).resolve().relative_to(ROOT).as_posix() if path else page, anchor) for path, anchor in found]


def links(page: str) -> list[tuple[str, str]]:
    """The links of a page within the project, those by a full address too."""
    full: list[tuple[str, str]] = ON_GITHUB.findall(prose(page))
    return relative_links(page) + full


@folded("page", PAGES)
def test_links_to_files_lead_somewhere(page: str) -> None:
    assert not [target for target, _ in links(page) if not (ROOT / target).exists()]


@folded("page", PAGES)
def test_links_to_headings_lead_somewhere(page: str) -> None:
    assert not [(target, anchor) for target, anchor in links(page) if anchor and anchor not in anchors(target)]


@folded("page", [page for page in PAGES if page.startswith("docs/")])
def test_the_site_has_the_files_that_its_pages_name_by_relative_links(page: str) -> None:
    assert not [target for target, _ in relative_links(page) if not target.startswith("docs/")]


def test_the_readme_can_be_read_from_a_package_page() -> None:
    """Its links are relative, for readers of a clone; the package has them in full."""
    package_page = text("README.md")
    for change in PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        package_page = re.sub(change["pattern"], change["replacement"], package_page)
    leads = re.findall(r"\]\(([^)]+)\)", re.sub(r"^```.*?^```$", "", package_page, flags=re.DOTALL | re.MULTILINE))
    places = [re.sub(r"^https://(raw|github).*/main/", "", re.sub(r"#.*", "", lead)) for lead in leads]
    assert places
    assert not [place for place in places if not (ROOT / place).exists()]
    assert [lead for lead in leads if lead.endswith(".svg")] == [f"{RAW}/docs/chart.svg"]


def test_the_package_page_leads_to_pages_that_are_there() -> None:
    pages = {name: url.removeprefix(PROJECT["urls"]["Homepage"]) for name, url in PROJECT["urls"].items()}
    assert pages == {
        "Homepage": "",
        "Documentation": "/tree/main/docs",
        "Changelog": "/blob/main/CHANGELOG.md",
        "Issues": "/issues",
    }
    assert all((ROOT / path.split("main/")[1]).exists() for path in pages.values() if "main/" in path)


def test_the_readme_and_the_list_of_pages_lead_to_every_page() -> None:
    lists = ("README.md", "docs/README.md", "docs/api/README.md", "docs/security.md")
    listed = {target for page in lists for target, _ in links(page)}
    figures = {page for page in PAGES if page.startswith("docs/figures/")}
    assert listed >= set(PAGES) - {"README.md"} - figures
    assert not [page for page in figures if page not in {target for target, _ in links(page.replace("/figures/", "/"))}]


def test_the_list_of_pages_has_four_kinds() -> None:
    kinds = re.findall(r"^## (.+)$", text("docs/README.md"), re.MULTILINE)
    assert kinds == ["Learn", "Do", "Look up", "Understand"]


def test_every_module_that_a_page_runs_is_there() -> None:
    modules = {name for page in PAGES for name in re.findall(r"python -m (tests[.\w]*\w)", text(page))}
    paths = [ROOT / name.replace(".", "/") for name in modules]
    assert paths
    assert not [
        path for path in paths if not path.with_suffix(".py").is_file() and not (path / "__main__.py").is_file()
    ]


def test_every_program_of_a_page_is_run_by_a_test() -> None:
    assert {page for page in PAGES if programs(page)} - {"README.md"} == set(RUN_BY)
    assert not [test for test in RUN_BY.values() if not (ROOT / "tests" / test).is_file()]


def test_every_page_that_shows_an_adapter_and_every_example_of_one_is_run() -> None:
    shown = {page.stem for page in DOCS.glob("*.md") if "compaction_adapters" in "".join(programs(f"docs/{page.name}"))}
    elsewhere = {"recipes", "recipes-services", "stores", "write-an-adapter"}
    assert shown - elsewhere == {place.partition("#")[0] for place in adapters.PAGES}
    sections = adapters.sections(text("docs/migration.md"))
    assert {f"migration#{anchor}" for anchor in sections if adapters.programs(f"migration#{anchor}")} == {
        place for place in adapters.PAGES if place.startswith("migration#")
    }
    found = {path.stem for path in adapters.FOLDER.glob("*.py") if "compaction_adapters" in path.read_text("utf-8")}
    assert found - {"local_model", "record_session"} == set(adapters.EXAMPLES)


def test_the_page_of_overflow_errors_shows_the_output_of_its_program(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = programs("docs/overflow.md")
    exec(program, {"error": "prompt is too long: 213462 tokens > 200000 maximum"})
    assert capsys.readouterr().out == "200000 213462\n"
    assert "# 200000 213462" in program


@pytest.mark.parametrize(
    "page", ["docs/compact-tool.md", "docs/notice.md", "docs/recall.md", "docs/replay.md", "docs/sessions.md"]
)
def test_the_program_of_a_page_runs(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    exec("\n".join(programs(page)), {})
    assert capsys.readouterr().out


def test_the_newest_entry_of_the_changelog_is_the_version_that_is_built() -> None:
    entries = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d|unreleased)$", text("CHANGELOG.md"), re.MULTILINE)
    version, is_development, _ = compaction_hooks.__version__.partition(".dev")
    assert entries[0][0] == version
    assert (entries[0][1] == "unreleased") == bool(is_development)


def test_only_the_package_has_its_version() -> None:
    texts = [text("README.md"), text("CONTRIBUTING.md"), (ROOT / "pyproject.toml").read_text(encoding="utf-8")]
    assert not [found for found in texts if re.search(r"(?<![\d.=>])0\.[12]\.0(?!\d)", found)]


@pytest.mark.parametrize(
    ("page", "arguments"),
    [
        ("docs/figures/replay.md", "examples/session.jsonl --window 16k"),
        ("docs/figures/replay.md", "examples/session.jsonl --window 16k,32k,64k"),
        pytest.param(
            "docs/figures/choosing-settings.md",
            "tests/benchmarks/sessions --window 200k --trigger 80k,120k,100% --keep 6k,20k",
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_page_shows_the_output_of_its_replay(
    page: str, arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    app = pytest.importorskip("compaction_hooks.command.app", exc_type=ImportError)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    assert app.run(["replay", *arguments.split()]) == 0
    shown = text(page).partition(f"compaction-hooks replay {arguments}\n```\n")[2].split("```\n")[1]
    assert [line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()] == shown.rstrip().splitlines()


def test_the_page_of_replay_shows_the_beginning_of_that_output() -> None:
    (shown,) = re.findall(r"^```\n(Compaction makes .*?)^```$", text("docs/replay.md"), re.DOTALL | re.MULTILINE)
    assert shown in text("docs/figures/replay.md")
