"""The loopback server: real HTTP in a thread, for real client libraries."""

import socket
import threading
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from compaction_hooks.testing import Answer
from tests.provider.sides import Overflow, Side
from tests.provider.wordings import WORDINGS, Rejection


class LoopbackProvider:
    """A provider like OpenAI and Anthropic on 127.0.0.1, as a context manager, for any number of conversations."""

    def __init__(self) -> None:
        # Imported here, so that without starlette and uvicorn the package can be imported and its tests are skipped.
        from tests.provider.app import HttpServer

        self._sides: dict[str, Side] = {}
        # asyncio disables Nagle's delay (40 ms a response) only on sockets created with IPPROTO_TCP.
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)
        self._server = HttpServer(self._sides)
        self._thread = threading.Thread(
            target=self._server.run, args=(self._socket,), name="loopback-provider", daemon=True
        )

    def __enter__(self) -> Self:
        # Clients can connect as soon as the socket listens, so there is no need to wait for the thread.
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(128)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._server.stop()
        self._thread.join()

    @property
    def anthropic_url(self) -> str:
        """The base URL for Anthropic's clients."""
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}"

    @property
    def openai_url(self) -> str:
        """The base URL for OpenAI's clients."""
        return f"{self.anthropic_url}/v1"

    def conversation(
        self,
        key: str,
        *,
        window: int = 16_384,
        answers: Sequence[Answer | Rejection] = (),
        wording: str | None = None,
        overflow: Overflow = "reject",
    ) -> Side:
        """Open the conversation of the requests with this API key; it replaces an earlier one."""
        if wording is not None and wording not in WORDINGS:
            raise ValueError(f"wording={wording!r} is not one of {', '.join(WORDINGS)}")
        side = Side(window=window, answers=deque(answers), wording=wording, overflow=overflow)
        self._sides[key] = side
        return side
