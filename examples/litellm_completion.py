"""A chat over litellm, a long log with each question. The model's limit, 16k tokens, is unknown until it says "too long".

Run: python examples/litellm_completion.py     needs: pip install 'compaction-hooks[litellm]' starlette uvicorn;
a real model: see model_endpoint.py. Prints each compaction, the last answer, and how many messages the caller's list has.
"""

from __future__ import annotations

import os
from typing import Any

from compaction_adapters.litellm import with_compaction
from model_endpoint import ModelEndpoint, model_endpoint

from compaction_hooks.events import CompactionEvent, CompactionFinished

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else litellm downloads a list when it is imported
import litellm

litellm.suppress_debug_info = True  # else it prints hints for every error, even recovered ones
QUESTIONS = 40


def log(number: int) -> str:
    """Return about 1,000 tokens of log lines."""
    return "\n".join(f"12:{number:02}:{line:02} worker-{line % 7} took {line * 37 % 1000} ms" for line in range(60))


def report(event: CompactionEvent) -> None:
    """Print the sizes before and after a compaction."""
    if isinstance(event, CompactionFinished):
        print(f"{event.reason}: {event.tokens_before:,} -> {event.tokens_after:,} tokens")


def main(endpoint: ModelEndpoint) -> None:
    """Ask one question after the other."""
    complete: Any = litellm.completion  # pyright: ignore - older versions have unknown types in it
    completion = with_compaction(complete, on_event=report)
    messages: list[Any] = [{"role": "system", "content": "You read logs and answer in one sentence."}]
    for number in range(QUESTIONS):
        messages.append({"role": "user", "content": f"Which worker was slowest in hour {number}?\n{log(number)}"})
        response: Any = completion(
            model=f"openai/{endpoint.model}",
            messages=messages,
            api_base=endpoint.base_url,
            api_key=endpoint.api_key,
            num_retries=2,
            metadata={"session_id": "logs"},
        )
        messages.append(response.choices[0].message)
    print(messages[-1].content)
    print(f"{len(messages)} messages in the list, none of them lost")


if __name__ == "__main__":
    with model_endpoint(*(f"In hour {number} it was worker-4." for number in range(QUESTIONS))) as offered:
        main(offered)
