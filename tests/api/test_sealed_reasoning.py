"""`CompactionSettings(sealed_reasoning=...)`, and views for models that refuse reasoning behind another beginning."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from compaction_hooks import CompactionController, CompactionRecord, CompactionSettings
from compaction_hooks.formats import AnthropicFormat, GeminiFormat, OpenAIChatFormat, OpenAIResponsesFormat
from compaction_hooks.stores import MemoryStore
from compaction_hooks.strategies import ShortenParts
from compaction_hooks.validity import problems, provider_of
from tests.cases import folded, sampled
from tests.sealed_runs import BINDING, HIDDEN, PLAIN, RefusedError, Run


@pytest.mark.parametrize(
    "seeds", [range(10), *(pytest.param(range(n, n + 25), marks=pytest.mark.full) for n in range(0, 200, 25))], ids=str
)
def test_no_request_is_refused_whatever_is_done_with_the_conversation(seeds: range) -> None:
    shares, figures = list[float](), list[tuple[int, ...]]()
    for seed in seeds:
        run = Run(seed)
        run.steps(30)
        assert len(run.signer.refusals) <= run.blind_calls, seed
        shares.append(run.signer.reasoning_share)
        figures.append(run.figures)
    assert sum(shares) / len(shares) > 0.4
    _, _, kept, by_dropping_all, _ = map(sum, zip(*figures, strict=True))
    assert kept > 1.2 * by_dropping_all


LOOKS: dict[str, Callable[[Run, list[Any]], object]] = {
    "a plan": lambda run, messages: run.session.preview_sync(messages, plan_only=True),
    "a preview": lambda run, messages: run.session.preview_sync(messages),
    "a load": lambda run, messages: run.session.load_sync(messages),
}


@pytest.mark.parametrize("look", sampled(LOOKS.values(), 1), ids=LOOKS)
def test_a_look_at_a_part_of_the_list_brings_no_stale_reasoning_back(look: Callable[[Run, list[Any]], object]) -> None:
    for seed in range(2):
        run = Run(seed)
        for number in range(30):
            run.step()
            look(run, run.messages[: 1 + 2 * (number % 3)])
        assert run.signer.refusals == [], seed


def test_a_model_that_is_not_known_is_refused_at_most_once_in_a_session_restarts_included() -> None:
    for seed in range(4):
        run = Run(seed)
        for step in range(30):
            run.step(HIDDEN)
            if step % 6 == 5:
                run.restart()
        assert len(run.signer.refusals) <= 1, seed


@pytest.mark.parametrize("is_restarted_before", [False, True])
def test_an_undo_is_known_to_the_next_process(is_restarted_before: bool) -> None:
    run = Run(1)
    run.steps(9, acting=0)
    run.compact()
    run.steps(2, acting=0)
    if is_restarted_before:
        run.restart()
    run.undo()
    run.restart()
    run.steps(2, acting=0)
    assert run.signer.refusals == []
    assert run.signer.sent[-1][0] > 0


def test_an_edit_between_two_processes_costs_one_refusal() -> None:
    run = Run(1)
    run.steps(6, acting=0)
    run.messages[2] = {"role": "user", "content": "Something else."}
    run.restart()
    run.steps(20, acting=0)
    assert len(run.signer.refusals) == 1


def test_an_edit_between_two_processes_costs_one_refusal_also_if_a_compaction_is_undone_after_it() -> None:
    run = Run(7691)  # an edit, a compaction, an edit before a fork, an undo
    run.steps(30)
    assert len(run.signer.refusals) == run.blind_calls == 1


def test_an_edit_that_another_model_answered_is_known_to_the_next_process() -> None:
    run = Run(1)
    run.steps(4, acting=0)
    run.switch()
    run.steps(2, acting=0)
    run.messages[0] = {"role": "user", "content": "Something else."}
    run.steps(1, acting=0)
    run.restart()
    run.switch()
    run.steps(2, acting=0)
    assert run.signer.refusals == []


def test_a_way_back_to_the_beginning_takes_back_the_note_of_an_edit() -> None:
    run = Run(1)
    run.steps(2, acting=0)
    run.messages[2] = {"role": "user", "content": "Something else."}
    run.steps(2, acting=0)
    del run.messages[1:]
    run.steps(5, acting=0)
    run.restart()
    run.steps(2, acting=0)
    assert run.signer.refusals == []


@pytest.mark.parametrize("given", [deepcopy, lambda value: value], ids=["copies", "changed in place"])
def test_another_system_prompt_or_another_tool_makes_all_reasoning_stale(given: Callable[[Any], Any]) -> None:
    run = Run(1)
    system, tools = [{"type": "text", "text": "Be brief."}], [{"name": "read", "description": "Reads."}]
    for step in range(12):
        said = [{"type": "text", "text": f"Part {step}."}]
        if step == 5:
            tools[0]["description"] = "Reads a file."
        if step == 9:
            system[0]["text"] = "Be long."
        run.ask(BINDING, said, system=given(system), tools=given(tools))
        run.messages.append({"role": "user", "content": "Go on."})
    assert run.signer.refusals == []
    assert [kept for kept, _ in run.signer.sent] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2]


@pytest.mark.parametrize("model", [BINDING, HIDDEN])
def test_a_text_that_a_client_adds_to_each_request_costs_two_refusals(model: str) -> None:
    run = Run(1)

    class Client(type(run.signer)):  # type: ignore[misc]
        """Adds the time to the system prompt."""

        def refusal(self, body: Any) -> Any:
            return super().refusal({**body, "system": f"Now it is {len(run.messages)}."})

        def sign(self, body: Any) -> Any:
            return super().sign({**body, "system": f"Now it is {len(run.messages)}."})

    run.signer = Client()
    for step in range(30):
        run.step(model)
        if step % 10 == 9:
            run.restart()
    assert len(run.signer.refusals) == 2


class RareThinker(Run):
    """An agent whose model reasons about each request, and not between its tool calls."""

    turn_length = 30

    def _reason(self, view: list[Any], model: str, options: Any) -> list[Any]:
        made = super()._reason(view, model, options)
        return made if isinstance(self.messages[-1]["content"], str) else []


def test_results_behind_the_reasoning_are_cleared_first() -> None:
    run = RareThinker(2)
    for step in range(26):
        run.step()
        if step == 17:  # a new process reads from the record that its view costs no reasoning
            run.restart()
    assert len([record for record in run.session.records if record.reductions]) == 2
    assert run.signer.refusals == []
    assert [kept for kept, _ in run.signer.sent] == [0] + [1] * 25


@pytest.mark.parametrize(("model", "kept"), [(PLAIN, 3), (BINDING, 0)])
def test_a_model_that_binds_no_reasoning_gets_all_that_is_behind_a_summary(model: str, kept: int) -> None:
    messages = [{"role": "user", "content": "Read all."}, *(item for step in range(40) for item in anthropic(step))]
    settings = CompactionSettings(keep_recent_tokens=120, clear_tool_results=False)
    hooks = CompactionController[Any](format=AnthropicFormat(), context_window=100_000, settings=settings)
    view = hooks.compact_sync(messages, model=model).messages
    assert repr(view).count("'tool_use'") == 3
    assert hooks.transform_context_sync(messages, model=model) == view
    assert repr(view).count("'type': 'thinking'") == kept


def test_models_that_bind_reasoning_and_others_take_turns() -> None:
    for seed in range(4):
        run = Run(seed)
        for _ in range(30):
            run.step(run.random.choice([BINDING, PLAIN]))
        assert run.signer.refusals == [], seed


def test_an_answer_of_a_worker_that_had_not_seen_the_record_is_of_the_older_view() -> None:
    run = Run(1)
    for _ in range(3):
        run.step()
    worker = run.session
    run.restart()
    sent = list(run.messages)
    run.session.compact_sync(sent, model=BINDING, keep_recent_tokens=500)
    run.session = worker  # which answers with the view that it had
    body = {"messages": sent, "model": BINDING}
    run.messages += [
        {"role": "assistant", "content": [*run.signer.sign(body), {"type": "text", "text": "Done."}]},
        {"role": "user", "content": "Go on."},
    ]
    run.restart()
    run.step()
    run.step()
    assert run.signer.refusals == []


def test_an_answer_of_a_worker_that_took_its_turn_before_is_of_the_older_view() -> None:
    run = Run(1)
    run.steps(4, acting=0)
    worker = run.session
    run.restart()
    run.steps(2, acting=0)
    sent = list(run.messages)
    worker.compact_sync(sent, model=BINDING, keep_recent_tokens=500)
    run.steps(1, acting=0)  # by the process that has not read the store since
    run.session = worker
    run.steps(2, acting=0)
    assert run.signer.refusals == []


def test_workers_that_take_turns_know_each_others_compactions() -> None:
    run = Run(1)
    run.steps(4, acting=0)
    worker = run.session
    run.restart()
    run.compact()
    run.steps(2, acting=0)
    run.session = worker  # which has not read the store since
    run.steps(3, acting=0)
    assert run.signer.refusals == []
    assert run.signer.sent[-1][0] == 2


def test_a_single_worker_loads_the_store_once_while_nothing_is_due() -> None:
    class Counting(MemoryStore):
        loads = 0

        def load(self, session_id: str) -> Sequence[str]:
            self.loads += 1
            return super().load(session_id)

    run = Run(1)
    run.store = store = Counting()
    run.start(100_000)
    run.steps(20, acting=0)
    assert store.loads == 1


def test_an_answer_to_the_view_of_a_compaction_by_hand_keeps_its_reasoning() -> None:
    run = Run(1)
    run.steps(6, acting=0)
    run.compact()
    run.steps(3, acting=0)
    assert run.signer.refusals == []
    assert run.signer.sent[-1][0] == 2


@pytest.mark.parametrize("is_restarted", [False, True])
def test_answers_to_a_view_with_a_request_of_before_the_summary_lose_their_reasoning_when_the_user_says_more(
    is_restarted: bool,
) -> None:
    run = Run(1264, keep_user_tokens=0)
    run.steps(7, acting=0)
    run.compact()
    run.steps(1, acting=0)
    assert run.messages.pop(14) == {"role": "user", "content": "Go on."}  # the request before it is current again
    run.steps(6, acting=0)
    if is_restarted:
        run.restart()
    run.steps(2, acting=0)
    assert run.signer.refusals == []
    assert [kept for kept, _ in run.signer.sent[-3:]] == [5, 0, 1]


@pytest.mark.parametrize("strategies", [None, [ShortenParts()]], ids=["covered", "shortened"])
def test_answers_to_a_long_request_in_full_lose_their_reasoning_when_the_user_says_more(strategies: Any) -> None:
    run = Run(1, strategies=strategies)
    run.messages[0]["content"] = "word " * 20_000
    run.messages += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Go on."}]
    run.compact()
    del run.messages[1:]
    run.start(60_000, "run 0")
    run.steps(8, acting=0)
    assert run.signer.refusals == []


def test_a_long_request_behind_all_reasoning_is_shortened_without_its_cost() -> None:
    thoughts = {"type": "thinking", "thinking": "Hm.", "signature": "sealed"}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "Begin."},
        {"role": "assistant", "content": [thoughts, {"type": "text", "text": "Done."}]},
        {"role": "user", "content": "word " * 9_000},
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": "Go on."},
    ]
    settings = CompactionSettings(strategies=[ShortenParts()])

    def begin() -> Any:
        return CompactionController(
            context_window=8_192, model="claude-sonnet-5-5", format=AnthropicFormat(), settings=settings
        ).session("s")

    first, later = begin(), begin()
    grown = [*said, {"role": "assistant", "content": "More."}, {"role": "user", "content": "Go on."}]
    views = [first.transform_context_sync(said), first.transform_context_sync(grown)]
    later.import_records(first.export_records())
    for view in (*views, later.transform_context_sync(grown)):
        assert view[1] is said[1]
        assert len(view[2]["content"]) < len(said[2]["content"])


def test_the_store_keeps_one_note_of_what_is_left_out() -> None:
    run = Run(3)
    for _ in range(2):
        while run.session.record is None:
            run.step()
        run.session.undo()
        run.step()
    stored = [CompactionRecord.from_json(text) for text in run.store.load("run 0")]
    (note,) = (record for record in stored if record.stale_runs is not None and record.parent is None)
    assert [one for one in run.session.records if one.stale_runs is not None and one.parent is None] == [note]


def test_recovery_of_a_view_that_was_sent_before_a_compaction_by_hand_drops_its_reasoning() -> None:
    run = Run(1)
    for _ in range(7):
        run.step(HIDDEN)
    run.messages[0] = {"role": "user", "content": "Something else."}
    run.step(PLAIN)
    view = run.session.transform_context_sync(run.messages, model=HIDDEN)
    run.session.compact_sync(run.messages, model=HIDDEN, keep_recent_tokens=10)  # while the model reads the view
    with pytest.raises(RefusedError) as refused:
        run._reason(view, HIDDEN, {})
    accepted = run.session.recover_sync(refused.value, run.messages, model=HIDDEN)
    assert run.signer.refusal({"messages": accepted}) is None
    with pytest.raises(RefusedError):
        run.session.recover_sync(refused.value, run.messages, model=HIDDEN)


@pytest.mark.parametrize(("policy", "refusals"), [("auto", 1), ("drop", 0)])
def test_drop_leaves_out_old_reasoning_for_any_model(policy: str, refusals: int) -> None:
    run = Run(5, sealed_reasoning=policy)
    for _ in range(20):
        run.step(HIDDEN)
    assert len(run.signer.refusals) == refusals


def read(fields: Any) -> list[Any]:
    """Return three turns, the last one under way: in each, two steps with reasoning."""
    asks, answers = fields
    turns = [[asks(f"Part {n}"), *(item for step in (n, n + 10) for item in answers(step))] for n in range(3)]
    return [item for turn in turns for item in turn]


def chat(step: int) -> list[Any]:
    call = {"id": f"c{step}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "reasoning_content": f"thought {step}", "tool_calls": [call]}
    return [said, {"role": "tool", "tool_call_id": f"c{step}", "content": "read"}]


def anthropic(step: int) -> list[Any]:
    thought = {"type": "thinking", "thinking": f"thought {step}", "signature": "sealed"}
    call = {"type": "tool_use", "id": f"c{step}", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"c{step}", "content": "read"}
    return [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]


def responses(step: int) -> list[Any]:
    thought = {
        "type": "reasoning",
        "id": f"rs_{step}",
        "summary": [{"type": "summary_text", "text": f"thought {step}"}],
    }
    call = {"type": "function_call", "id": f"fc_{step}", "call_id": f"c{step}", "name": "read", "arguments": "{}"}
    return [thought, call, {"type": "function_call_output", "call_id": f"c{step}", "output": "read"}]


def gemini(step: int) -> list[Any]:
    thought = {"text": f"thought {step}", "thought": True}
    call = {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": f"sealed {step}"}
    result = {"functionResponse": {"name": "read", "response": {"result": "read"}}}
    return [{"role": "model", "parts": [thought, call]}, {"role": "user", "parts": [result]}]


SAYS = {
    "content": lambda text: {"role": "user", "content": text},
    "parts": lambda text: {"role": "user", "parts": [{"text": text}]},
}
ALL, OPEN = [0, 10, 1, 11, 2, 12], [2, 12]


@pytest.mark.parametrize(
    ("format", "content", "answers", "model", "left"),
    [
        pytest.param(AnthropicFormat(), "content", anthropic, BINDING, [], id="binding"),
        pytest.param(AnthropicFormat(), "content", anthropic, "claude-sonnet-4-5", OPEN, id="manual-thinking"),
        pytest.param(OpenAIChatFormat(), "content", chat, "deepseek/deepseek-v4", ALL, id="deepseek"),
        pytest.param(OpenAIResponsesFormat(), "content", responses, "gpt-5.6", [], id="responses"),
        pytest.param(GeminiFormat(), "parts", gemini, "gemini-3-pro", [], id="gemini"),
    ],
)
def test_reasoning_that_is_left_out_leaves_a_list_that_the_model_accepts(
    format: Any, content: str, answers: Any, model: str, left: list[int]
) -> None:
    messages = read((SAYS[content], answers))
    hooks = CompactionController[Any](format=format, settings=CompactionSettings(sealed_reasoning="drop"))
    refused = iter([RefusedError("The block is bound to a different conversation."), None])
    views = list[list[Any]]()

    def send(view: list[Any]) -> None:
        views.append(view)
        if error := next(refused):
            raise error

    if left != ALL:
        hooks.call_sync(messages, send, model=model)
    else:
        with pytest.raises(RefusedError):
            hooks.call_sync(messages, send, model=model)
    view = views[-1]
    assert [step for step in ALL if f"thought {step}'" in repr(view)] == left
    neutral = [piece for message in view for piece in format.read(message)]
    assert problems(neutral, provider_of(format), model=model) == []
    assert "'fc_" not in repr(view)
    assert repr(view).count("skip_thought_signature_validator") == (6 if content == "parts" else 0)


def test_a_pinned_answer_of_responses_keeps_its_reasoning_item() -> None:
    messages = [*read((SAYS["content"], responses)), {"role": "user", "content": "word " * 4_000}, *responses(3)]
    session = CompactionController[Any](format=OpenAIResponsesFormat(), context_window=20_000).session("run")
    session.transform_context_sync(messages)
    session.pin(next(item for item in messages if item.get("id") == "fc_10"))
    messages += [{"role": "user", "content": "word " * 4_000}, *responses(4)]
    result = session.compact_sync(messages, keep_recent_tokens=20)
    assert [item["id"] for item in result.messages if "id" in item] == ["rs_10", "fc_10", "rs_4", "fc_4"]


def interleaved(step: int, kinds: list[str]) -> list[Any]:
    """Return an answer with these items, and the result of its calls."""
    words, call_id = "word " * 60, f"call_{step}"
    fields: dict[str, dict[str, Any]] = {
        "reasoning": {"summary": [{"type": "summary_text", "text": words}]},
        "message": {"role": "assistant", "content": words},
        "function_call": {"call_id": call_id, "name": "read", "arguments": "{}"},
    }
    items = [{"type": kind, "id": f"{kind} {step} {place}", **fields[kind]} for place, kind in enumerate(kinds)]
    return [*items, {"type": "function_call_output", "call_id": call_id, "output": words}]


@folded("keep", range(50, 1_450, 200))
@pytest.mark.parametrize("answer", ["reasoning message reasoning function_call", "reasoning function_call message"])
def test_no_cut_parts_an_item_of_responses_from_its_reasoning(answer: str, keep: int) -> None:
    steps = [interleaved(step, answer.split()) for step in range(14)]
    messages: list[Any] = [{"role": "user", "content": "Go."}, *(item for step in steps for item in step)]
    hooks = CompactionController[Any](format=OpenAIResponsesFormat(), context_window=30_000)
    view = hooks.compact_sync(messages, keep_recent_tokens=keep).messages
    assert len(view) < len(messages)
    pairs = [pair for pair in pairwise(messages) if pair[0].get("type") == "reasoning"]
    assert [one["id"] for one, other in pairs if (one in view) != (other in view)] == []


def test_keep_leaves_nothing_out_and_raises_the_refusal() -> None:
    run = Run(5, sealed_reasoning="keep")
    with pytest.raises(RefusedError, match="bound to a different conversation"):  # noqa: PT012 - some step raises it
        for _ in range(20):
            run.step()
    assert len(run.signer.refusals) == 1
