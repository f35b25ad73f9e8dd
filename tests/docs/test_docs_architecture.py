"""docs/architecture.md is true of the code: its rooms, its nouns in code, the modules and functions of its trace."""

import re
from pathlib import Path

from tests.test_architecture import ROW_OF

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    return TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(heading: str) -> list[list[str]]:
    lines = re.findall(r"^\| (.*) \|$", section(heading), re.MULTILINE)
    return [re.split(r" \| ", line) for line in lines[1:]]


def test_every_room_is_told() -> None:
    told = {name for first, *_ in rows("The rooms") for name in re.findall(r"`(\w+)`", first)}
    assert told == set(ROW_OF) - {"__init__", "__main__"}


def test_the_picture_has_no_arrow_upwards() -> None:
    rooms = {
        name: text.split(":")[0].split(" · ")[0]
        for name, text in re.findall(r'(\w+)\["([^"]*)"\]', section("The rooms"))
    }
    arrows = re.findall(r"^    (\w+).*?-->(?:\|.*?\|)? (\w+)", section("The rooms"), re.MULTILINE)
    assert len(arrows) > 10
    assert not [(one, other) for one, other in arrows if ROW_OF[rooms.get(one, one)] < ROW_OF[rooms.get(other, other)]]


def test_there_are_thirteen_nouns() -> None:
    assert len(rows("Thirteen nouns")) == 13


def test_the_glossary_is_in_order() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| ([a-z][a-z ]+) \|", glossary, re.MULTILINE)[1:]
    assert len(words) > 30
    assert words == sorted({*words})


def test_every_step_of_the_trace_is_in_its_module() -> None:
    steps = re.findall(
        r"^ *([\w.]+)\(.*?\)(?: -> \w+)? {2,}([\w/.]+)", section("One call") + section("One compaction"), re.MULTILINE
    )
    assert len(steps) == 9 + 7
    for called, place in steps:
        path = ROOT / "compaction_hooks" / place
        code = "".join(
            module.read_text(encoding="utf-8") for module in (path.glob("*.py") if path.is_dir() else [path])
        )
        assert f"def {called.rpartition('.')[2]}(" in code, (called, place)


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py|[\w/]+/)`", section("Where do I add ..."))
    assert len(named) > 10
    places = (ROOT, ROOT / "compaction_hooks")
    assert not [name for name in named if not any((place / name).exists() for place in places)]


def test_every_room_that_a_feature_touches_is_named() -> None:
    core = ROOT / "compaction_hooks"
    modules = {path: path.relative_to(core).parts[0].removesuffix(".py") for path in core.rglob("*.py")}
    texts = [(room, path.read_text(encoding="utf-8")) for path, room in modules.items()]
    for feature, word, begin, rooms in rows("What each feature touches"):
        found = {room for room, text in texts if re.search(word.strip("`"), text, re.IGNORECASE)}
        assert (feature, " ".join(sorted(found - {"__init__", "command", "replay", "testing"}))) == (feature, rooms)
        assert (core / begin.strip("`")).exists()
