"""Summaries by ADK's models."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Final, NamedTuple, cast

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.registry import LLMRegistry
from google.genai import types

from compaction_adapters.google_adk.contents import FORMAT, read_response, with_contents
from compaction_adapters.google_adk.planned import Send
from compaction_adapters.kit import ask_in_place, summary_of
from compaction_hooks import LiveCall, Summarizer, Summary, SummaryRequest
from compaction_hooks.arguments import format_name, is_model_name
from compaction_hooks.errors import ConfigurationError

SENT: Final = "google_adk_sent"
"""The option of a call that holds its `Sent`."""


def summarizer(model: BaseLlm | str) -> Summarizer:
    """Return a summarizer that asks a model: one of ADK's models, or the name of one.

    Raises:
        ConfigurationError: `model` is none of these, or ADK knows no model of this name.
    """
    refused = ConfigurationError(f"summarizer({format_name(model)}): give one of ADK's models, or a name that it knows")
    if not (is_model_name(model) if isinstance(model, str) else isinstance(model, BaseLlm)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise refused

    try:
        llm = LLMRegistry.new_llm(model) if isinstance(model, str) else model
    except ValueError as error:
        raise refused from error
    return ask_by(llm.generate_content_async, llm.model, types.GenerateContentConfig())


def ask_by(send: Send, model: str | None, config: types.GenerateContentConfig) -> Summarizer:
    """Return a summarizer that asks by a model's own function.

    Args:
        config: The options of a call of this model; those of the connection and of safety are the summary's too.
    """

    async def ask(request: SummaryRequest) -> Summary:
        # No limit of the answer: Gemini counts its thoughts as part of it.
        asked = LlmRequest(
            model=model,
            contents=[types.Content(role="user", parts=[types.Part(text=request.prompt)])],
            config=types.GenerateContentConfig(
                system_instruction=request.system,
                http_options=config.http_options,
                safety_settings=config.safety_settings,
                labels=config.labels,
            ),
        )

        return await _read_summary(send, asked)

    return ask


class Sent(NamedTuple):
    """A call: the model's function, and the request without its contents."""

    send: Send
    request: LlmRequest


def in_place(model: BaseLlm | str) -> Summarizer:
    """Return a summarizer that asks the conversation's own model for the summary at the end of the conversation, as it is.

    The provider has most of that request in its cache. It is sent with the options of the last call, without a limit of the answer,
    where that costs less than a transcript and fits; otherwise, and once if the answer is no summary, a model is asked as by
    `summarizer(model)`.

    Args:
        model: As in `summarizer`: for the summaries by a transcript.

    Raises:
        ConfigurationError: as `summarizer`.
    """
    return in_place_or(summarizer(model))


def in_place_or(by_transcript: Summarizer) -> Summarizer:
    """Return a summarizer that asks in place by the last call, and otherwise as the given one."""

    async def ask(live: LiveCall, _: SummaryRequest) -> Summary:
        sent = cast("Sent", (live.request or {})[SENT])
        asked = with_contents(sent.request, live.messages)
        asked.config.max_output_tokens = None
        return await _read_summary(sent.send, asked)

    return ask_in_place(ask, lambda summary: summary, by_transcript)


async def _read_summary(send: Send, asked: LlmRequest) -> Summary:
    async with aclosing(send(asked, False)) as responses:
        answers = [response async for response in responses]
    if not answers:
        raise ValueError(f"{asked.model} gave no answer")

    response = answers[-1]
    read, counted = FORMAT.read(response.content or types.Content(role="model"))[0], read_response(response)
    answer = replace(read, usage=counted.usage if counted else None)
    return summary_of(answer, response.finish_reason)
