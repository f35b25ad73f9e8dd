"""Records that a released version wrote: each later version reads them, and makes the same views of them."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compaction_hooks import CompactionRecord
from compaction_hooks.stores import KeyValueStore, SQLiteStore
from tests.cases import folded
from tests.kept_records import FOLDER, Folders, view_of

KEPT = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
CASES = {f"{name} of {version}": case for version, kept in KEPT.items() for name, case in kept["cases"].items()}


@folded("case", CASES)
def test_kept_records_give_the_view_that_their_version_made(case: Mapping[str, Any]) -> None:
    assert view_of(case) == case["view"]


@folded("case", CASES)
def test_a_record_is_written_again_with_all_that_it_had(case: Mapping[str, Any]) -> None:
    for record in case["records"]:
        assert CompactionRecord.from_dict(record).to_dict().items() >= record.items()


@pytest.mark.parametrize("version", KEPT)
def test_a_kept_database_gives_the_same_views(version: str, tmp_path: Path) -> None:
    shutil.copy(FOLDER / f"{version}.sqlite3", tmp_path / "records.sqlite3")
    with SQLiteStore(tmp_path / "records.sqlite3") as store:
        views = {name: view_of(case, store, name) for name, case in KEPT[version]["cases"].items()}
    assert views == {name: case["view"] for name, case in KEPT[version]["cases"].items()}


@pytest.mark.parametrize("version", KEPT)
def test_records_are_found_under_the_keys_of_their_version(version: str) -> None:
    case, store = KEPT[version]["cases"]["by rule"], KeyValueStore(Folders(KEPT[version]["folders"]))
    assert [view_of(case, store, id) for id in KEPT[version]["ids"]] == [case["view"]] * 2


def test_the_records_of_every_release_are_kept() -> None:
    changelog = (FOLDER.parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.0) - \d", changelog, re.MULTILINE)
    assert {*released} <= {*KEPT}
