"""The bits of tokens in a GGUF model: C functions of llama.cpp, through ctypes, from the library inside the package xllamacpp.

    python -m tests.benchmarks.judge.llama MODEL.gguf

Checks a model: the second occurrence of a sentence must cost a small part of its first. xllamacpp's own Python functions tell the
probabilities of new tokens only, so they cannot score a text.
"""

import ctypes as c
import importlib.util
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

NUMBER, POINTER, TRUTH = c.c_int32, c.c_void_p, c.c_bool
NUMBERS = c.POINTER(NUMBER)
BATCH_TOKENS = 512
ROOM_OFFSET, THREADS_OFFSET = 0, 20
"""Places of fields in llama_context_params: n_ctx, n_batch, n_ubatch; and four numbers, of which the last two are the threads."""
DEFAULT_THREADS = (4, 4)


class _Parameters(c.Structure):
    """The parameters of a model or a context, passed by value: the defaults of any version, with a few of the first fields set."""

    _fields_: ClassVar = [("raw", c.c_uint8 * 512)]


class _Batch(c.Structure):
    _fields_: ClassVar = [
        ("n_tokens", NUMBER),
        ("token", NUMBERS),
        ("embd", POINTER),
        ("pos", NUMBERS),
        ("n_seq_id", NUMBERS),
        ("seq_id", c.POINTER(NUMBERS)),
        ("logits", c.POINTER(c.c_int8)),
    ]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "log_set": (None, [POINTER, POINTER]),
    "backend_init": (None, []),
    "model_default_params": (_Parameters, []),
    "model_load_from_file": (POINTER, [c.c_char_p, _Parameters]),
    "model_get_vocab": (POINTER, [POINTER]),
    "context_default_params": (_Parameters, []),
    "init_from_model": (POINTER, [POINTER, _Parameters]),
    "vocab_n_tokens": (NUMBER, [POINTER]),
    "tokenize": (NUMBER, [POINTER, c.c_char_p, NUMBER, NUMBERS, NUMBER, TRUTH, TRUTH]),
    "token_to_piece": (NUMBER, [POINTER, NUMBER, c.c_char_p, NUMBER, NUMBER, TRUTH]),
    "get_memory": (POINTER, [POINTER]),
    "memory_seq_rm": (TRUTH, [POINTER, NUMBER, NUMBER, NUMBER]),
    "batch_init": (_Batch, [NUMBER, NUMBER, NUMBER]),
    "decode": (NUMBER, [POINTER, _Batch]),
    "get_logits_ith": (c.POINTER(c.c_float), [POINTER, NUMBER]),
}
"""Results and arguments of the functions, without the prefix "llama_"."""


def _load_functions() -> dict[str, Any]:
    found = importlib.util.find_spec("xllamacpp")
    if found is None or not found.submodule_search_locations:
        sys.exit("xllamacpp is not installed: nox -s judge installs it")
    library = c.CDLL(str(next(Path(found.submodule_search_locations[0]).glob("xllamacpp*.so"))))
    functions = {name: getattr(library, f"llama_{name}") for name in _FUNCTIONS}
    for name, (result, arguments) in _FUNCTIONS.items():
        functions[name].restype, functions[name].argtypes = result, arguments
    return functions


class LlamaModel:
    """A GGUF model in this process.

    Attributes:
        name: The name of its file.
        room: The most tokens that it reads.
    """

    def __init__(self, path: Path, room: int, threads: int) -> None:
        self.name, self.room = path.name, room
        self._c = _load_functions()
        self._quiet = c.CFUNCTYPE(None, c.c_int, c.c_char_p, POINTER)(lambda level, text, data: None)
        self._c["log_set"](c.cast(self._quiet, POINTER), None)
        self._c["backend_init"]()
        model = self._c["model_load_from_file"](str(path).encode(), self._c["model_default_params"]())
        if not model:
            sys.exit(f"{path}: no GGUF model that this llama.cpp can load")
        self._state = self._c["init_from_model"](model, self._context_parameters(room, threads))
        if not self._state:
            sys.exit(f"no memory for a context of {room:,} tokens")

        self._vocabulary = self._c["model_get_vocab"](model)
        self._size = self._c["vocab_n_tokens"](self._vocabulary)
        self._memory = self._c["get_memory"](self._state)
        self._batch = self._c["batch_init"](BATCH_TOKENS, 0, 1)
        self._held: list[int] = []

    def _context_parameters(self, room: int, threads: int) -> _Parameters:
        parameters = self._c["context_default_params"]()
        raw = bytearray(parameters.raw)
        if struct.unpack_from("<2i", raw, THREADS_OFFSET + 8) != DEFAULT_THREADS:
            sys.exit("this version of xllamacpp has other parameters: install the one that pyproject.toml names")
        struct.pack_into("<3I", raw, ROOM_OFFSET, room, BATCH_TOKENS, BATCH_TOKENS)
        struct.pack_into(
            "<2I2i", raw, THREADS_OFFSET, 0, 0, threads, threads
        )  # 0 outputs: as many as a batch has tokens
        c.memmove(parameters.raw, bytes(raw), len(raw))
        return parameters  # type: ignore[no-any-return]

    def tokenize(self, text: str, *, marks: bool = False) -> list[int]:
        """Return the tokens of a text, in which marks such as those of turns are text unless `marks` is true."""
        raw = text.encode("utf-8", "replace")
        found = (NUMBER * (len(raw) + 16))()
        count = self._c["tokenize"](self._vocabulary, raw, len(raw), found, len(found), False, marks)
        return found[:count]

    def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        """Return the texts of tokens, which may be parts of characters."""
        buffer = c.create_string_buffer(256)
        arguments = buffer, len(buffer), 0, True
        return [buffer.raw[: self._c["token_to_piece"](self._vocabulary, one, *arguments)] for one in tokens]

    def bits(self, tokens: Sequence[int], places: Sequence[int]) -> tuple[list[float], int]:
        """Return the bits of the tokens at some places, each after all tokens before it, and how many tokens were evaluated.

        The beginning shared with the last call is not evaluated again.
        """
        wanted, found = set(places), dict[int, float]()
        shared = next(
            (at for at, (old, new) in enumerate(zip(self._held, tokens, strict=False)) if old != new),
            min(len(self._held), len(tokens)),
        )
        start = at = min(shared, min(wanted) - 1)
        if not self._c["memory_seq_rm"](self._memory, 0, at, -1):
            sys.exit("this model cannot forget its newest tokens, so it cannot judge")
        while at < len(tokens):
            count = min(BATCH_TOKENS, len(tokens) - at)
            self._evaluate(tokens, at, count, wanted)
            for index, place in enumerate(range(at + 1, at + count + 1)):
                if place in wanted:
                    found[place] = self._bits_of(index, tokens[place])
            at += count
        self._held = [*tokens]
        return [found[place] for place in places], len(tokens) - start

    def _evaluate(self, tokens: Sequence[int], start: int, count: int, wanted: set[int]) -> None:
        batch = self._batch
        batch.n_tokens = count
        for index in range(count):
            batch.token[index], batch.pos[index] = tokens[start + index], start + index
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, 0
            batch.logits[index] = start + index + 1 in wanted
        if self._c["decode"](self._state, batch) != 0:
            raise RuntimeError(f"llama.cpp did not evaluate {count} tokens at {start}")

    def _bits_of(self, index: int, token: int) -> float:
        """Return the bits of a token by the scores behind a place of the batch."""
        scores = np.ctypeslib.as_array(self._c["get_logits_ith"](self._state, index), (self._size,))
        top = scores.max()
        return float((top + np.log(np.exp(scores - top).sum()) - scores[token]) / np.log(2))


def main() -> None:
    """Print the bits of a sentence's first and second occurrence."""
    model = LlamaModel(Path(sys.argv[1]), room=2_048, threads=2)
    said = "The answer 48213 is in /srv/depot/ledger-7.csv.\n"
    other = "Nothing of interest was found on this page either, so it was turned.\n" * 25
    front, between = model.tokenize("<bos>Notes.\n", marks=True), model.tokenize(other)
    sentence = model.tokenize(said)
    tokens = front + sentence + between + sentence
    first, again = range(len(front), len(front) + len(sentence)), range(len(tokens) - len(sentence), len(tokens))
    costs, _ = model.bits(tokens, [*first, *again])
    print(f"first {sum(costs[: len(sentence)]):.1f} bits, again {sum(costs[len(sentence) :]):.1f} bits")


if __name__ == "__main__":
    main()
