"""The sessions that check this project: `nox` runs the fast suite, `nox -t full` the full matrix, `nox -l` lists all of them.

Needs uv beside nox (`pip install nox uv`): it makes the environments, and resolves the lowest versions pyproject.toml allows.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import nox

PYPROJECT = nox.project.load_toml("pyproject.toml")
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHONS = sorted({"3.11", "3.12", "3.13", THIS_PYTHON})
"""Versions the core is tried on; pyproject.toml names those on which all of it passed."""
SERVERS = {"redis-server": "redis-server", "postgres": "postgresql"}
"""By program that the tests of stores start: Debian's package of it. No session installs any."""
BROWSER = {"chromium": "chromium", "chromedriver": "chromium-driver"}
"""The same of the programs that open reports."""
HOSTED = {
    "github-workflows": "workflows/*.yml",
    "github-issue-forms": "ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": "ISSUE_TEMPLATE/config.yml",
    "dependabot": "dependabot.yml",
}
"""By kind of file: the files of that kind in .github/."""
EXTRAS = ",".join(extra for extra in PYPROJECT["project"]["optional-dependencies"] if extra != "all")
"""All extras: what the code of this repository imports."""
_ADAPTERS = PYPROJECT["tool"]["compaction-hooks"]["adapters"]


def _tests_of(extra: str) -> list[str]:
    """Return the test files named after an adapter, and not after one with a longer name."""
    module, *others = (one.replace("-", "_") for one in (extra, *(set(_ADAPTERS) - {extra})))
    longer = tuple(f"test_{other}" for other in others if other.startswith(module))
    return [str(path) for path in Path("tests/adapters").glob(f"test_{module}*.py") if not path.stem.startswith(longer)]


ADAPTERS = {extra: (*_tests_of(extra), *adapter.get("tests", ())) for extra, adapter in _ADAPTERS.items()}
"""By extra: the test files that need its framework or client. What they need beside the extra stands in the dependency group named
after it, if there is one. The full matrix has an environment for each."""

TOGETHER = {
    name: [extra for extra, adapter in _ADAPTERS.items() if adapter["environment"] == name]
    for name in {adapter["environment"]: None for adapter in _ADAPTERS.values()}
}
"""By environment of the fast suite: the extras in it. Next to strands, litellm would be an older one, and older still next to
pydantic-ai's openai extra."""

NOT_IN_CI = ("agents",)
"""Environments whose lowest versions and newest releases only the full matrix tries; `.ci/run` takes sessions with the tag "ci"."""

EVERYWHERE = "tests/api/test_mistakes.py"
"""Makes the mistakes of whichever frameworks are installed."""

PAGES = "tests/adapters/test_page_programs.py"
"""Runs the programs of the pages on them."""

EXAMPLES = "tests/adapters/test_examples.py"
"""Runs the same, and the programs in examples/, with the latest versions."""

CLIENTS = (
    "tests/adapters/test_overflow_clients.py",
    "tests/api/test_report_usage.py",
    "tests/api/test_summary_settings.py",
    "tests/docs/test_readme.py",
    "tests/formats/test_formats.py",
    "tests/formats/test_gemini.py",
    "tests/provider/test_format_told.py",
    "tests/provider/test_gemini_and_bedrock.py",
    "tests/provider/test_host_facts.py",
    "tests/provider/test_in_place.py",
    "tests/provider/test_local_model.py",
    "tests/provider/test_merge_user_messages.py",
    "tests/provider/test_model_summaries.py",
    "tests/provider/test_preserved_thinking.py",
    "tests/provider/test_sealed_compaction.py",
    "tests/provider/test_sealed_reasoning.py",
)
"""Of the core's tests, those that need the clients of providers. In the fast suite they run in the environment "langchain", which
has these clients anyway: they take seconds to import."""

BARE = (
    "test_architecture.py",
    "api/test_transform_context.py",
    "docs/test_docs_settings.py",
    "internal/runtime/test_drivers.py",
    "test_missing_extras.py",
    "docs/test_readme.py",
    "api/test_session.py",
    "stores/test_stores.py",
)
"""Of the core's test files, those that `bare` runs with nothing installed but pytest; the full matrix runs all."""

IMPORT_EVERYTHING = """
import importlib, pathlib, pkgutil
for name in ("compaction_hooks", "compaction_adapters"):
    package = importlib.import_module(name)
    root = pathlib.Path(package.__file__).parent
    assert (root / "py.typed").is_file(), f"{name} has no py.typed"
    modules = [module.name for module in pkgutil.walk_packages([str(root)], f"{name}.")]
    for module in modules:
        importlib.import_module(module)
    print(f"{name}: {len(modules)} modules imported from {root}")
"""

LEAST_COVERED = 0.95
"""Of all branches of the core and the adapters, the part that the tests must run."""

# As pip does: a certificate the machine trusts, such as a company's, is one uv trusts.
os.environ.setdefault("UV_SYSTEM_CERTS", "1")

# Hundreds of processes import the same modules. Compiled once they are kept, in no folder but .nox, also for those who keep none.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = str(Path(".nox", "bytecode").resolve())

nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.sessions = ["core", "frameworks"]


def _tags(environment: str) -> list[str]:
    return [] if environment in NOT_IN_CI else ["ci"]


def install(session: nox.Session, *groups: str, extras: str = "") -> None:
    """Install the project from this checkout with these extras, and the dependency groups."""
    project = f".[{extras}]" if extras else "."
    session.install("-e", project, *nox.project.dependency_groups(PYPROJECT, *groups))


def groups_of(*extras: str) -> list[str]:
    """Return the dependency groups that the tests of these extras need."""
    return [group for extra in extras if (group := f"{extra}-tests") in PYPROJECT["dependency-groups"]]


def install_rank_files(session: nox.Session) -> None:
    """Install litellm's wheel alone, for the rank files of tokenizers in it; the tests read them and never import it."""
    session.install("--no-deps", "litellm")


@nox.session
def bare(session: nox.Session) -> None:
    """The core needs nothing: a part of its tests with nothing installed but pytest."""
    install(session, "test")
    session.run("pytest", *(f"tests/{name}" for name in BARE), *session.posargs)


@nox.session
def core(session: nox.Session) -> None:
    """The tests of the core: with generated examples, the replay command, tokenizers, and a provider on loopback."""
    session.log(
        "The fast suite takes about four minutes on two free cores. It uses servers that are installed, and installs none."
    )
    _run_core(session, groups=())


@nox.session(python=[version for version in PYTHONS if version != THIS_PYTHON])
def pythons(session: nox.Session) -> None:
    """The same tests of the core on the other versions of Python that pyproject.toml names, if they are installed."""
    _run_core(session)


@nox.session(python=PYTHONS, tags=["full"])
def tests(session: nox.Session) -> None:
    """All tests of the core, the long ones too: with nothing installed but pytest, then with the libraries some need."""
    install(session, "test")
    session.run("pytest", "--full", "--ignore=tests/adapters", *session.posargs)
    _run_core(session, "--full")


def _run_core(session: nox.Session, *options: str, groups: Sequence[str] = ("clients",)) -> None:
    install(session, "test", "property", "provider", *groups, extras="cli,report,tiktoken")
    install_rank_files(session)
    files = ("--ignore=tests/adapters", "tests", "tests/adapters/test_overflow_clients.py")
    session.run("pytest", "-n", "auto", *options, *files, *session.posargs)


@nox.session
@nox.parametrize("environment", [nox.param(name, id=name) for name in TOGETHER])
def frameworks(session: nox.Session, environment: str) -> None:
    """The adapters at the latest versions of their frameworks, as many in one environment as go together; their examples."""
    extras = TOGETHER[environment]
    more = ["deepagents", "recipes"] if environment == "langchain" else []
    install(session, "test", "provider", *groups_of(*extras), *more, extras=",".join(extras))
    install_rank_files(session)
    clients = CLIENTS if environment == "langchain" else ()
    files = _files(*(pattern for extra in extras for pattern in ADAPTERS[extra]), EVERYWHERE, EXAMPLES, *clients)
    session.run("pytest", "-n", "auto", *files, *session.posargs)


@nox.session(name="all", venv_backend="none")
def the_rest(session: nox.Session) -> None:
    """The tests that the fast suite leaves out, in its environments: long ones, and tables of formats by frameworks."""
    for name in ("core", *(f"frameworks({environment})" for environment in TOGETHER)):
        session.notify(name, posargs=["--full", "-m", "full"])


@nox.session(tags=["full"])
@nox.parametrize("versions", [nox.param("lowest", id="lowest"), nox.param("latest", id="latest")])
@nox.parametrize(
    "framework", [nox.param(extra, id=extra, tags=_tags(_ADAPTERS[extra]["environment"])) for extra in ADAPTERS]
)
def adapter(session: nox.Session, framework: str, versions: str) -> None:
    """One adapter with its framework at the lowest version pyproject.toml allows, and at the latest; there its example too."""
    _install_adapter(session, framework, {"lowest": "lowest-direct", "latest": "highest"}[versions])
    more = ["--full", EXAMPLES] if versions == "latest" else [PAGES]
    session.run("pytest", "-n", "auto", *more, *_files(*ADAPTERS[framework], EVERYWHERE), *session.posargs)


def _install_adapter(session: nox.Session, framework: str, resolution: str) -> None:
    session.install("--resolution", resolution, "-e", f".[{framework}]")
    constraints = Path(session.create_tmp()) / "framework.txt"
    # What the tests need must not lift a framework from its lowest version; it may lower what both need.
    bounds = "\n".join(_frozen(session)).replace("==", "<=") if resolution == "lowest-direct" else ""
    constraints.write_text(bounds, encoding="utf-8")
    # deepagents asks for the newest langchain.
    peers = ["deepagents"] if (framework, resolution) == ("langchain", "highest") else []
    groups = nox.project.dependency_groups(PYPROJECT, "test", "provider", *groups_of(framework), *peers)
    session.install("--constraint", str(constraints), *groups)
    install_rank_files(session)


@nox.session(tags=["newest"])
@nox.parametrize("environment", [nox.param(name, id=name, tags=_tags(name)) for name in TOGETHER])
def newest(session: nox.Session, environment: str) -> None:
    """The adapters with the newest release of every framework, also where a package it asks for cannot be had: `nox -t newest`.

    `frameworks` has the newest that go with all the rest, which may be older ones than users have.
    """
    extras = TOGETHER[environment]
    install(session, "test", "provider", *groups_of(*extras), extras=",".join(extras))
    requirements = [one for extra in extras for one in PYPROJECT["project"]["optional-dependencies"][extra]]
    names = sorted({re.split(r"[^\w.-]", one)[0] for one in requirements})
    session.install("--upgrade", "--no-deps", "--prerelease", "disallow", *names)
    releases = [line for line in _frozen(session) if line.partition("==")[0] in names]
    for release in releases:
        try:
            session.install(release)
        except nox.command.CommandFailed:
            session.warn(f"{release}: a package it asks for cannot be had here; tried with the one that is")
    session.install("--no-deps", *releases)  # one that was tried in vain may have lowered another
    latest = Path(".nox", f"frameworks-{environment}")
    if latest.is_dir() and {*releases} <= {*_frozen(session, "--python", str(latest))}:
        session.log(f"The session frameworks({environment}) has the same releases: there are no newer ones to try.")
        return
    install_rank_files(session)
    files = _files(*(pattern for extra in extras for pattern in ADAPTERS[extra]), EVERYWHERE, PAGES)
    session.run("pytest", "-n", "auto", *files, *session.posargs)


def _frozen(session: nox.Session, *options: str) -> list[str]:
    """Return the packages that are installed, each as NAME==VERSION."""
    command = ("uv", "pip", "freeze", "--quiet", "--exclude-editable", *options)
    return str(session.run_install(*command, silent=True)).splitlines()


def _files(*patterns: str) -> list[str]:
    return sorted({str(path) for pattern in patterns for path in Path().glob(pattern)})


@nox.session(tags=["full"])
def servers(session: nox.Session) -> None:
    """The stores on real servers, which must be installed: it fails where redis or PostgreSQL is missing."""
    if missing := [package for program, package in SERVERS.items() if not _is_installed(program)]:
        session.error(f"first, as root: apt-get install {' '.join(missing)}")
    install(session, "test", "provider", *groups_of("redis", "postgres"), extras="redis,postgres")
    session.run("pytest", "--full", *_files(*ADAPTERS["redis"], *ADAPTERS["postgres"]), *session.posargs)


def _is_installed(program: str) -> bool:
    return bool(shutil.which(program) or list(Path("/usr/lib/postgresql").glob(f"*/bin/{program}")))


@nox.session(tags=["full"])
def browser(session: nox.Session) -> None:
    """Reports in a real headless Chromium, which must be installed: what they show, ask for and refuse, keyboard, widths, speed."""
    if missing := [package for program, package in BROWSER.items() if not _is_installed(program)]:
        session.error(f"first, as root: apt-get install {' '.join(missing)}")
    install(session, "test", "browser", extras="cli,report")
    session.run("pytest", "tests/browser", *session.posargs)


@nox.session(tags=["full"])
def proxy(session: nox.Session) -> None:
    """LiteLLM's callback in a real proxy process."""
    install(session, "test", "provider", extras="litellm")
    session.install("litellm[proxy]")
    session.run("pytest", "tests/adapters/test_litellm_proxy.py", *session.posargs)


@nox.session(tags=["full"])
def typing(session: nox.Session) -> None:
    """mypy and pyright, both strict: packages, tests, programs on the providers' clients and of README.md; mypy: those of docs/."""
    # The groups of pydantic-ai have a client of OpenAI that only very old versions of litellm take next to strands.
    groups = groups_of(*(extra for extra in ADAPTERS if extra != "pydantic-ai"))
    install(session, "test", "property", "typing", "provider", "browser", "deepagents", *groups, extras=EXTRAS)
    session.run("mypy")
    session.run("pyright")
    with tempfile.TemporaryDirectory() as folder:
        for number, program in enumerate(_programs(Path("README.md"))):
            # The frameworks' own types are unknown in part.
            mode = "# pyright: basic\n" if "compaction_adapters" in program else ""
            (Path(folder) / f"readme_{number}.py").write_text(mode + program, encoding="utf-8")
        session.run("mypy", folder)
        session.run("pyright", folder)
    with tempfile.TemporaryDirectory() as folder:
        for page in Path("docs").glob("*.md"):
            _write_programs(page, Path(folder))
        # Pages await at their top level, use a name again, and leave some names to the reader.
        codes = [f"--disable-error-code={code}" for code in ("top-level-await", "name-defined")]
        options = ("--config-file=", "--check-untyped-defs", "--ignore-missing-imports", "--allow-redefinition")
        session.run("mypy", *options, *codes, folder)


def _programs(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def _write_programs(page: Path, folder: Path) -> None:
    """Write the programs of a page as modules: those that begin with a file name into that file, the others into one."""
    programs: dict[str, str] = {}
    for program in _programs(page):
        named = re.match(r"# (\w+\.py)\n", program)
        name = named[1] if named else f"page_{page.stem.replace('-', '_')}.py"
        programs[name] = programs.get(name, "") + program
    for name, text in programs.items():
        (folder / name).write_text(text, encoding="utf-8")


@nox.session
def windows(session: nox.Session) -> None:
    """Write the table of models' windows anew, from the newest genai-prices."""
    session.install("--upgrade", "genai-prices", *nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("python", "-m", "tests.windows_table")
    session.run("ruff", "format", "--quiet", "compaction_hooks/tokens/known_windows.py")


@nox.session(tags=["full"])
def lint(session: nox.Session) -> None:
    """Rules and format; and that what the hosting service reads in .github/ is valid and safe, as far as that shows without it."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint", "workflows"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("zizmor", "--offline", "--quiet", "--persona", "pedantic", ".github")
    for kind, pattern in HOSTED.items():
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{kind}", *_files(f".github/{pattern}"))


@nox.session(tags=["full"])
def package(session: nox.Session) -> None:
    """The built wheel, installed outside the repository, holds every module, both py.typed files, and the files of a report."""
    with tempfile.TemporaryDirectory() as folder:
        outside, recorded = Path(folder), Path("examples/session.jsonl").resolve()
        wheel, _ = _build(session, outside)
        session.install(f"compaction-hooks[{EXTRAS}] @ {wheel.as_uri()}")
        session.install(*nox.project.dependency_groups(PYPROJECT, "test"))  # pytest, for its plugin
        with session.chdir(outside):
            session.run("python", "-I", "-c", IMPORT_EVERYTHING)
            session.run("compaction-hooks", "report", str(recorded), "--output", str(outside / "report.html"))


def _build(session: nox.Session, folder: Path) -> tuple[Path, Path]:
    """Build into a folder, and once more from the unpacked sdist, which must give the same bytes.

    Returns:
        The wheel, and the folder of the unpacked sdist.
    """
    built, again = folder / "dist", folder / "again"
    session.run("uv", "build", "--quiet", "--out-dir", str(built))
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    shutil.unpack_archive(sdist, folder)
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    session.run("uv", "build", "--quiet", "--out-dir", str(again), str(unpacked))
    for file in (wheel, sdist):
        if file.read_bytes() != (again / file.name).read_bytes():
            session.error(f"{file.name}: built again from the sdist, it has other bytes")
    return wheel, unpacked


@nox.session
def release(session: nox.Session) -> None:
    """The files of a release, in dist/, tried as users meet them; and its notes. `-- v1.2.3`: they must be those of this tag."""
    version, notes = _version_and_notes(session)
    if session.posargs not in ([], [f"v{version}"]):
        session.error(f"the version is {version}, which is not that of the tag {' '.join(session.posargs)}")
    if Path(".git").exists() and session.run("git", "status", "--porcelain", silent=True, external=True):
        session.error("a release has what is committed, and there is more here: see `git status`")
    with tempfile.TemporaryDirectory() as folder:
        wheel, unpacked = _build(session, Path(folder))
        session.install(*nox.project.dependency_groups(PYPROJECT, "release"))
        files = [wheel, wheel.parent / f"{unpacked.name}.tar.gz"]
        session.run("twine", "check", "--strict", *map(str, files))
        _try_wheel(session, Path(folder), wheel, version)
        with session.chdir(unpacked):
            session.run("bash", "-euo", "pipefail", "-c", _try_it(), external=True)
        shutil.rmtree("dist", ignore_errors=True)
        Path("dist").mkdir()
        for file in files:
            shutil.copy(file, "dist")
            session.log(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  dist/{file.name}")
    print(notes)


def _version_and_notes(session: nox.Session) -> tuple[str, str]:
    """Return the version and its entry in CHANGELOG.md, which must have a date."""
    code, changes = (Path(name).read_text("utf-8") for name in ("compaction_hooks/__init__.py", "CHANGELOG.md"))
    version = re.findall(r'^__version__ = "(.+)"$', code, re.MULTILINE)[0]
    heading = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n"
    notes = re.findall(rf"{heading}(.*?)(?=^## |\Z)", changes, re.DOTALL | re.MULTILINE)
    if not notes:
        session.error(f"{version} has no date in CHANGELOG.md: a release has one, as CONTRIBUTING.md says")
    return version, notes[0].strip()


def _try_wheel(session: nox.Session, outside: Path, wheel: Path, version: str) -> None:
    """Install the wheel into an empty environment: nothing comes with it, and a program of README.md runs; then the command."""
    recorded, scripts = Path("examples/session.jsonl").resolve(), outside / "environment" / "bin"
    python, command = str(scripts / "python"), str(scripts / "compaction-hooks")
    # The program in README.md that needs no client of a provider.
    (program,) = (program for program in _programs(Path("README.md")) if "openai" not in program)
    session.run("uv", "venv", "--quiet", "--python", THIS_PYTHON, str(scripts.parent))
    session.run("uv", "pip", "install", "--quiet", "--python", python, str(wheel))
    installed = str(session.run("uv", "pip", "freeze", "--quiet", "--python", python, silent=True)).splitlines()
    if len(installed) != 1:
        session.error(f"more than the wheel is installed: {installed}")
    with session.chdir(outside):
        session.run(python, "-I", "-c", program, external=True)
        session.run("uv", "pip", "install", "--quiet", "--python", python, f"compaction-hooks[cli] @ {wheel.as_uri()}")
        if session.run(command, "--version", silent=True, external=True) != f"compaction-hooks {version}\n":
            session.error(f"the installed command is not of version {version}")
        session.run(command, "replay", str(recorded), "--window", "16k", silent=True, external=True)


def _try_it() -> str:
    """Return the line under README.md's heading "Try it", word for word."""
    section = Path("README.md").read_text("utf-8").partition("## Try it\n")[2]
    return str(re.findall(r"^```\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[0])


@nox.session(tags=["full"])
def docs(session: nox.Session) -> None:
    """The site of docs/, built anew into .site/ without a warning: it has every page and every public name."""
    install(session, "test", "docs")
    shutil.rmtree(".site", ignore_errors=True)
    session.run("zensical", "build", "--clean", "--strict", "--config-file", ".mkdocs.yml")
    session.run("pytest", "tests/docs/test_site.py", "tests/site", *session.posargs)


@nox.session
def benchmark(session: nox.Session) -> None:
    """The figures of docs/: time and money next to peers, estimates, summaries, stable prefixes; time next to clients, with guards.

    `-- --quick`: time alone, and with a shorter history.
    """
    install(session, "test", "benchmark")
    install_rank_files(session)
    environments = Path(session.create_tmp()) / "peers"
    for group in PYPROJECT["dependency-groups"]:
        if group.startswith("peer-"):
            _make_environment(session, environments / group.removeprefix("peer-"), group)
    session.run("python", "-m", "tests.benchmarks.runner", "--environments", str(environments), *session.posargs)
    if "--quick" not in session.posargs:
        for module in ("estimates", "probes", "recall", "money.stability"):
            session.run("python", "-m", f"tests.benchmarks.{module}")
        session.run("python", "-m", "tests.benchmarks.money", "--environments", str(environments))
    session.run("python", "-m", "tests.benchmarks.share")  # last, since it fails if a guard is broken


def _make_environment(session: nox.Session, folder: Path, group: str) -> None:
    """An environment beside the session's own, for what excludes the others; where a package cannot be had, without it."""
    session.run("uv", "venv", "--quiet", "--allow-existing", "--python", THIS_PYTHON, str(folder))
    requirements = nox.project.dependency_groups(PYPROJECT, group)
    python = str(folder / "bin" / "python")
    session.run("uv", "pip", "install", "--quiet", "--python", python, *requirements, success_codes=range(256))


@nox.session
def judge(session: nox.Session) -> None:
    """A small language model judges summaries: `-- bits FOLDER --gguf MODEL.gguf`. Hours on two cores; see docs/judged.md."""
    install(session, "test", "judge")
    install_rank_files(session)
    session.run("python", "-m", "tests.benchmarks.judge", *session.posargs)


@nox.session
def real_model(session: nox.Session) -> None:
    """A real small model in llama.cpp's server talks through several windows: `-- --gguf MODEL.gguf`; see docs/real-model.md."""
    install(session, "real-model", extras="openai")
    session.run("python", "-m", "tests.benchmarks.real_model", *session.posargs)


@nox.session(tags=["full"])
def soak(session: nox.Session) -> None:
    """Every recorded conversation at every window, 10,000 generated ones, 64 at once; the same with reasoning that providers bind
    to what is before it, and with their own summaries. Long; the recorded ones are those of ../shared/data, or the public ones.
    """
    install(session, "test", "property", "soak")
    session.run("pytest", "tests/soak", "-n", "auto", "--dist", "worksteal", *session.posargs)


@nox.session
@nox.parametrize("part", [nox.param(part, id=part) for part in ("core", *ADAPTERS)])
def coverage(session: nox.Session, part: str) -> None:
    """Which branches of the installed package the tests run, environment by environment; then the table of all."""
    with tempfile.TemporaryDirectory() as folder:
        session.run("uv", "build", "--quiet", "--wheel", "--out-dir", folder)
        (wheel,) = Path(folder).glob("*.whl")
        extras = "cli,report,tiktoken" if part == "core" else part
        session.install(f"compaction-hooks[{extras}] @ {wheel.as_uri()}")
        own = ["property", "clients"] if part == "core" else groups_of(part)
        peers = ["deepagents"] if part == "langchain" else []
        session.install(*nox.project.dependency_groups(PYPROJECT, "test", "coverage", "provider", *own, *peers))
        install_rank_files(session)
        # Beside the tests there must be no package of the checkout, or it would be imported instead of the installed one.
        outside = _copied(Path(folder), "tests", "examples", "docs")
        not_here = ("adapters", "test_architecture.py", "docs/test_example_session.py", "docs/test_site.py")
        files = [f"--ignore=tests/{name}" for name in not_here] if part == "core" else _files(*ADAPTERS[part])
        with session.chdir(outside):
            session.run("pytest", "-n", "auto", "--cov", "--cov-report=", *files, *session.posargs)
        shutil.copy(outside / ".coverage", f".coverage.{part}")
    session.notify("coverage_report")


@nox.session
def coverage_report(session: nox.Session) -> None:
    """The table of what `coverage` measured; fails below 95 % of the branches."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "coverage"))
    session.run("coverage", "combine", "--keep", "--data-file=.coverage", *_files(".coverage.*"))
    session.run("coverage", "report")
    figures = Path(session.create_tmp()) / "figures.json"
    session.run("coverage", "json", "--quiet", "-o", str(figures))
    totals = json.loads(figures.read_text(encoding="utf-8"))["totals"]
    ratio = totals["covered_branches"] / totals["num_branches"]
    session.log(f"{totals['covered_branches']:,} of {totals['num_branches']:,} branches: {ratio:.1%}")
    if ratio < LEAST_COVERED:
        session.error(f"below {LEAST_COVERED:.0%}")


@nox.session
def mutation(session: nox.Session) -> None:
    """Changes retention, views, record and overflow in thousands of small ways, and counts what the tests notice."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "test", "mutation"))
    with tempfile.TemporaryDirectory() as folder, session.chdir(_copied(Path(folder), "compaction_hooks", "tests")):
        Path("shared").symlink_to("../shared")  # the tests run one folder deeper, in `mutants`
        session.run("mutmut", "run", *session.posargs)
        results = str(session.run("mutmut", "results", "--all", "true", silent=True))
    counts: dict[str, Counter[str]] = {}
    for name, outcome in re.findall(r"^\s*compaction_hooks\.(\S+)\.x\S+: (.+)$", results, re.MULTILINE):
        counts.setdefault(name, Counter())[outcome] += 1
    for name, found in counts.items():
        del found["not checked"]  # where only a part was asked for
        noticed, all_of_them = found["killed"] + found["timeout"], found.total()
        if all_of_them:
            session.log(f"{name}: {noticed} of {all_of_them} changes noticed, {noticed / all_of_them:.0%}")


def _copied(folder: Path, *parts: str) -> Path:
    """A copy of these folders and of the files beside them, with the recorded data where the tests look for it."""
    copy = folder / "checkout"
    for part in parts:
        shutil.copytree(part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "noxfile.py"):
        shutil.copy(name, copy)
    if Path("../shared").is_dir():
        (folder / "shared").symlink_to(Path("../shared").resolve())
    return copy
