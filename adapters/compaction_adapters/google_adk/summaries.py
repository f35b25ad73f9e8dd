"""Summaries by ADK's models."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.registry import LLMRegistry
from google.genai import types

from compaction_adapters.google_adk.contents import FORMAT, read_response
from compaction_adapters.google_adk.planned import Send
from compaction_adapters.kit import summary_of
from compaction_hooks import Summarizer, Summary, SummaryRequest
from compaction_hooks.arguments import format_name, is_model_name
from compaction_hooks.errors import ConfigurationError


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

        async with aclosing(send(asked, False)) as responses:
            answers = [response async for response in responses]
        if not answers:
            raise ValueError(f"{model} gave no answer")

        response = answers[-1]
        read, counted = FORMAT.read(response.content or types.Content(role="model"))[0], read_response(response)
        answer = replace(read, usage=counted.usage if counted else None)
        return summary_of(answer, response.finish_reason)

    return ask
