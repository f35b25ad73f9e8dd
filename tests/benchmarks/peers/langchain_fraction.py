"""LangChain's SummarizationMiddleware with the trigger of the examples in its documentation."""

from tests.benchmarks.peers import langchain_middleware


class Peer(langchain_middleware.Peer):
    name = "LangChain at 80 %"
    trigger = ("fraction", 0.8)
