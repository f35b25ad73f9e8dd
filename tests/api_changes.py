"""Public names and signatures compared with those of the newest release. Run by `nox -s api`; exits with 1 if one is broken.

A release is a dated version of the changelog, and its tag. Before the first one the checkout is compared with its last commit, so
that at least the comparison runs.
"""

import ast
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import griffe

from tests.deprecations import Deprecation, declared_in, numbers
from tests.surface import public_modules

PACKAGES = {"compaction_hooks": ".", "compaction_adapters": "adapters"}
"""The folder that has each package."""
ALLOWED = (griffe.ParameterChangedDefaultBreakage, griffe.AttributeChangedValueBreakage)
"""A minor version may change a default."""


class Surface:
    """The public names of a checkout, and its deprecations."""

    def __init__(self, checkout: Path) -> None:
        self.version = read_version(checkout)
        folders = [checkout / folder for folder in PACKAGES.values()]
        loader = griffe.GriffeLoader(search_paths=folders, allow_inspection=False)
        # A relative path would be of the checkout in which this runs.
        self.packages: list[Any] = [loader.load(package, try_relative_path=False) for package in PACKAGES]
        loader.resolve_aliases(external=False)
        self.modules = {module.path: module for package in self.packages for module in _modules(package)}
        self.public = public_modules(checkout)
        for path, module in self.modules.items():
            module.public = path in self.public
        self.deprecations = dict[str, Deprecation]()
        for path, module in self.modules.items():
            source = ast.parse(module.filepath.read_text(encoding="utf-8"))
            self.deprecations |= {one.name: one for one in declared_in(path, source)}


def _modules(module: Any) -> Iterator[Any]:
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from _modules(inner)


def changes(before: Surface, now: Surface) -> list[str]:
    """Return what a program that uses public names of `before` no longer finds, without a deprecation that has run out."""
    return sorted({*_broken(before, now), *_no_longer_public(before, now), *_cut_short(before, now)})


def _broken(before: Surface, now: Surface) -> Iterator[str]:
    ended = {name for name, one in before.deprecations.items() if numbers(one.gone_in) <= now.version}
    renamed = {f"{name.partition('(')[0]}({one.instead})" for name, one in now.deprecations.items() if "(" in name}
    for old, new in zip(before.packages, now.packages, strict=True):
        for found in griffe.find_breaking_changes(old, new):
            # A new argument may be required that is given by its old name.
            is_added = isinstance(found, griffe.ParameterAddedRequiredBreakage)
            names = _names(found)
            if not isinstance(found, ALLOWED) and not names & {
                *ended,
                *now.deprecations,
                *(renamed if is_added else ()),
            }:
                yield f"{min(names)}: {found.kind.value}"


def _names(found: griffe.Breakage) -> set[str]:
    """Return what is broken as deprecations name it, by the place of its definition and by that of its import."""
    parameters = [each for each in (found.old_value, found.new_value) if isinstance(each, griffe.Parameter)]
    paths = {found.obj.path, found.obj.canonical_path}
    return {f"{path.removesuffix('.__init__')}({parameters[0].name})" for path in paths} if parameters else paths


def _no_longer_public(before: Surface, now: Surface) -> Iterator[str]:
    """Yield what is still there, and is not promised any more; the rest of what is gone is broken."""
    for path in (before.public - now.public) & now.modules.keys():
        yield f"{path}: no longer a public module"
    for path in before.public & now.public:
        new = now.modules[path]
        for name in {*before.modules[path].exports} - {*new.exports}:
            if name in new.members:
                yield f"{path}.{name}: no longer in __all__"


def _cut_short(before: Surface, now: Surface) -> Iterator[str]:
    for name, one in before.deprecations.items():
        if name not in now.deprecations and numbers(one.gone_in) > now.version:
            yield f"{name}: promised to work until {one.gone_in}"


def read_version(checkout: Path) -> tuple[int, ...]:
    """Return the version that a checkout makes."""
    text = (checkout / "compaction_hooks" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(\d+\.\d+\.\d+)', text, re.MULTILINE)
    return numbers(version)


def find_release(checkout: Path) -> str | None:
    """Return the tag of the newest release before the version that is being made, by the changelog; None without one."""
    changelog = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    dated = re.findall(r"^## (\d+\.\d+\.\d+) - \d", changelog, re.MULTILINE)
    earlier = [version for version in dated if numbers(version) < read_version(checkout)]
    return f"v{max(earlier, key=numbers)}" if earlier else None


def compare(checkout: Path) -> tuple[str, list[str]]:
    """Return what a checkout was compared with, and its broken promises.

    Raises:
        SystemExit: this clone lacks the tag of the newest release, as one of the last commit alone does.
    """
    release = find_release(checkout)
    command = ["git", "archive", "--format=tar", release or "HEAD", "compaction_hooks", "adapters", "docs"]
    packed = subprocess.run(command, cwd=checkout, capture_output=True, check=False)
    if packed.returncode and release:
        raise SystemExit(f"the release cannot be read (git fetch --tags?): {packed.stderr.decode().strip()}")
    if packed.returncode:
        return "nothing: there is no release yet, and no commit", []
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        found = changes(Surface(Path(folder)), Surface(checkout))
    return release or "the last commit, as there is no release yet", found


def main() -> None:
    """Compare this checkout."""
    reference, found = compare(Path(__file__).resolve().parents[1])
    print(f"Public names, compared with {reference}:", "all work as before" if not found else "")
    for line in found:
        print(f"- {line}")
    if found:
        print(
            "Let each work for two more minor versions, with a warning of compaction_hooks/deprecation.py: docs/versions.md"
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
