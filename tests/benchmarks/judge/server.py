"""Models behind HTTP: one that returns the log probabilities of a prompt, and the server of a GGUF for texts.

The judge needs the probabilities of tokens that it sends. vLLM's server tells them: `/tokenize`, `/detokenize`, and
`/v1/completions`, which takes token ids and echoes them with "logprobs". llama.cpp's own server does not: its "logprobs" are of new
tokens only. For a GGUF there is `tests.benchmarks.judge.llama`. Summaries and answers come from any OpenAI-compatible server.
"""

import json
import math
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 3_600
BROKEN, MOST_PARTS = "\ufffd", 4
"""The sign for a part of a character, and the most tokens of one."""


def ask_json(address: str, body: Mapping[str, object] | None = None) -> Any:
    """Return the answer of a server to a question in JSON, or to none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
        return json.load(answer)


@cache
def model_of(address: str) -> str:
    """Return the name of the model that a server has."""
    return str(ask_json(f"{address}/v1/models")["data"][0]["id"])


def chat(address: str, messages: Sequence[Mapping[str, str]], max_tokens: int, stop: Sequence[str] = ()) -> str:
    """Return a served model's answer at temperature 0; it goes on with the last message if that is the assistant's."""
    body = {"model": model_of(address), "messages": messages, "temperature": 0, "seed": 1, "max_tokens": max_tokens}
    if messages[-1]["role"] == "assistant":
        # vLLM's names; llama.cpp goes on without them, and ignores them.
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    answer = ask_json(f"{address}/v1/chat/completions", {**body, "stop": stop} if stop else body)
    return answer["choices"][0]["message"]["content"] or ""


@contextmanager
def serve(path: Path, room: int, threads: int) -> Iterator[str]:
    """Serve a GGUF on loopback while the block runs; yield the address."""
    import xllamacpp  # only who asks a GGUF for texts needs it

    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.port, parameters.n_ctx = str(path), 0, room  # 0: a free port
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.n_parallel, parameters.swa_full, parameters.warmup = 1, True, False  # prompts share their beginnings
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server


class ServerModel:
    """A model behind a server that returns the log probabilities of a prompt.

    Attributes:
        name: The name of the model.
        room: The most tokens that it reads.
    """

    def __init__(self, address: str, room: int) -> None:
        self.name, self.room = model_of(address), room
        self._address = address
        self._texts: dict[tuple[int, ...], str] = {}

    def tokenize(self, text: str, *, marks: bool = False) -> list[int]:
        """Return the tokens of a text. The server reads marks in any text as marks, which is the same in all contexts."""
        body = {"model": self.name, "prompt": text, "add_special_tokens": False}
        return [*ask_json(f"{self._address}/tokenize", body)["tokens"]]

    def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        """Return the texts of tokens. The first token of a character that has several gets all of it."""
        found: list[bytes] = []
        run: tuple[int, ...] = ()
        for token in tokens:
            run = (*run, token)
            text = self._text_of(run)
            if BROKEN not in text or len(run) == MOST_PARTS:
                found += [text.encode(), *[b""] * (len(run) - 1)]
                run = ()
        return found + [b""] * len(run)

    def _text_of(self, tokens: tuple[int, ...]) -> str:
        if tokens not in self._texts:
            body = {"model": self.name, "tokens": tokens}
            self._texts[tokens] = ask_json(f"{self._address}/detokenize", body)["prompt"]
        return self._texts[tokens]

    def bits(self, tokens: Sequence[int], places: Sequence[int]) -> tuple[list[float], int]:
        """Return the bits of the tokens at some places, each after all tokens before it, and how many tokens were sent."""
        body = {"model": self.name, "prompt": [*tokens], "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        found = ask_json(f"{self._address}/v1/completions", body)["choices"][0].get("logprobs") or {}
        probabilities: Sequence[float | None] = found.get("token_logprobs") or ()
        if len(probabilities) < len(tokens):
            raise RuntimeError(f"{self._address} returns no log probabilities of a prompt, as vLLM does: use --gguf")
        return [-(probabilities[place] or 0.0) / math.log(2) for place in places], len(tokens)
