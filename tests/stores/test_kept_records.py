"""Records that 0.2.0 wrote: each later version reads them, and makes the same views of them."""

import json
from collections.abc import Mapping
from typing import Any

from compaction_hooks import CompactionRecord
from tests.cases import folded
from tests.kept_records import FOLDER, view_of

CASES = json.loads((FOLDER / "0.2.0.json").read_text(encoding="utf-8"))


@folded("name, case", {name: (name, case) for name, case in CASES.items()})
def test_records_of_0_2_0_are_read_whole_and_give_the_view_that_it_made(name: str, case: Mapping[str, Any]) -> None:
    (records,) = case["folders"].values()
    for text in records.values():
        assert CompactionRecord.from_json(text).to_dict().items() >= json.loads(text).items()
    assert view_of(name, case["model"], case["messages"], case["folders"]) == case["view"]
