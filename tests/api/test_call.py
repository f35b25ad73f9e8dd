"""`call` and `call_sync`: an answer that the context window cut short is asked for once more, with a smaller view.

`compact_on_overflow`: whether an overflow is recovered from; `overflow_patterns`: how further providers say it.
"""

import pytest

from compaction_hooks import CompactionFailed, CompactionSettings, CompactionStarted
from compaction_hooks.events import CompactionEvent
from tests.conversations import Chat, Scripted, controller, steps, texts, user
from tests.too_long import Answers, Provider, TooLongError, answer_with

CUT = [
    pytest.param("model_context_window_exceeded", 800, None, id="the provider says so"),
    pytest.param("length", 0, None, id="nothing was written"),
    pytest.param("length", 800, 4_000, id="less than asked for"),
    pytest.param("length", 800, 40_000, id="more was asked for than the window has"),
]
BELIEFS = pytest.mark.parametrize("window", [None, 128_000], ids=["window unknown", "window believed larger"])


class Model(Answers):
    """The same, with the sizes of the requests."""

    @property
    def sizes(self) -> list[int]:
        return [len(texts(view)) for view in self.sent]


def conversation() -> list[Chat]:
    """Return a conversation of about 7,000 tokens."""
    return [user("go"), *steps(20, 300)]


@BELIEFS
@pytest.mark.parametrize(("ending", "written", "asked"), CUT)
def test_an_answer_that_the_window_cut_is_asked_for_once_more(
    ending: str, written: int, asked: int | None, window: int | None
) -> None:
    model = Model(answer_with(ending, 7_000, written), answer_with("stop", 3_000, 900))
    hooks = controller(window, summarizer=Scripted())
    assert hooks.call_sync(conversation(), model, max_output_tokens=asked) == answer_with("stop", 3_000, 900)
    least, most = (0.3, 0.7) if asked is None else (0.1, 0.3)  # half of the window stays free at most
    assert least < model.sizes[1] / model.sizes[0] < most
    hooks.transform_context_sync(conversation(), max_output_tokens=asked)
    assert hooks.state().compaction_count == 1


@BELIEFS
@pytest.mark.parametrize(("ending", "written", "asked"), CUT)
def test_an_answer_that_is_cut_again_is_handed_on(
    ending: str, written: int, asked: int | None, window: int | None
) -> None:
    model = Model(*(answer_with(ending, input, written) for input in (7_000, 3_000)))
    hooks = controller(window, summarizer=Scripted())
    assert hooks.call_sync(conversation(), model, max_output_tokens=asked) == answer_with(ending, 3_000, written)
    assert model.answers == []


@BELIEFS
@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        pytest.param(CompactionSettings(max_output_tokens=800), None, id="asked for in the settings"),
        pytest.param(CompactionSettings(max_output_tokens=4_000), 800, id="asked for in the call"),
        pytest.param(CompactionSettings(), None, id="nothing is known of what was asked for"),
    ],
)
def test_an_answer_that_its_own_limit_ended_is_left_alone(
    settings: CompactionSettings, asked: int | None, window: int | None
) -> None:
    model = Model(answer_with("length", 7_000, 800))
    controller(window, settings=settings).call_sync(conversation(), model, max_output_tokens=asked)
    assert len(model.sent) == 1


def test_a_cut_answer_is_returned_if_nothing_can_be_left_out() -> None:
    """And the next call does not try again to leave something out."""
    events: list[CompactionEvent] = []
    hooks = controller(None, events=events, settings=CompactionSettings(auto_compact=False))
    cut = answer_with("model_context_window_exceeded", 7_000, 800)
    assert hooks.call_sync([user("go")], Model(cut)) is cut
    ended = [*events]
    assert [type(event) for event in ended] == [CompactionStarted, CompactionFailed]
    hooks.transform_context_sync([user("go")])
    assert events == ended


def test_only_the_providers_own_word_teaches_a_window() -> None:
    """And never one below the input and output of the call that taught it."""
    for (ending, written, asked), taught in [
        (("model_context_window_exceeded", 800, None), 7_800),
        (("length", 0, None), 128_000),
        (("length", 800, 4_000), 128_000),
    ]:
        hooks = controller(128_000, summarizer=Scripted())
        model = Model(answer_with(ending, 7_000, written), answer_with("stop", 3_000, 900))
        hooks.call_sync(conversation(), model, max_output_tokens=asked)
        hooks.transform_context_sync(conversation())
        assert hooks.state().context_window == taught


def test_a_window_that_is_smaller_already_is_not_raised() -> None:
    hooks = controller(7_000, summarizer=Scripted(), settings=CompactionSettings(auto_compact=False))
    hooks.call_sync(
        conversation(), Model(answer_with("model_context_window_exceeded", 7_000, 800), answer_with("stop", 3_000, 9))
    )
    assert hooks.state().context_window == 7_000


@pytest.mark.parametrize(("written", "calls"), [(800, 3), (0, 4)])
def test_a_model_whose_answers_end_where_they_end_is_not_asked_twice_each_time(written: int, calls: int) -> None:
    """More room did not make the answer longer, so that it was the model's own limit, unless it wrote nothing at all."""
    short = answer_with("length", 3_000, written)
    model = Model(answer_with("length", 7_000, written), short, short, short)
    hooks = controller(None, summarizer=Scripted())
    hooks.call_sync(conversation(), model, max_output_tokens=4_000)
    hooks.call_sync(conversation(), model, max_output_tokens=4_000)
    assert len(model.sent) == calls


def test_recovery_can_be_switched_off() -> None:
    provider = Provider(10)
    hooks = controller(None, settings=CompactionSettings(compact_on_overflow=False))
    with pytest.raises(TooLongError):
        hooks.call_sync([user("go"), *steps(30, 300)], provider)


def test_a_new_wording_can_be_added() -> None:
    provider = Provider(20_000, RuntimeError("the kettle is full"))
    messages = [user("go"), *steps(30, 300)]
    with pytest.raises(RuntimeError):
        controller(None).call_sync(messages, provider)
    hooks = controller(None, settings=CompactionSettings(overflow_patterns=("Kettle is full",)))
    assert hooks.call_sync(messages, provider) == "answer"
