import pytest

from compaction_hooks.command.plot import ASCII, HEIGHT_ROWS, Ink, columns, plot, upper_edge

WITHOUT = [2_000, 6_000, 9_000, 12_000, 15_000, 40_000]
SENT = [2_000, 6_000, 3_000, 6_000, 3_000, 5_000]


def test_a_plot_shows_both_curves_the_lines_and_the_compactions() -> None:
    drawn = columns(WITHOUT, SENT, frozenset({2, 4}), width=12)
    labels = [(8_000, "window"), (7_000, "trigger"), (upper_edge(drawn, 8_000), "top")]
    rows = plot(drawn, window=8_000, trigger=7_000, labels=labels, glyphs=ASCII)
    assert ["".join(text for text, _ in row) for row in rows] == [
        "    top|        ||||",
        "                    ",
        "              oo    ",
        "                    ",
        "            oo      ",
        " window|============",
        "trigger|------------",
        "          ##  ##  ##",
        "          ##  ##  ##",
        "          ##########",
        "        ############",
        "        ############",
        "      0+----^---^---",
    ]


@pytest.mark.parametrize("width", [1, 5, 6, 7, 30, 48, 49, 200])
def test_every_compaction_is_marked_once_and_nothing_is_wider_than_asked(width: int) -> None:
    drawn = columns(WITHOUT, SENT, frozenset({2, 4}), width)
    assert len(drawn) == min(width, 48)
    assert sum(column.has_compaction for column in drawn) == min(2, width)
    assert max(column.without for column in drawn) == 40_000


def test_calls_that_share_a_column_show_their_largest() -> None:
    (left, right) = columns(WITHOUT, SENT, frozenset({1}), 2)
    assert (left.sent, left.without, left.has_compaction) == (6_000, 9_000, True)
    assert (right.sent, right.without, right.has_compaction) == (6_000, 40_000, False)


def test_no_call_gives_an_empty_plot() -> None:
    rows = plot(columns([], [], frozenset(), 10), window=100, trigger=80, labels=[(100, "w")], glyphs=ASCII)
    assert len(rows) == HEIGHT_ROWS + 1
    assert not [ink for row in rows for _, ink in row if ink is not Ink.LABEL]
