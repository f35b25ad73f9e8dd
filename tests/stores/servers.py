"""Real servers for tests: found on this machine, started on a free loopback port, stopped at the end."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

START_SECONDS = 30.0
PASSWORD = "do not tell"
"""Of the servers' one user; error messages must not hold it."""


@dataclass(slots=True)
class Server:
    """A server that a test may kill and start again on the same port and data."""

    folder: Path
    port: int
    command: list[str]
    is_up: Callable[[int], bool]
    user: str | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self.user
            )
        end = time.monotonic() + START_SECONDS
        while not self.is_up(self.port):
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)
            if self.process.returncode is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.command[0]} did not start:\n{(self.folder / 'log').read_text()}")

    def stop(self, signal: int) -> None:
        assert self.process is not None
        self.process.send_signal(signal)
        self.process.wait(START_SECONDS)


def find_program(name: str, *folders: str) -> str:
    """A program's path; skips the test where it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_existing(folders)]))
    return found or pytest.skip(f"{name} is not installed: {INSTALL[name]}")


INSTALL = {"redis-server": "apt-get install redis-server", "postgres": "apt-get install postgresql"}


def _existing(patterns: tuple[str, ...]) -> list[str]:
    found = [str(path) for pattern in patterns for path in Path("/").glob(pattern.lstrip("/"))]
    return sorted(found, reverse=True)  # the newest version first


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder of short path that other users may enter: a server may run as another user."""
    folder = Path(tempfile.mkdtemp(prefix="stores-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis_server() -> Iterator[Server]:
    """A Redis with a password that keeps what it answered: "everysec" writes late while it waits for its disk."""
    program = find_program("redis-server")
    with scratch_folder() as folder:
        port = free_port()
        options = {
            "port": port,
            "bind": "127.0.0.1",
            "dir": folder,
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "requirepass": PASSWORD,
        }
        command = [program, *(text for name, value in options.items() for text in (f"--{name}", str(value)))]
        server = Server(folder, port, command, _redis_answers)
        server.start()
        try:
            yield server
        finally:
            server.stop(9)


def _redis_answers(port: int) -> bool:
    """Whether it answers PING: with an error, since no password was given, or that it is loading still."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(100).startswith(b"-NOAUTH")
    except OSError:
        return False


@contextmanager
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL with one user, "worker", and one database, "work"."""
    program = find_program("postgres", "/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin")
    initdb = Path(program).resolve().with_name("initdb")
    if not initdb.exists():
        pytest.skip("initdb is not installed beside postgres: apt-get install postgresql")
    with scratch_folder() as folder:
        user = _unprivileged_user()
        data, secret = folder / "data", folder / "secret"
        data.mkdir(mode=0o700)
        secret.write_text(PASSWORD)
        if user is not None:
            shutil.chown(folder, user)
            shutil.chown(data, user)
        subprocess.run(
            [str(initdb), "-D", str(data), "-U", "worker", f"--pwfile={secret}", "-A", "scram-sha-256", "-E", "UTF8"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            user=user,
        )
        port = free_port()
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": folder}
        command = [program, "-D", str(data), *(f"--{name}={value}" for name, value in settings.items())]
        server = Server(folder, port, command, _postgres_answers, user)
        server.start()
        try:
            yield server
        finally:
            server.stop(3)  # SIGQUIT: at once


def _unprivileged_user() -> str | None:
    """Another user where this is root, as whom PostgreSQL refuses to run."""
    return "nobody" if os.geteuid() == 0 else None


def _postgres_answers(port: int) -> bool:
    """Whether it takes connections: it answers a request for TLS by one letter, and a start by an error while it is not ready."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            start = b"\x00\x03\x00\x00user\x00worker\x00database\x00postgres\x00\x00"
            connection.sendall((len(start) + 4).to_bytes(4, "big") + start)
            return connection.recv(100).startswith(b"R")  # asks for the password
    except OSError:
        return False
