from compaction_adapters.pydantic_ai import PydanticAIFormat
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelRequest
from pydantic_ai.tools import ToolDenied

from compaction_hooks import CompactionController
from tests.adapters.pydantic_ai_stage import Stage
from tests.conversations import prose
from tests.provider import Answer, Call

SAID = "Never push to main. Rebase first!"


async def test_the_words_of_a_denied_call_are_its_results(stage: Stage) -> None:
    agent = Agent(stage.openai(), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def push(branch: str) -> str:
        raise AssertionError(branch)

    for denied in (ToolDenied(SAID), ToolDenied()):
        stage.side().answers.extend([Answer(calls=(Call("push", {"branch": "main"}),)), Answer(prose(400))])
        asked = await agent.run("Publish the branch.")
        assert isinstance(asked.output, DeferredToolRequests)
        (call,) = asked.output.approvals
        results = DeferredToolResults(approvals={call.tool_call_id: denied})
        ended = await agent.run(message_history=asked.all_messages(), deferred_tool_results=results)

        messages = [*ended.all_messages(), ModelRequest.user_text_prompt("Well?")]
        hooks = CompactionController(context_window=64_000, format=PydanticAIFormat())
        record = hooks.compact_sync(messages, keep_recent_tokens=0).record
        assert record is not None
        assert f"- [ ] push(branch=main) -> FAILED: {denied.message}" in record.summary
        assert SAID not in record.summary.partition("## Progress")[0]
