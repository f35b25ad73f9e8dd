import inspect

import pytest
from compaction_adapters.pydantic_ai import Compaction
from pydantic_ai import Agent, RunContext

from compaction_hooks.errors import ConfigurationError
from tests.adapters.pydantic_ai_stage import WINDOW, Stage
from tests.adapters.recall_scene import KNOWN, REQUEST, UNKNOWN, Reader, read_page


@pytest.mark.parametrize(
    ("api", "is_streamed", "recall", "argument", "said"),
    [
        ("openai", False, True, "query", KNOWN),
        ("anthropic", True, True, "handle", KNOWN),
        ("openai", True, False, "query", UNKNOWN),
    ],
)
async def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, api: str, is_streamed: bool, recall: bool, argument: str, said: str
) -> None:
    side = stage.side()
    side.think = reader = Reader(argument)
    compaction = Compaction[None](context_window=WINDOW, recall=recall)
    agent = Agent(getattr(stage, api)(), capabilities=[compaction], tools=[read_page])
    if is_streamed:
        async with agent.run_stream(REQUEST) as stream:
            assert await stream.get_output() == said
    else:
        assert (await agent.run(REQUEST)).output == said
    assert reader.recalled is recall
    assert ("recall" in str(side.model_requests[-1].messages)) is recall


async def test_the_next_run_recalls_from_the_run_before(stage: Stage) -> None:
    side = stage.side()
    compaction = Compaction[None](context_window=WINDOW, recall=True)
    agent = Agent(stage.openai(), capabilities=[compaction], tools=[read_page])
    side.think = reader = Reader()
    reader.recalled = True  # it does not ask yet
    first = await agent.run("Read all pages.")
    reader.recalled = False
    again = await agent.run("Which code opens the vault?", message_history=first.all_messages())
    assert (first.output, again.output) == (UNKNOWN, KNOWN)


async def test_a_durable_run_recalls_in_its_workflow(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of a workflow engine does not have the run's messages, so the tool is no activity of its own."""
    side = stage.side()
    side.think = reader = Reader()
    monkeypatch.setattr(RunContext, "in_durable_context", True)
    compaction = Compaction[None](context_window=WINDOW, recall=True)
    result = await Agent(stage.openai(), capabilities=[compaction], tools=[read_page]).run(REQUEST)
    assert result.output == KNOWN
    assert reader.recalled
    toolset = compaction.get_toolset()
    assert toolset is not None
    tool = toolset.tools["recall"]
    assert inspect.iscoroutinefunction(tool.function)  # engines refuse other tools in a workflow
    assert tool.metadata == {"temporal": False, "prefect": False}


async def test_the_old_agents_of_workflow_engines_refuse_recall(stage: Stage) -> None:
    """They put the agent's own toolsets in place of those of the run."""
    stage.side().think = Reader()
    agent = Agent(stage.openai(), capabilities=[Compaction[None](context_window=WINDOW, recall=True)])
    with agent.override(toolsets=agent.toolsets), pytest.raises(RuntimeError, match="not registered in this run"):
        await agent.run(REQUEST)


def test_recall_excludes_persist() -> None:
    with pytest.raises(ConfigurationError, match="exclude one another"):
        Compaction[None](context_window=WINDOW, recall=True, persist=True)
