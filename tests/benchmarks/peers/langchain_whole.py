"""LangChain's SummarizationMiddleware with a tenth of the window kept, and the whole text shown to the summarizer."""

from __future__ import annotations

from tests.benchmarks.peers import langchain_middleware


class Peer(langchain_middleware.Peer):
    name = "LangChain, keeps 10 %, whole text"
    options = {"keep": ("fraction", 0.1), "trim_tokens_to_summarize": None}  # noqa: RUF012
