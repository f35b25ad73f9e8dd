"""`CompactionCallback` in a real LiteLLM proxy: its own process, its own configuration, HTTP on both sides."""

import collections
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

# The packages of litellm's extra "proxy".
pytest.importorskip("fastapi")
pytest.importorskip("apscheduler")
pytest.importorskip("backoff")
pytest.importorskip("httpx")

import httpx

from tests.conversations import Chat, steps, system, user
from tests.provider import Answer, LoopbackProvider, Rejection, Side

WINDOW = 8_192
SECRET = "KINGFISHER"
START_SECONDS = 180

CONFIG = """
model_list:
  - model_name: agent
    litellm_params: {{model: openai/gpt-4o-mini, api_base: "{url}", api_key: agent}}
    model_info: {{max_input_tokens: {window}}}
  - model_name: small
    litellm_params: {{model: openai/gpt-4.1-nano, api_base: "{url}", api_key: small}}
    model_info: {{max_input_tokens: 4096}}
litellm_settings:
  callbacks: compaction_config.callback
router_settings:
  num_retries: 0
  enable_pre_call_checks: true
  fallbacks: [{{agent: [small]}}]
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
"""
MODULE = """
from compaction_adapters.litellm import CompactionCallback

callback = CompactionCallback()
"""
PROGRAM = "import litellm; litellm.run_server()"
"""The program of the command `litellm`."""


class Proxy:
    """A client of the running proxy, and the provider's sides."""

    def __init__(self, provider: LoopbackProvider, client: httpx.Client) -> None:
        self.provider = provider
        self.client = client

    def side(self, *answers: Answer | Rejection, name: str = "agent", window: int = WINDOW) -> Side:
        side = self.provider.conversation(name, window=window, answers=answers)
        side.summary_text = f"## Goal\n- {SECRET}"
        return side

    def ask(self, messages: list[Chat], model: str = "agent", **arguments: Any) -> httpx.Response:
        return self.client.post("/v1/chat/completions", json={"model": model, "messages": messages, **arguments})


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("proxy")
    key = f"sk-{secrets.token_hex(32)}"
    with LoopbackProvider() as provider, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        (folder / "config.yaml").write_text(CONFIG.format(url=provider.openai_url, window=WINDOW))
        (folder / "compaction_config.py").write_text(MODULE)
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key}
        environment.pop("DATABASE_URL", None)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            _wait_until_up(process)
            headers = {"Authorization": f"Bearer {key}"}
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
                yield Proxy(provider, client)
        finally:
            process.terminate()
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()


def _wait_until_up(process: subprocess.Popen[str]) -> None:
    """Read the proxy's output until it serves, and from then on in a thread, so that it never waits for a reader."""
    assert process.stdout is not None
    last_words: collections.deque[str] = collections.deque(maxlen=40)
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    for line in process.stdout:
        last_words.append(line)
        if "Uvicorn running" in line:
            break
    timer.cancel()
    assert "Uvicorn running" in last_words[-1], "the proxy did not start:\n" + "".join(last_words)
    threading.Thread(target=collections.deque, args=(process.stdout, 0), daemon=True).start()


def text_of(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


def talk(topic: str, number: int) -> list[Chat]:
    return [{**message, "content": f"{topic}: {message['content']}"} for message in steps(15, first=15 * number)]


def test_a_long_conversation_stays_inside_the_window(proxy: Proxy) -> None:
    side = proxy.side(*[Answer(f"answer {number}") for number in range(6)])
    messages: list[Chat] = [system(), user("Port the parser, and never touch the public API.")]
    for number in range(6):
        messages += talk("ledger", number)
        assert text_of(proxy.ask(messages, metadata={"session_id": "long"})) == f"answer {number}"
    assert not side.rejections
    asked = [request.is_summary for request in side.requests]
    assert 2 <= asked.count(True) < 6
    last = side.model_requests[-1]
    assert SECRET in json.dumps(last.body)
    assert "never touch the public API" in json.dumps(last.body)
    assert len(last.messages) < len(messages)


def test_a_stream_is_compacted(proxy: Proxy) -> None:
    side = proxy.side(Answer("word by word"))
    messages = [system(), user("Stream it."), *steps(60)]
    response = proxy.ask(messages, stream=True, metadata={"session_id": "stream"})
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "word by word"
    assert [request.is_summary for request in side.requests] == [True, False]
    assert SECRET in json.dumps(side.requests[1].body)
    assert SECRET not in response.text


def test_a_fallback_gets_messages_that_fit_it(proxy: Proxy) -> None:
    """The messages are made to fit the deployment that is asked, from what the client sent."""
    down = Rejection(500, {"error": {"message": "The server had an error", "type": "server_error"}})
    side, small = proxy.side(down), proxy.side(Answer("small"), name="small", window=4_096)
    messages = [system(), user("Fall back."), *steps(20)]
    assert text_of(proxy.ask(messages, metadata={"session_id": "falls"})) == "small"
    assert len(side.model_requests[0].messages) == len(messages)
    assert [request.status for request in small.model_requests] == [200]
    assert len(small.model_requests[0].messages) < len(messages)
