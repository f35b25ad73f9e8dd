"""`recover` and `call` when images and documents are too large: in tokens that no message tells, or in bytes."""

import base64
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from compaction_hooks import (
    CompactionController,
    CompactionFinished,
    ContextOverflowError,
    ExtractiveSummarizer,
    SummaryRequest,
)
from compaction_hooks.formats import AnthropicFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.messages import MessageFormat
from tests.conversations import Scripted, prose

Message = Mapping[str, Any]
WINDOW = 200_000
REAL_TOKENS = 300_000
"""The document's true size in tokens; the estimate is a few thousand."""


def data(seed: str, size: int = 300) -> str:
    return base64.b64encode((seed * size).encode()[:size]).decode()


PDF = data("pdf")


class Chat:
    format: MessageFormat[Any] = OpenAIChatFormat()

    def user(self, text: str, *media: object) -> Message:
        return {"role": "user", "content": [{"type": "text", "text": text}, *media] if media else text}

    def assistant(self, text: str) -> Message:
        return {"role": "assistant", "content": text}

    def document(self) -> object:
        file = {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
        return {"type": "file", "file": file}

    def image(self, seed: str, size: int) -> object:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data(seed, size)}"}}


class Anthropic(Chat):
    format: MessageFormat[Any] = AnthropicFormat()

    def document(self) -> object:
        source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
        return {"type": "document", "title": "report.pdf", "source": source}

    def image(self, seed: str, size: int) -> object:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data(seed, size)}}


class Responses(Chat):
    format: MessageFormat[Any] = OpenAIResponsesFormat()

    def user(self, text: str, *media: object) -> Message:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}, *media]}

    def assistant(self, text: str) -> Message:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "role": "assistant", "content": content}

    def document(self) -> object:
        return {
            "type": "input_file",
            "filename": "report.pdf",
            "file_data": f"data:application/pdf;base64,{PDF}",
        }

    def image(self, seed: str, size: int) -> object:
        return {"type": "input_image", "image_url": f"data:image/png;base64,{data(seed, size)}"}


dialects = pytest.mark.parametrize("dialect", [Chat(), Anthropic(), Responses()], ids=lambda one: one.format.name)


class TooLargeError(Exception):
    def __init__(self, text: str, status_code: int = 400) -> None:
        super().__init__(text)
        self.status_code = status_code


class Provider:
    """A provider that counts the text in a document and the bytes of a request, and accepts requests that fit."""

    def __init__(self, *, window: int = WINDOW, limit_bytes: int | None = None, says: str = "") -> None:
        self.window, self.limit_bytes, self.says = window, limit_bytes, says
        self.sent: list[list[Message]] = []

    def __call__(self, view: list[Message]) -> str:
        self.sent.append(view)
        body = json.dumps(view)
        if self.limit_bytes is not None and len(body) > self.limit_bytes:
            raise TooLargeError(self.says or "Request exceeds the maximum size", 413)
        tokens = len(re.sub(r"[A-Za-z0-9+/]{200,}", "", body)) // 4 + REAL_TOKENS * body.count(PDF)
        if tokens > self.window:
            raise TooLargeError(self.says or f"prompt is too long: {tokens} tokens > {self.window} maximum")
        return "answer"


def hooks_for(dialect: Chat, **options: Any) -> CompactionController[Any]:
    return CompactionController(context_window=WINDOW, format=dialect.format, summarizer=Scripted(), **options)


def with_document(dialect: Chat, turns: int = 3) -> list[Message]:
    """Return a document, some talk, and a request."""
    messages = [dialect.user("Read this.", dialect.document()), dialect.assistant("I have read it.")]
    for turn in range(turns):
        messages += [dialect.user(f"{turn} {prose(50)}"), dialect.assistant(prose(50))]
    return [*messages, dialect.user("And now?")]


def list_shown(view: list[Message]) -> str:
    return json.dumps(view, ensure_ascii=False)


# -- a document that is larger than it seems


@dialects
def test_an_early_document_that_the_estimate_cannot_see_is_recovered_from(dialect: Chat) -> None:
    provider = Provider()
    assert hooks_for(dialect).call_sync(with_document(dialect), provider) == "answer"
    assert len(provider.sent) == 2
    assert PDF not in list_shown(provider.sent[1])


@dialects
@pytest.mark.parametrize("summarizer", [Scripted(), ExtractiveSummarizer()], ids=["a model", "by rule"])
def test_a_document_that_a_summary_covers_is_named_in_every_later_view(dialect: Chat, summarizer: Any) -> None:
    requests = list[Any]()

    def summarize(request: SummaryRequest) -> Any:
        requests.append(request.transcript)
        return summarizer(request)

    def count_names(view: list[Message]) -> int:
        return list_shown(view).count('application/pdf \\"report.pdf\\"]')

    hooks = CompactionController[Any](context_window=WINDOW, format=dialect.format, summarizer=summarize)
    provider, messages = Provider(), with_document(dialect)
    hooks.call_sync(messages, provider)
    assert '[application: application/pdf "report.pdf"]' in requests[0]
    assert count_names(provider.sent[1]) == 1
    later = [dialect.assistant(prose(50)), *with_document(dialect)[2:]]
    assert count_names(hooks.compact_sync([*messages, *later]).messages) == 1

    stored = hooks.compact_sync(messages, keep_recent_tokens=0).messages
    again = hooks.compact_sync([*stored, *later], keep_recent_tokens=0)
    assert again.record is not None
    assert again.record.compaction_count > 1
    assert count_names(again.messages) == 1


@dialects
def test_a_document_that_nothing_can_cover_is_left_out_with_a_line_that_names_it(dialect: Chat) -> None:
    """The request before the current one cannot be summarized away: nothing but the two is there."""
    events: list[Any] = []
    provider = Provider()
    hooks = hooks_for(dialect, on_event=events.append)
    messages = [dialect.user("Read this.", dialect.document()), dialect.user("And now?")]
    before = json.dumps(messages)
    assert hooks.call_sync(messages, provider) == "answer"
    assert json.dumps(messages) == before
    assert '[Left out, the request was too large with it: application/pdf \\"report.pdf\\"]' in list_shown(
        provider.sent[1]
    )
    assert "Read this." in list_shown(provider.sent[1])
    finished = [event for event in events if isinstance(event, CompactionFinished)]
    assert [event.left_out for event in finished] == [1]


@dialects
def test_a_document_in_the_current_request_is_never_left_out_and_the_error_names_the_request(dialect: Chat) -> None:
    messages = [dialect.user(prose(50)), dialect.assistant(prose(50)), dialect.user("Read this.", dialect.document())]
    with pytest.raises(ContextOverflowError) as caught:
        hooks_for(dialect).call_sync(messages, Provider())
    assert caught.value.part == "current request"


@dialects
def test_media_left_out_stay_left_out_after_a_restart_and_in_longer_lists(dialect: Chat) -> None:
    hooks, provider = hooks_for(dialect), Provider()
    messages = [dialect.user("Read this.", dialect.document()), dialect.user("And now?")]
    hooks.call_sync(messages, provider)
    exported = json.loads(json.dumps(hooks.session("default").export_records()))
    longer = [*messages, dialect.assistant("Fine."), dialect.user("Go on.")]
    restarted = hooks_for(dialect)
    restarted.session("default").import_records(exported)
    views = [one.transform_context_sync(longer) for one in (hooks, restarted)]
    assert views[0] == views[1]
    assert views[0][: len(provider.sent[1])] == provider.sent[1]


def test_media_left_out_are_shown_again_if_their_message_is_the_current_request() -> None:
    hooks, provider = hooks_for(Chat()), Provider()
    messages = [Chat().user("Read this.", Chat().document()), Chat().user("And now?")]
    hooks.call_sync(messages, provider)
    assert PDF in list_shown(hooks.transform_context_sync(messages[:1]))


# -- too many bytes


def with_images(dialect: Chat, count: int = 10, size: int = 30_000) -> list[Message]:
    """Return an image in each turn, 40,000 characters of base64 each, and one in the current request."""
    messages: list[Message] = []
    for turn in range(count):
        image = dialect.image(chr(ord("a") + turn), size)
        messages += [dialect.user(f"Picture {turn}.", image), dialect.assistant(f"Seen {turn}.")]
    return [*messages, dialect.user("And this?", dialect.image("z", size))]


def images_in(view: list[Message]) -> int:
    return len(re.findall(r"[A-Za-z0-9+/]{20000,}", list_shown(view)))


@dialects
def test_a_request_with_too_many_bytes_is_sent_once_more_with_half_of_its_images(dialect: Chat) -> None:
    provider = Provider(limit_bytes=300_000)
    hooks = hooks_for(dialect)
    messages = with_images(dialect)
    assert hooks.call_sync(messages, provider) == "answer"
    assert [images_in(view) for view in provider.sent] == [11, 6]
    assert list_shown(provider.sent[1]).count("[Left out, the request was too large with it: image/png sha256 ") == 5
    assert provider.sent[1][-1] is messages[-1]
    assert all("Left out" in list_shown([message]) for message in provider.sent[1][:10:2]), "the oldest first"


@pytest.mark.parametrize(("limit", "sent"), [(130_000, [11, 6, 3]), (60_000, [11, 6, 3, 2, 1])])
def test_images_are_left_out_until_the_request_fits(limit: int, sent: list[int]) -> None:
    provider, hooks, messages = Provider(limit_bytes=limit), hooks_for(Chat()), with_images(Chat())
    assert hooks.call_sync(messages, provider) == "answer"
    assert [images_in(view) for view in provider.sent] == sent
    hooks.call_sync([*messages, Chat().assistant("Seen."), Chat().user("Go on.")], provider)
    assert len(provider.sent) <= len(sent) + 2, "the size is known by now"


def test_without_images_to_leave_out_the_providers_last_error_is_raised() -> None:
    provider = Provider(limit_bytes=10_000)
    with pytest.raises(TooLargeError):
        hooks_for(Chat()).call_sync(with_images(Chat()), provider)
    assert [images_in(view) for view in provider.sent] == [11, 6, 3, 2, 1]


def test_a_limit_that_the_provider_names_says_how_much_is_left_out() -> None:
    provider = Provider(limit_bytes=400_000, says="Request body too large: the limit is 400000 bytes")
    hooks_for(Chat()).call_sync(with_images(Chat()), provider)
    assert [images_in(view) for view in provider.sent] == [11, 8]


@pytest.mark.parametrize("says", ["", "Request body too large: the limit is 300000 bytes"], ids=["", "with a limit"])
def test_after_a_refusal_for_bytes_a_session_fits_the_limit_and_keeps_its_prefix(says: str) -> None:
    """An agent looks at one more image in each step, as computer-use agents do."""
    chat, provider = Chat(), Provider(limit_bytes=300_000, says=says)
    hooks, messages, views = hooks_for(chat), [chat.user("Look around.")], list[list[Message]]()
    for step in range(30):
        messages += [chat.user(f"Screen {step}.", chat.image(chr(ord("A") + step), 30_000)), chat.assistant("Seen.")]
        hooks.call_sync([*messages, chat.user("And now?")], provider)
        views.append(provider.sent[-1][:-1])
    assert len(provider.sent) == len(views) + 1, "one refusal in all"
    changed = sum(later[: len(before)] != before for before, later in pairwise(views))
    assert changed <= 10, "most views begin with the one before"


def test_a_refusal_for_bytes_after_another_call_left_images_out_sends_the_other_view() -> None:
    provider, hooks, messages = Provider(limit_bytes=300_000), hooks_for(Chat()), with_images(Chat())

    def send(view: list[Message]) -> str:
        if not provider.sent:
            hooks.call_sync(messages, provider)
        return provider(view)

    assert hooks.call_sync(messages, send) == "answer"
    assert [images_in(view) for view in provider.sent] == [11, 6, 11, 6]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([Chat().user("only text")], id="no media"),
        pytest.param([Chat().user("And this?", Chat().image("z", 30_000))], id="in the current request only"),
    ],
)
def test_where_no_image_can_be_left_out_the_providers_error_is_raised(messages: list[Message]) -> None:
    provider = Provider(limit_bytes=10)
    with pytest.raises(TooLargeError):
        hooks_for(Chat()).call_sync(messages, provider)
    assert len(provider.sent) == 1


def test_images_in_results_of_tools_are_left_out_with_their_texts_kept() -> None:
    chat, messages = Chat(), list[Message]()
    for step in range(10):
        call = {"id": f"c{step}", "type": "function", "function": {"name": "screen", "arguments": "{}"}}
        seen = [{"type": "text", "text": f"Screen {step}."}, chat.image(chr(ord("a") + step), 30_000)]
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{step}", "content": seen},
        ]
    provider = Provider(limit_bytes=300_000)
    hooks_for(chat).call_sync([chat.user("Look around."), *messages], provider)
    assert [images_in(view) for view in provider.sent] == [10, 5]
    assert all(f"Screen {step}." in list_shown(provider.sent[1]) for step in range(10))
