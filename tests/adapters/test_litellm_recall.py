import json
from typing import Any

import pytest
from compaction_adapters.litellm import with_compaction

from tests.adapters import litellm_stage
from tests.adapters.litellm_stage import WITH_TOOLS, Stage, litellm
from tests.adapters.recall_scene import KNOWN, REQUEST, UNKNOWN, Reader, read_page
from tests.conversations import user

pytestmark = litellm_stage.QUIET
provider = litellm_stage.provider
READ_PAGE = {
    "type": "function",
    "function": {"name": "read_page", "parameters": {"type": "object", "properties": {"page": {"type": "integer"}}}},
}
WINDOW = 16_384


@pytest.mark.parametrize(
    ("is_streamed", "recall", "said"), [(False, True, KNOWN), (True, True, KNOWN), (False, False, UNKNOWN)]
)
def test_an_agent_that_needs_a_covered_fact_recalls_it(
    stage: Stage, is_streamed: bool, recall: bool, said: str
) -> None:
    side = stage.side(window=WINDOW)
    side.think = reader = Reader()
    completion = with_compaction(litellm.completion, context_window=WINDOW, recall=recall)
    messages: list[Any] = [user(REQUEST)]
    while True:
        answered = completion(messages=messages, tools=[READ_PAGE], stream=is_streamed, **stage.openai(), **WITH_TOOLS)
        whole = litellm.stream_chunk_builder([*answered]) if is_streamed else answered
        answer = whole.choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            tool = completion.recall_tool(messages) if call.function.name == "recall" else read_page
            result = tool(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert answer.content == said
    assert reader.recalled is recall
    assert ("recall" in str(side.model_requests[-1].messages)) is recall
