"""`CompactionSettings(merge_user_messages=True)`: no view has two user messages in a row."""

import copy
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest

from compaction_hooks import CompactionController, CompactionSettings, project
from compaction_hooks.errors import ConfigurationError
from compaction_hooks.formats import AnthropicFormat, BedrockConverseFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import MessageFormat, Usage
from compaction_hooks.tokens import CharacterEstimator
from tests.conversations import Scripted, assistant, steps, system, talk, user

WINDOW = 8_192
FORMATS: list[Any] = [OpenAIChatFormat, AnthropicFormat, OpenAIResponsesFormat]


def hooks_for(*, merges: bool = True, **keywords: Any) -> CompactionController[Any]:
    settings = CompactionSettings(merge_user_messages=merges, identifier_tokens=0, keep_user_tokens=0)
    return CompactionController[Any](context_window=WINDOW, settings=settings, summarizer=Scripted(), **keywords)


def text_of(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def rows(view: Sequence[Any]) -> int:
    """Return how often a user message follows another."""
    return sum(one["role"] == other["role"] == "user" for one, other in pairwise(view))


@pytest.mark.parametrize("form", FORMATS)
def test_the_summary_a_pin_and_the_next_request_are_one_message(form: Any) -> None:
    messages = talk(20)
    before = copy.deepcopy(messages)
    views = []
    for merges in (False, True):
        hooks = hooks_for(merges=merges, format=form())
        hooks.pin(messages[2])
        views.append(hooks.transform_context_sync(messages))
    apart, merged = views
    assert rows(apart) == 2
    assert rows(merged) == 0
    assert len(merged) == len(apart) - 2
    assert merged[1:] == apart[3:]
    places = [text_of(merged[0]).index(text_of(message)) for message in apart[:3]]
    assert places == sorted(places)
    assert messages == before
    assert all(any(message is kept for kept in messages) for message in merged[1:])


def test_a_provider_that_refuses_user_messages_in_a_row_gets_them_as_one_without_the_setting() -> None:
    messages = [{**message, "content": [{"text": message["content"]}]} for message in talk(20)]
    hooks = hooks_for(merges=False, format=BedrockConverseFormat())
    hooks.pin(messages[2])
    view = hooks.transform_context_sync(messages)
    assert rows(view) == 0
    assert text_of(messages[2]) in text_of(view[0])


def test_a_list_to_store_has_its_messages_apart_and_is_known_again_and_sent_as_one() -> None:
    """The pin has more than one block, and the cache point behind it goes with it."""
    messages: list[Any] = [{**message, "content": [{"text": message["content"]}]} for message in talk(20)]
    image = {"image": {"format": "png", "source": {"bytes": b"abc"}}}
    pinned = {"role": "user", "content": [image, *messages[2]["content"], {"cachePoint": {"type": "default"}}]}
    messages[2:] = [pinned, *messages[3:-1]]  # it ends with a request
    hooks = hooks_for(merges=False, format=BedrockConverseFormat())
    hooks.pin(pinned)
    session = hooks.session("default")
    preview = hooks.preview_sync(messages, keep_recent_tokens=0)
    result = hooks.compact_sync(messages, keep_recent_tokens=0)
    stored, sent = result.messages, hooks.transform_context_sync(messages)
    assert preview.messages == stored == session.to_store(sent)
    assert stored[1:] == [pinned, messages[-1]]
    assert (rows(stored), rows(sent)) == (2, 0)
    assert sent[0]["content"][1:] == [*pinned["content"], *messages[-1]["content"]]
    assert project(messages, result.record) == project(stored, result.record) == sent

    restarted = hooks_for(merges=False, format=BedrockConverseFormat())
    restarted.session("default").import_records(session.export_records())
    without_records = hooks_for(merges=False, format=BedrockConverseFormat())
    for each in (hooks, hooks, restarted, without_records):
        assert each.transform_context_sync(stored) == sent
    assert restarted.session("default").record == result.record

    answer = {"role": "assistant", "content": [{"text": "Done."}]}
    longer = [
        *stored,
        answer,
        *({**message, "content": [{"text": message["content"]}]} for message in talk(30, first=20)),
    ]
    view = restarted.transform_context_sync(longer)
    assert rows(view) == 0
    assert view[0]["content"][1:4] == pinned["content"]
    assert str(view).count("[Conversation summary]") == 1
    words = [text for text in map(text_of, view) if text in map(text_of, longer)]
    assert words == list(map(text_of, longer))[-len(words) :], "no request was lost in the summary's message"


def test_plain_texts_stay_plain_text() -> None:
    """Strict templates often take nothing else."""
    messages = [system(), *talk(20)]
    apart = hooks_for(merges=False).transform_context_sync(messages)
    merged = hooks_for().transform_context_sync(messages)
    assert merged[:2] == [system(), user(f"{apart[1]['content']}\n\n{apart[2]['content']}")]


def test_an_image_of_the_next_request_is_the_same_object() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    asked = {"role": "user", "name": "ann", "content": [{"type": "text", "text": "And this?"}, image]}
    messages = [*talk(20), asked]
    view = hooks_for().compact_sync(messages, keep_recent_tokens=0)
    sent = hooks_for().transform_context_sync(cast("list[Any]", view.messages))
    assert [block["type"] for block in sent[0]["content"]] == ["text", "text", "image_url"]
    assert sent[0]["content"][2] is image
    assert sent[0]["name"] == "ann"


def test_views_begin_alike_until_the_next_compaction_and_the_estimate_holds_them() -> None:
    hooks, estimator = hooks_for(), CharacterEstimator()
    reader = OpenAIChatFormat()
    messages: list[Any] = []
    last: list[str] = []
    count = changes = 0
    for turn in talk(80, 100)[::2]:
        messages += [turn, assistant("Done. " + "word " * 150)]
        view = hooks.transform_context_sync(messages)
        state, written = hooks.state(), [json.dumps(message) for message in view]
        assert rows(view) == 0
        tokens = sum(estimator.estimate_message_tokens(reader.read(one)[0]) for one in view)
        assert tokens <= (state.context_tokens or 0)
        if state.compaction_count == count:
            assert written[: len(last)] == last
        changes, count, last = changes + (state.compaction_count > count), state.compaction_count, written
    assert changes >= 2


def test_a_list_stored_back_from_compact_is_known_and_sent_merged() -> None:
    hooks = hooks_for()
    stored = hooks.compact_sync([*talk(10), *steps(2)]).messages
    assert rows(stored) == 1
    again = hooks.transform_context_sync(stored)
    assert rows(again) == 0
    assert hooks.history()
    assert hooks_for().transform_context_sync(stored) == again  # another process, without a store
    stored += talk(20, first=10)
    assert rows(hooks.transform_context_sync(stored)) == 0
    summaries = [
        text for text in map(text_of, hooks.transform_context_sync(stored)) if "[Conversation summary]" in text
    ]
    assert [text.count("[Conversation summary]") for text in summaries] == [1]


def test_a_list_without_user_messages_in_a_row_comes_back_itself() -> None:
    hooks, messages = hooks_for(), talk(3)
    assert hooks.transform_context_sync(messages) is messages
    assert hooks.transform_context_sync(messages) is messages
    twice = [user("One."), user("Two."), assistant("Three.")]
    assert hooks.transform_context_sync(twice) == [user("One.\n\nTwo."), assistant("Three.")]


def test_usage_is_taken_for_the_merged_view_and_for_the_list_to_store() -> None:
    hooks = hooks_for()
    result = hooks.compact_sync(talk(10))
    hooks.report_usage(Usage(input_tokens=2_345), view=result.messages)
    assert hooks.state().context_tokens == 2_345
    hooks.report_usage(Usage(input_tokens=3_456), view=hooks.transform_context_sync(result.messages))
    assert hooks.state().context_tokens == 3_456


class Plain:
    """A format with only the methods that every format must have."""

    name = "plain"

    def __init__(self) -> None:
        form = OpenAIChatFormat()
        self.read, self.summary, self.take, self.rewrite = form.read, form.summary, form.take, form.rewrite


def test_a_format_that_cannot_merge_is_refused_at_construction() -> None:
    plain = cast("MessageFormat[Any]", Plain())
    with pytest.raises(ConfigurationError, match=r"merge_user_messages=True: the format 'plain' has no merge"):
        hooks_for(format=plain)
    with pytest.raises(ConfigurationError, match=r"merge_user_messages=True: the format 'plain' has no merge"):
        hooks_for().session("one", plain)
    hooks_for(merges=False, format=plain)
