"""How the loopback provider counts, with a tokenizer and without."""

from __future__ import annotations

import pytest

from compaction_hooks.testing import long_script
from tests.provider import counting
from tests.provider.counting import cached_tokens, count, count_pieces, pieces_of, tokenizer
from tests.token_accuracy import real_tokenizer

USER = {"role": "user", "content": "How is the weather in Paris?"}
LISTING = "\n".join(result for _, result in long_script(2).calls)


def test_word_pieces_are_near_a_real_tokenizer() -> None:
    real = real_tokenizer("cl100k_base")
    assert count_pieces(LISTING) == pytest.approx(real.estimate_tokens(LISTING), rel=0.1)
    assert tokenizer()("How is the weather?") == real.estimate_tokens("How is the weather?")


def test_word_pieces_are_counted_where_there_is_no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        name = "characters"

    tokenizer.cache_clear()
    monkeypatch.setattr(counting, "TiktokenEstimator", lambda _: Missing())
    assert tokenizer() is count_pieces
    tokenizer.cache_clear()


def test_everything_a_model_reads_counts() -> None:
    call = {"id": "c", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    asking = {"role": "assistant", "content": None, "tool_calls": [call]}
    blocks = [
        {"type": "text", "text": "Look."},
        {"type": "tool_use", "id": "c", "name": "weather", "input": {"city": "Paris"}},
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "sunny"}]},
        {"type": "thinking", "thinking": "Where is Paris?"},
    ]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    sizes = [
        count(pieces_of(None, "", [])),
        count(pieces_of(None, "", [USER])),
        count(pieces_of(None, "Be brief.", [USER])),
        count(pieces_of([{"name": "weather"}], "Be brief.", [USER])),
        count(pieces_of([{"name": "weather"}], "Be brief.", [USER, asking])),
        *(
            count(
                pieces_of([{"name": "weather"}], "Be brief.", [USER, asking, {"role": "user", "content": blocks[:n]}])
            )
            for n in range(5)
        ),
    ]
    assert sizes[0] == 0
    assert sizes == sorted(set(sizes))
    with_image = count(pieces_of(None, "", [{"role": "user", "content": [image]}]))
    assert 765 < with_image < 790


def test_a_cache_reads_the_longest_common_prefix_in_whole_blocks() -> None:
    one, two, three = (f"{word} " * 1_000 for word in ("red", "green", "blue"))
    earlier = [
        pieces_of(None, "", [{"role": "user", "content": text} for text in (one, *rest)]) for rest in ([two], [])
    ]
    now = pieces_of(None, "", [{"role": "user", "content": text} for text in (one, two, three)])
    cached = cached_tokens(now, earlier)
    assert cached % 128 == 0
    assert count(earlier[0]) - 128 < cached <= count(earlier[0])
    assert cached_tokens(now, []) == 0
    assert cached_tokens(pieces_of(None, "", [USER]), [pieces_of(None, "", [USER])]) == 0  # below 1024 tokens
    assert cached_tokens(now, [pieces_of(["other tools"], "", [])]) == 0
