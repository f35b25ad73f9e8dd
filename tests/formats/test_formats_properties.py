"""Any message of any format of the core, however odd: properties."""

from copy import deepcopy
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

from compaction_hooks.errors import FormatError
from compaction_hooks.messages import ToolResult
from tests.formats.plain import FORMATS, WRITERS, check_plain, samples

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
        assert format_.read_plain(message) is None
        return
    assert repr(message) == before
    check_plain(format_, message)
    for index, piece in enumerate(pieces):
        assert all(isinstance(part, ToolResult) == (piece.role == "tool") for part in piece.parts)
        assert piece.role == "assistant" or not piece.calls
        assert format_.read(format_.take(message, [index])) == (piece,)


an_id = any_text.filter(bool)
a_call = st.tuples(an_id, any_text, st.dictionaries(any_text, any_json, max_size=3))


@each_format
@given(
    words=st.lists(any_text, max_size=3),
    calls=st.lists(a_call, max_size=3),
    result=st.none() | st.tuples(an_id, an_id, an_id),
)
@settings(deadline=None)
def test_the_texts_of_a_plain_message_are_those_of_its_reading_and_bound_it(
    format_: Any, words: list[str], calls: list[Any], result: Any
) -> None:
    message = WRITERS[format_.name](words, calls, result)
    assert check_plain(format_, message)
    assert format_.read_plain({**message, "x_note": ""}) is None
    assert format_.read_plain({**message, "usage": {"input_tokens": 7}}) is None


@each_format
def test_a_sample_with_a_mark_or_a_signature_is_not_plain(format_: Any) -> None:
    plain = [repr(sample) for sample in samples(format_.name) if check_plain(format_, sample)]
    assert plain
    assert not [sample for sample in plain for name in ("cache", "ignature", "x_", "citations") if name in sample]


def places(node: Any) -> list[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [(node, key) for key in keys] + [place for key in keys for place in places(node[key])]
