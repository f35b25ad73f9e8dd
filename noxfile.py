"""The sessions that check this project: `nox` runs the fast suite, `nox -l` lists all of them.

Needs uv beside nox (`pip install nox uv`): it makes the environments, and resolves the lowest versions pyproject.toml allows.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nox

PYPROJECT = nox.project.load_toml("pyproject.toml")
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHONS = sorted({*nox.project.python_versions(PYPROJECT), THIS_PYTHON})
EXTRAS = "langgraph,langchain,pydantic-ai,tinyagent,litellm,tiktoken,cli"
"""What the code of this repository imports; the other extras are names kept for what is to come."""

ADAPTERS = {
    "langgraph": ("tests/adapters/test_langchain_core*.py", "tests/adapters/test_langgraph*.py"),
    "langchain": ("tests/adapters/test_langchain.py", "tests/adapters/test_langchain_[!c]*.py"),
    "pydantic-ai": ("tests/adapters/test_pydantic_ai*.py",),
    "litellm": ("tests/adapters/test_litellm*.py",),
    "tinyagent": ("tests/adapters/test_tinyagent*.py", "tests/test_example_session.py"),
}
"""By extra: the test files that need its framework. Each runs in environments of its own, since frameworks exclude one another:
litellm and pydantic-ai's openai extra ask for different openai clients. What the tests need beside the extra stands in the
dependency group named after it."""

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

# As pip does: a certificate the machine trusts, such as a company's, is one uv trusts.
os.environ.setdefault("UV_SYSTEM_CERTS", "1")

nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.sessions = [f"tests-{THIS_PYTHON}", "properties", "cli", "provider", "adapter", "proxy", "recorded"]


def install(session: nox.Session, *groups: str, extras: str = "") -> None:
    """Install the project from this checkout with these extras, and the dependency groups."""
    project = f".[{extras}]" if extras else "."
    session.install("-e", project, *nox.project.dependency_groups(PYPROJECT, *groups))


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The core stands alone: its tests, with nothing installed but pytest."""
    install(session, "test")
    session.run("pytest", "--ignore=tests/adapters", *session.posargs)
    session.run("pytest", "--doctest-modules", "compaction_hooks", "--doctest-ignore-import-errors")


@nox.session
def properties(session: nox.Session) -> None:
    """What must always hold, on generated conversations."""
    install(session, "test", "property")
    session.run("pytest", *map(str, sorted(Path("tests").rglob("test_*_properties.py"))), *session.posargs)


@nox.session
def cli(session: nox.Session) -> None:
    """The replay command, with its command-line and table libraries."""
    install(session, "test", extras="cli")
    session.run("pytest", "tests/replay", *session.posargs)


@nox.session
@nox.parametrize("versions", [nox.param("lowest", id="lowest"), nox.param("latest", id="latest")])
@nox.parametrize("framework", [nox.param(extra, id=extra) for extra in ADAPTERS])
def adapter(session: nox.Session, framework: str, versions: str) -> None:
    """One adapter with its framework at the lowest version pyproject.toml allows, and at the latest; there its example too."""
    resolution = {"lowest": "lowest-direct", "latest": "highest"}[versions]
    session.install("--resolution", resolution, "-e", f".[{framework}]")
    constraints = Path(session.create_tmp()) / "framework.txt"
    frozen = session.run("uv", "pip", "freeze", "--quiet", "--exclude-editable", silent=True)
    # What the tests need must not lift a framework from its lowest version.
    constraints.write_text(str(frozen) if versions == "lowest" else "", encoding="utf-8")
    # deepagents asks for the newest langchain.
    peers = ["deepagents"] if (framework, versions) == ("langchain", "latest") else []
    groups = nox.project.dependency_groups(PYPROJECT, "test", "provider", f"{framework}-tests", *peers)
    session.install("--constraint", str(constraints), *groups)
    session.install("--no-deps", "litellm")  # for the tokenizer's rank files in its wheel
    files = _files(*ADAPTERS[framework], "tests/adapters/test_readme_snippets.py")
    session.run("pytest", "-n", "auto", *files, *session.posargs)
    if versions == "latest":
        for example in _files(f"examples/{framework.replace('-', '_')}_*.py"):
            session.run("python", example)


def _files(*patterns: str) -> list[str]:
    return sorted(str(path) for pattern in patterns for path in Path().glob(pattern))


@nox.session
def provider(session: nox.Session) -> None:
    """The tests' loopback provider, the kit for adapters on a plain loop, and errors of the providers' own clients."""
    install(session, "test", "provider", "clients")
    session.install("--no-deps", "litellm")
    files = ("tests/provider", "tests/testing", "tests/adapters/test_overflow_clients.py")
    session.run("pytest", "-n", "auto", *files, *session.posargs)


@nox.session
def proxy(session: nox.Session) -> None:
    """LiteLLM's callback in a real proxy process."""
    install(session, "test", "provider", extras="litellm")
    session.install("litellm[proxy]")
    session.run("pytest", "tests/adapters/test_litellm_proxy.py", *session.posargs)


@nox.session
def recorded(session: nox.Session) -> None:
    """A sample of the recorded conversations, measured with a real tokenizer; skips where ../shared/data is not."""
    install(session, "test", extras="tiktoken")
    session.install("--no-deps", "litellm")  # for the rank files in its wheel; it is never imported
    session.run("pytest", "tests/soak", "tests/test_tokens.py", "-k", "sample or recorded or real", *session.posargs)


@nox.session
def typing(session: nox.Session) -> None:
    """mypy and pyright, both strict."""
    groups = [f"{extra}-tests" for extra in ADAPTERS if extra != "pydantic-ai"]  # its openai client is not litellm's
    install(session, "test", "property", "typing", "provider", "deepagents", *groups, extras=EXTRAS)
    session.run("mypy")
    session.run("pyright")


@nox.session
def lint(session: nox.Session) -> None:
    """Rules and format."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def package(session: nox.Session) -> None:
    """The built wheel, installed outside the repository, holds every module and both py.typed files."""
    with tempfile.TemporaryDirectory() as folder:
        outside = Path(folder)
        session.run("uv", "build", "--quiet", "--out-dir", folder)
        (wheel,) = outside.glob("*.whl")
        session.install(f"compaction-hooks[{EXTRAS}] @ {wheel.as_uri()}")
        with session.chdir(outside):
            session.run("python", "-I", "-c", IMPORT_EVERYTHING)


@nox.session
def benchmark(session: nox.Session) -> None:
    """How fast, and how good the summaries are. Prints tables; needs ../shared/data for most of them."""
    install(session, "test", "soak")
    session.run("pytest", "-s", *map(str, sorted(Path("tests/benchmarks").glob("bench_*.py"))), *session.posargs)
    session.run("python", "-m", "tests.benchmarks.probes")


@nox.session
def soak(session: nox.Session) -> None:
    """Every recorded conversation at every window, measured with a real tokenizer. Long; needs ../shared/data."""
    install(session, "test", "property", "soak")
    session.run("pytest", "tests/soak", "-s", *session.posargs)
