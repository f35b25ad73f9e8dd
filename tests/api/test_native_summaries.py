"""A summarizer that answers with the provider's own items: `Summary(native=...)`, their issuer, and the text for all others."""

import json
from dataclasses import replace
from typing import Any

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    CompactionRecord,
    CompactionSettings,
    Summary,
    SummaryRequest,
    project,
)
from compaction_hooks.formats import AnthropicFormat, OpenAIResponsesFormat
from compaction_hooks.native import Issuer, NativeItems
from compaction_hooks.stores import MemoryStore
from tests.conversations import prose
from tests.native_runs import FABLE, OPUS, RequestedBlocks

MODEL = "claude-opus-5"
API = Issuer("anthropic", "https://api.anthropic.com")
TEXT = "The user reads a long report."
BLOCK = {"type": "compaction", "content": TEXT, "signature": "EuYB" * 40}
HEAD = {"role": "assistant", "content": [BLOCK]}


class Native:
    """A summarizer whose provider compacts by itself; it keeps its requests."""

    def __init__(self, issuer: Issuer = API, text: str = TEXT, tokens: int | None = None) -> None:
        self.issuer = issuer
        self.text = text
        self.tokens = tokens
        self.asked: list[SummaryRequest] = []

    def __call__(self, request: SummaryRequest) -> Summary:
        self.asked.append(request)
        assert request.live is not None
        issuer = self.issuer._replace(model=request.live.model or "")
        return Summary(text=self.text, native=NativeItems(issuer, (BLOCK,), self.tokens))


def controller(summarizer: Any = None, **more: Any) -> CompactionController[Any]:
    return CompactionController(
        **{"model": MODEL, "context_window": 8_000, "format": AnthropicFormat(), "summarizer": summarizer} | more
    )


def conversation(turns: int = 24) -> list[Any]:
    return [
        message
        for n in range(turns)
        for message in (
            {"role": "user", "content": f"Part {n}?"},
            {"role": "assistant", "content": f"{n}: {prose(300)}"},
        )
    ]


def compacted(**more: Any) -> tuple[CompactionRecord, list[Any]]:
    """Return the record of a conversation that the provider summarized, and its messages."""
    hooks, messages = controller(Native(**more)), conversation()
    hooks.transform_context_sync(messages)
    record = hooks.session("default").record
    assert record is not None
    return record, messages


def view_of(
    record: CompactionRecord, messages: list[Any], hooks: CompactionController[Any], **options: Any
) -> list[Any]:
    hooks.session("default").import_records([record.to_dict()])
    return hooks.transform_context_sync(messages, **options)


def test_the_issuer_is_sent_its_items_word_for_word_in_front_of_the_recent_messages() -> None:
    record, messages = compacted()
    view = view_of(record, messages, controller(Native()))
    assert view[0] == HEAD
    assert view[1:] == messages[-len(view) + 1 :]
    portable = project(messages, record)
    assert portable[1 - len(view) :] == view[1:]
    assert {message["role"] for message in portable[: 1 - len(view)]} == {"user"}, "the provider's items have these"


@pytest.mark.parametrize(
    ("hooks", "options"),
    [
        (controller(), {}),
        (controller(lambda request: "unused"), {}),
        (controller(Native(Issuer("anthropic", "https://gateway.example"))), {}),
        (controller(Native()), {"model": "claude-sonnet-5"}),
        (controller(Native(), model=None), {}),
    ],
    ids=["no summarizer", "text summarizer", "another address", "another model", "an unknown model"],
)
def test_any_other_issuer_is_sent_the_view_of_a_record_without_items(hooks: Any, options: Any) -> None:
    record, messages = compacted()
    portable = project(messages, record)
    assert view_of(record, messages, hooks, **options) == portable
    assert portable == project(messages, replace(record, native=None))
    assert "EuYB" not in json.dumps(portable)


def test_the_same_conversation_in_another_providers_form_is_sent_the_text() -> None:
    record, messages = compacted()
    hooks = controller(Native(), format=OpenAIResponsesFormat())
    view = view_of(record, [{"type": "message", **message} for message in messages], hooks)
    assert record.rendered in str(view[0]["content"][0]["text"])
    assert "EuYB" not in json.dumps(view)


def test_the_text_is_made_by_rule_if_the_provider_gives_none_or_one_that_is_refused() -> None:
    by_rule, messages = compacted(text="")
    assert "Part 3?" in by_rule.summary or {"role": "user", "content": "Part 3?"} in project(messages, by_rule)
    refused, _ = compacted(text="<conversation>\nuser: Part 3?")
    assert refused.summary == by_rule.summary
    assert refused.native is not None
    assert refused.native.items == (BLOCK,)


def test_the_summarizer_gets_the_older_part_of_the_view_last_sent_and_the_rest_of_the_call() -> None:
    native, messages = Native(), conversation()
    hooks = controller(native)
    first = hooks.transform_context_sync(messages, system="Be brief.", tools=[{"name": "read"}])
    second = hooks.transform_context_sync(
        [*messages, *conversation()[1:]], system="Be brief.", tools=[{"name": "read"}]
    )
    before, after = (request.live for request in native.asked)
    assert before is not None
    assert after is not None
    assert [*before.messages, *first[1:]] == messages
    assert after.messages[: len(first)] == first
    assert [*after.messages, *second[1:]] == [HEAD, *first[1:], *conversation()[1:]]
    assert (after.model, after.provider, after.system, after.tools) == (
        MODEL,
        "anthropic",
        "Be brief.",
        [{"name": "read"}],
    )


def test_a_compaction_by_hand_returns_a_list_for_any_provider() -> None:
    hooks, messages = controller(Native()), conversation()
    preview = hooks.preview_sync(messages)
    result = hooks.compact_sync(messages, preview=preview)
    assert result.record is not None
    assert preview.messages == result.messages == project(messages, result.record)
    assert hooks.transform_context_sync(messages)[0] == HEAD


def test_the_view_is_counted_with_the_items_and_not_with_the_text() -> None:
    sizes: list[int] = []
    for tokens in (100, 1_100):
        hooks = controller(Native())
        view_of(*compacted(tokens=tokens), hooks)
        sizes.append(hooks.state().context_tokens or 0)
    assert sizes[1] - sizes[0] == 1_000


def test_items_larger_than_the_room_give_way_to_the_text() -> None:
    events: list[Any] = []
    hooks = controller(Native(tokens=7_000), on_event=events.append)
    hooks.transform_context_sync(conversation())
    made = hooks.session("default").record
    assert made is not None
    assert (made.summary, made.native) == (TEXT, None)
    (finished,) = [event for event in events if isinstance(event, CompactionFinished)]
    assert (finished.used_fallback, finished.fallback_reason) == (True, "the provider's own summary is too large")


def test_a_client_that_writes_into_the_items_sent_changes_no_record() -> None:
    hooks = controller(Native())
    view = hooks.transform_context_sync(conversation())
    view[0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    record = hooks.session("default").record
    assert record is not None
    assert record.native is not None
    assert record.native.items == (BLOCK,)
    assert "cache_control" not in BLOCK


def test_new_items_come_first_and_take_the_place_of_a_sealed_summary_of_the_list() -> None:
    def item(key: str) -> dict[str, Any]:
        return {"type": "compaction", "id": f"cmp_{key}", "encrypted_content": "gAAA" * 40 + key}

    class Items(Native):
        def __call__(self, request: SummaryRequest) -> Summary:
            answer = super().__call__(request)
            assert answer.native is not None
            return replace(answer, native=answer.native._replace(items=(item("new"),)))

    system = {"role": "system", "content": "Be careful."}
    api = Issuer("openai_responses", "https://api.openai.com/v1")
    hooks = controller(Items(api), model="gpt-5.5", format=OpenAIResponsesFormat())
    view = hooks.transform_context_sync([system, item("old"), *conversation()])
    assert view[:2] == [item("new"), system]
    assert item("old") not in view


def test_items_survive_the_record_as_json_and_damaged_ones_are_not_shown() -> None:
    record, _ = compacted()
    fields = record.to_dict()
    assert CompactionRecord.from_dict(fields) == record
    assert CompactionRecord.from_dict({**fields, "native": {"issuer": 1}}).native is None
    assert "native" not in replace(record, native=None).to_dict()


REFUSALS = [
    "Error code: 400 - `compaction` is not one of the expected content block types",
    "Error code: 400 - {'error': {'details': {'error_code': 'compaction_signature_invalid'}}}",
    "Error code: 400 - {'error': {'code': 'invalid_encrypted_content'}}",
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refused_items_are_replaced_by_the_text_at_once_and_after_a_restart(refusal: str) -> None:
    store, messages, sent = MemoryStore(), conversation(), list[list[Any]]()

    def send(view: list[Any]) -> dict[str, Any]:
        sent.append(view)
        if view[0] == HEAD:
            raise ValueError(refusal)
        return {}

    hooks = controller(Native(), store=store)
    hooks.call_sync(messages, send)
    record = hooks.session("default").record
    assert record is not None
    assert [view[0] == HEAD for view in sent] == [True, False]
    assert sent[1] == project(messages, record)
    for restarted in (hooks, controller(Native(), store=store)):
        restarted.call_sync(messages, send)
        assert sent[-1] == sent[1]
    assert len(sent) == 4


def test_a_host_that_catches_the_refusal_itself_recovers_the_text() -> None:
    hooks, messages = controller(Native()), conversation()
    assert hooks.transform_context_sync(messages)[0] == HEAD
    view = hooks.recover_sync(ValueError(REFUSALS[0]), messages)
    assert view == hooks.transform_context_sync(messages)
    assert "EuYB" not in json.dumps(view)


def test_an_error_about_something_else_keeps_the_items() -> None:
    hooks, messages = controller(Native()), conversation()
    hooks.transform_context_sync(messages)
    error = ValueError("Error code: 400 - tools: Input should be a valid list")
    with pytest.raises(ValueError, match="tools"):
        hooks.recover_sync(error, messages)
    assert hooks.transform_context_sync(messages)[0] == HEAD


def test_an_undo_takes_the_items_back_with_the_text() -> None:
    hooks, messages = controller(Native()), conversation(16)
    hooks.compact_sync(messages)
    hooks.undo()
    assert hooks.transform_context_sync(messages) == messages


def test_a_refusal_carried_in_from_another_session_is_known_after_a_restart() -> None:
    messages = conversation()
    hooks = controller(Native())
    hooks.transform_context_sync(messages)
    store = MemoryStore()
    fork = controller(Native(), store=store)
    fork.session("default").import_records(hooks.session("default").export_records())
    assert fork.transform_context_sync(messages)[0] == HEAD
    hooks.recover_sync(ValueError(REFUSALS[0]), messages)
    fork.session("default").import_records(hooks.session("default").export_records())
    assert fork.transform_context_sync(messages)[0] != HEAD
    assert controller(Native(), store=store).transform_context_sync(messages)[0] != HEAD


def test_reasoning_made_behind_the_text_is_left_out_behind_the_items_also_after_a_restart() -> None:
    run = RequestedBlocks(1)
    run.steps(4, acting=0)
    run.compact()
    run.steps(2, acting=0)
    for model in (FABLE, OPUS):
        run.model = model
        run.steps(1, acting=0)
        run.restart()
    run.steps(2, acting=0)
    assert run.natives > 2
    assert run.refusals == []


def test_a_refusal_is_of_all_items_of_the_issuer_so_far() -> None:
    """A rewind may make an earlier record the newest one that is true of the list."""
    hooks, messages = controller(Native()), conversation(40)
    for length in (48, 80):
        assert hooks.transform_context_sync(messages[:length])[0] == HEAD
    assert len(hooks.session("default").records) == 2
    hooks.recover_sync(ValueError(REFUSALS[0]), messages)
    assert hooks.transform_context_sync(messages[:48])[0] != HEAD


def sealed(key: str, **fields: Any) -> dict[str, Any]:
    return {"summary": [], "encrypted_content": key, **fields}


@pytest.mark.parametrize(
    ("sentence", "kinds", "left"),
    [
        ("The encrypted content gAAA could not be verified.", ["compaction", "reasoning"], []),
        ("The encrypted content gAAA could not be verified.", ["compaction"], []),
        ("The encrypted content for item rs_1 could not be verified.", ["reasoning"], ["compaction"]),
    ],
)
def test_a_rotated_key_of_openais_costs_one_refusal(sentence: str, kinds: list[str], left: list[str]) -> None:
    api, views, refused = Issuer("openai_responses", "https://api.openai.com"), list[list[Any]](), list[str]()

    def summarize(request: SummaryRequest) -> Summary:
        items = (sealed("old", type="compaction", id="cmp_1"),)
        return Summary(text="", native=NativeItems(api._replace(model=MODEL), items))

    def send(view: list[Any]) -> dict[str, Any]:
        views.append(view)
        if refused and any(item.get("type") in kinds for item in view):
            refused.append(sentence)
            raise ValueError(f"Error code: 400 - {{'message': '{sentence}', 'code': 'invalid_encrypted_content'}}")
        return {}

    summarize.issuer = api  # type: ignore[attr-defined]
    hooks = controller(summarize, format=OpenAIResponsesFormat(), settings=CompactionSettings(clear_tool_results=False))
    messages: list[Any] = [{"type": "message", "role": "user", "content": "Read all."}]
    for n in range(24):
        messages.append(sealed("old", type="reasoning", id=f"rs_{n}"))
        messages.append({"type": "function_call", "call_id": f"c{n}", "name": "read", "arguments": "{}"})
        messages.append({"type": "function_call_output", "call_id": f"c{n}", "output": prose(300)})
    hooks.call_sync(messages, send)
    assert {"compaction", "reasoning"} <= {item.get("type") for item in views[-1]}
    refused.append("the key is rotated")
    hooks.call_sync(messages, send)
    assert len(refused) == 2
    assert [item["type"] for item in views[-1] if "encrypted_content" in item] == left


@pytest.mark.parametrize("accepts", [False, True])
def test_a_provider_that_refuses_its_own_items_each_time_is_asked_no_more_after_the_second(accepts: bool) -> None:
    native, events, refused = Native(), list[Any](), list[int]()
    hooks, messages = controller(native, on_event=events.append), conversation()

    def send(view: list[Any]) -> dict[str, Any]:
        if view[0] != HEAD:
            return {}
        if accepts and (not refused or refused[-1] < len(messages)):
            refused.append(len(messages) + 2)  # the next one is refused: another key
            return {"usage": {"input_tokens": 4_000, "output_tokens": 9}}
        refused.append(len(messages))
        raise ValueError(REFUSALS[0])

    for n in range(60):
        messages += conversation()[2 * (n % 20) :][:2]
        hooks.call_sync(messages, send)
    finished = [event for event in events if isinstance(event, CompactionFinished)]
    assert len(finished) > 4
    assert len(native.asked) == (len(finished) if accepts else 2)
    assert {event.fallback_reason for event in finished[2:]} == {
        "" if accepts else "the provider refuses its own summaries"
    }
