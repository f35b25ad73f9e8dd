"""Any message of any format of the core, however odd: properties."""

from copy import deepcopy
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_hooks.errors import FormatError
from compaction_hooks.messages import ToolResult
from tests.formats.samples import FORMATS, samples

each_format = pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)
any_text = st.text(st.characters(exclude_categories=()))  # half surrogates and NUL included
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=12,
)


@each_format
@given(data=st.data())
@settings(deadline=None)
def test_a_damaged_message_is_read_or_refused(format_: Any, data: st.DataObject) -> None:
    message = deepcopy(data.draw(st.sampled_from(samples(format_.name))))
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(places(message)))
        holder[key] = data.draw(any_json)
    before = repr(message)
    try:
        pieces = format_.read(message)
    except FormatError:
        return
    assert repr(message) == before
    for index, piece in enumerate(pieces):
        assert all(isinstance(part, ToolResult) == (piece.role == "tool") for part in piece.parts)
        assert piece.role == "assistant" or not piece.calls
        assert format_.read(format_.take(message, [index])) == (piece,)


def places(node: Any) -> list[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [(node, key) for key in keys] + [place for key in keys for place in places(node[key])]
