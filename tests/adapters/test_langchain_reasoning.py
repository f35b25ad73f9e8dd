"""Agents on models that bind their thinking to the messages before it, behind Anthropic's own integration."""

from collections import deque
from typing import Any

import pytest
from compaction_adapters.langchain import CompactionMiddleware, LangChainFormat
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from compaction_hooks import CompactionController, project
from tests.adapters.langchain_core_stage import Stage, run, said, thread
from tests.adapters.signed_reasoning import BINDING, HIDDEN, RESULT, SETTINGS, STEPS, TURNS, WINDOW, Reading
from tests.cases import sampled, sampled_rows
from tests.provider import CallSigner, ItemSigner

SEALED = {"signature": "sealed"}
TEXT = {"type": "text", "text": "Step."}
REDACTED = {"type": "redacted_thinking", "data": "sealed"}
SHAPES: dict[str, dict[str, Any]] = {
    "langchain-anthropic": {"content": [{"type": "thinking", "thinking": "", **SEALED}, REDACTED, TEXT]},
    "langchain-core": {
        "content": [
            {"type": "reasoning", "reasoning": "", "extras": SEALED},
            {"type": "non_standard", "value": REDACTED},
            TEXT,
        ]
    },
    "langchain-aws": {"content": [{"type": "reasoning_content", "reasoning_content": SEALED}, "Step."]},
    "langchain-litellm": {
        "content": "Step.",
        "additional_kwargs": {"reasoning_content": "sealed", "thinking_blocks": [SEALED]},
    },
}
"""The reasoning of an answer, by integration."""


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_all_copies_of_stale_thinking_are_left_out(shape: dict[str, Any]) -> None:
    messages: list[BaseMessage] = [
        message for _ in range(8) for message in (HumanMessage("word " * 300), AIMessage(**shape))
    ]
    session = CompactionController(format=LangChainFormat(), context_window=6_000).session("s")
    record = session.compact_sync(messages, keep_recent_tokens=1_000).record
    assert "sealed" in str(project(messages, record, format=LangChainFormat()))
    view = project(messages, record, format=LangChainFormat(), model=BINDING)
    assert "sealed" not in str(view)
    assert [message.text for message in view[-2:]] == ["word " * 300, "Step."]


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}\n{RESULT}"


async def read_on(
    model: Any, saver: InMemorySaver, turn: str, how: str, *outside: Any
) -> tuple[CompactionMiddleware[Any, Any], list[BaseMessage]]:
    """Let an agent do one turn in a new process, which has only the checkpoint; return its middleware and all messages."""
    compaction: CompactionMiddleware[Any, Any] = CompactionMiddleware(context_window=WINDOW, settings=SETTINGS)
    agent: Any = create_agent(model, [read_file], middleware=[*outside, compaction], checkpointer=saver)
    await run(agent, said(turn), how, {**thread(), "recursion_limit": 10 * STEPS})
    messages = agent.get_state(thread()).values["messages"]
    assert messages[-1].text == "Done."
    return compaction, messages


@pytest.mark.parametrize("output", sampled(["v0", "v1"], 1))
@pytest.mark.parametrize(
    ("model", "how"),
    sampled_rows(
        [
            (HIDDEN, "async"),
            (HIDDEN, "sync"),
            (HIDDEN, "streamed"),
            (BINDING, "streamed"),
            (BINDING, "sync"),
            (BINDING, "async"),
        ],
        2,
    ),
)
async def test_no_run_of_an_agent_ends_in_a_refusal(stage: Stage, model: str, how: str, output: str) -> None:
    reading, saver = Reading(stage.side()), InMemorySaver()
    for turn in TURNS:
        client, outside = (
            stage.anthropic(model_name=model, output_version=output),
            ModelRetryMiddleware(max_retries=0, on_failure="error"),
        )
        compaction, messages = await read_on(client, saver, turn, how, outside)
    reading.check(model)
    assert compaction.session("thread").state().compaction_count >= 2
    assert sum("signature" in str(message.content) for message in messages) == len(reading.answers)


@pytest.mark.parametrize("model", sampled([HIDDEN, BINDING], 1))
async def test_no_run_on_bedrock_ends_in_a_refusal(stage: Stage, model: str) -> None:
    reading, saver = Reading(stage.side()), InMemorySaver()
    for turn in TURNS:
        await read_on(stage.bedrock(f"anthropic.{model}"), saver, turn, "sync")
    reading.check(model)


@pytest.mark.parametrize(
    ("client", "how"),
    sampled_rows(
        [
            ("v0", "sync"),
            ("v0", "streamed"),
            ("responses/v1", "streamed"),
            ("responses/v1", "sync"),
            ("google", "streamed"),
            ("google", "sync"),
            ("v1", "sync"),
            ("v1", "streamed"),
        ],
        4,
    ),
)
async def test_reasoning_of_another_account_is_dropped_with_its_ids_and_signatures(
    stage: Stage, client: str, how: str
) -> None:
    """The account changes between three turns."""
    reading, saver = Reading(stage.side()), InMemorySaver()
    reading.side.answers = deque(reading.answers[-5:] * len(TURNS))
    signer = reading.side.signer = CallSigner() if client == "google" else ItemSigner()
    options: dict[str, Any] = {"output_version": client, "include": ["reasoning.encrypted_content"]}
    for turn, account in zip((*TURNS, "Go on."), ("first", "second", "second"), strict=True):
        signer.account = account
        if client == "google":
            model: Any = stage.google("gemini-3-pro")
        else:
            model = stage.openai(None, model="gpt-5", use_responses_api=True, **options)
        await read_on(model, saver, turn, how)
    assert len(signer.refusals) == len(reading.side.rejections) == 1
    assert signer.sent[-1] > 1


def test_google_signatures_are_left_out_with_the_reasoning() -> None:
    """langchain-google-genai sends Google's placeholder for a missing one."""
    key = "__gemini_function_call_thought_signatures__"
    call = {"type": "tool_call", "name": "read", "args": {}, "id": "1"}
    texts: list[Any] = [{**TEXT, "thought_signature": "c2ln"}, {**TEXT, "extras": {"signature": "c2ln"}}, "Step."]
    answer = AIMessage([*texts, call], tool_calls=[call], additional_kwargs={key: {"1": "c2ln"}, "other": 1})
    untied = LangChainFormat().untie(answer)
    assert "c2ln" not in str(untied)
    assert untied.content == [TEXT, {**TEXT, "extras": {}}, "Step.", call]
    assert untied.additional_kwargs == {"other": 1}
    assert LangChainFormat().untie(untied) is untied
