from __future__ import annotations

import subprocess
import sys

import pytest

from compaction_hooks.replay.__main__ import main


@pytest.mark.parametrize("package", ["rich", "typer"])
def test_without_the_extra_it_says_how_to_install_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "compaction_hooks.replay.cli", raising=False)
    monkeypatch.delitem(sys.modules, "compaction_hooks.replay.report", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["replay", "session.jsonl"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: compaction-hooks replay needs rich and typer: pip install 'compaction-hooks[cli]'\n"


def test_a_module_of_our_own_that_is_missing_is_not_blamed_on_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compaction_hooks.replay.cli", None)
    with pytest.raises(ModuleNotFoundError, match=r"replay\.cli"):
        main(["replay", "session.jsonl"])


def test_the_package_can_be_run_as_a_module() -> None:
    script = "import sys, runpy; sys.modules['typer'] = None; runpy.run_module('compaction_hooks.replay', run_name='__main__')"
    run = subprocess.run([sys.executable, "-c", script, "x"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr.endswith("pip install 'compaction-hooks[cli]'\n")
