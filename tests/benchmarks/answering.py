"""A server in a process of its own that gives every request of a client the same answer at once."""

import json
import multiprocessing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.queues import Queue
from typing import Any

OPENAI_PATH, ANTHROPIC_PATH = "/v1/chat/completions", "/v1/messages"
ANSWERS: Mapping[str, dict[str, Any]] = {
    OPENAI_PATH: {
        "id": "one",
        "object": "chat.completion",
        "created": 1,
        "model": "model",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Fine."}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    },
    ANTHROPIC_PATH: {
        "id": "one",
        "type": "message",
        "role": "assistant",
        "model": "model",
        "content": [{"type": "text", "text": "Fine."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    },
}
"""The answers by path of the API."""


class Handler(BaseHTTPRequestHandler):
    """Reads a request and writes the answer of its path."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet, or the client waits 40 ms for the second

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(ANSWERS[self.path]).encode()

        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Write no line for a request."""


def serve(ports: "Queue[int]") -> None:
    """Tell the port, then answer until the process ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ports.put(server.server_port)
    server.serve_forever()


@contextmanager
def answer_requests() -> Iterator[str]:
    """Run the server, and yield its address."""
    context = multiprocessing.get_context("spawn")
    ports: Queue[int] = context.Queue()
    process = context.Process(target=serve, args=(ports,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ports.get()}"
    finally:
        process.terminate()
        process.join()
