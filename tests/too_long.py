"""A model call that fails with the provider's "too long" above a number of characters."""

import asyncio
from collections.abc import Mapping

from tests.conversations import texts

Chat = Mapping[str, object]


class TooLongError(Exception):
    """An overflow as Anthropic words it."""

    def __init__(self, actual: int = 210_000, limit: int = 200_000) -> None:
        super().__init__(f"prompt is too long: {actual} tokens > {limit} maximum")
        self.status_code = 400


class Provider:
    def __init__(self, limit_chars: int, error: Exception | None = None) -> None:
        self.limit_chars = limit_chars
        self.error = error or TooLongError()
        self.sent: list[list[Chat]] = []

    def __call__(self, view: list[Chat]) -> str:
        self.sent.append(view)
        if len(texts(view)) > self.limit_chars:
            raise self.error
        return "answer"

    async def later(self, view: list[Chat]) -> str:
        await asyncio.sleep(0)
        return self(view)


class Answers:
    """A model call that gives one answer after the other, or raises it."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.sent: list[list[Chat]] = []

    def __call__(self, view: list[Chat]) -> object:
        self.sent.append(view)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def answer_with(finish_reason: str, prompt_tokens: int, completion_tokens: int) -> dict[str, object]:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return {"choices": [{"finish_reason": finish_reason}], "usage": usage}
