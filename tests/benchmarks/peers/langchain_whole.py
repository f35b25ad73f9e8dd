"""The same with a tenth of the window kept, and the whole text shown to the summarizer."""

from tests.benchmarks.peers import langchain_fraction


class Peer(langchain_fraction.Peer):
    name = "LangChain at 80 %, keeps 10 %, whole text"
    options = {"keep": ("fraction", 0.1), "trim_tokens_to_summarize": None}  # noqa: RUF012
