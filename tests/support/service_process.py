"""Real server processes for tests: started on a free port of 127.0.0.1, asked, killed, and always cleaned up."""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx
import orjson

from forking import popen

START_SECONDS = 100.0

Spawn = Callable[..., "subprocess.Popen[str]"]


class Served(NamedTuple):
    """A running service; each test keeps to collections of its own."""

    address: str
    data: Path


# Ports that the system does not give to connections, in turn, so that none is lost between this question and the server's start.
# Every test process has a thousand of its own, and begins anywhere in it, as other runs of the tests may be under way.
_FIRST_PORT = 20_000 + 1_000 * int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0) % 12_000
_PORTS = itertools.count(os.getpid())


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on, and that no other test is given meanwhile."""
    for number in itertools.islice(_PORTS, 1_000):
        with socket.socket() as probe:
            port = _FIRST_PORT + number % 1_000
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError(f"no port from {_FIRST_PORT} on is free")


@contextmanager
def spawning() -> Iterator[Spawn]:
    """For the block, a function that starts `python -m MODULE ARGUMENTS` as a process, without the KINBIN_* variables of the shell."""
    started: list[subprocess.Popen[str]] = []

    def start(module: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KINBIN_")}
        process = popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            env={**inherited, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.communicate()


def until_serving(process: subprocess.Popen[str]) -> list[str]:
    """The lines that a demo prints until it waits to be ended."""
    assert process.stdout is not None
    printed = []
    for line in process.stdout:
        printed.append(line)
        if line.startswith("Serving until Ctrl-C"):
            break
    return printed


def is_worker(pid: int) -> bool:
    """Whether this process is there and was spawned to serve."""
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def worker_pids(process: int) -> set[int]:
    """The processes that a server has started and that serve."""
    children = [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return {pid for pid in children if is_worker(pid)}


def environment(**settings: Any) -> dict[str, str]:
    """The environment of a server with these settings."""
    return {**os.environ, **{f"KINBIN_{name.upper()}": str(value) for name, value in settings.items()}}


class ServerProcess:
    """`python -m kinbin_service` on a data directory; settings are KINBIN_* variables without the prefix."""

    popen: Callable[..., subprocess.Popen[bytes]] = staticmethod(popen)

    def __init__(self, data: Path, **settings: Any) -> None:
        self.port, self.data = free_port(), data
        self.log = data.parent / f"{data.name}.log"
        self.client = self.pinned()
        self._environment = environment(data_dir=data, port=self.port, **settings)
        self._process: subprocess.Popen[bytes] | None = None

    def pinned(self) -> httpx.Client:
        """A client with one connection of its own, which stays with whichever worker accepted it."""
        one = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60, trust_env=False, limits=one)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was started."""
        assert self._process is not None
        return self._process

    def launch(self) -> None:
        """Start the process."""
        with self.log.open("ab") as log:
            self._process = self.popen(
                [sys.executable, "-m", "kinbin_service"], env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_until_ready(self, workers: int = 1) -> None:
        """Return when so many workers have ever become ready; fail with the log if the process ends before that."""
        deadline = time.monotonic() + START_SECONDS
        while len(self.events("ready")) < workers:
            assert self.process.poll() is None, self.logged()
            assert not self.events("failed"), self.logged()
            assert time.monotonic() < deadline, f"the server is not ready after {START_SECONDS:g} s:\n{self.logged()}"
            time.sleep(0.01)

    def post(self, path: str, content: Any, *, status: int = 200) -> Any:
        """The JSON answer to a JSON body, whose status must be as expected."""
        response = self.client.post(path, json=content)
        assert response.status_code == status, (response.status_code, response.text[:500])
        return orjson.loads(response.content)

    def terminate(self, seconds: float = 60) -> int:
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def logged(self) -> str:
        """What the process has logged so far."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def events(self, message: str) -> list[dict[str, Any]]:
        """Lines of the log with this message."""
        lines = [orjson.loads(line) for line in self.logged().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if line["message"] == message]

    def __enter__(self) -> Self:
        self.launch()
        try:
            self.wait_until_ready(int(self._environment.get("KINBIN_WORKERS", 1)))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever state it is in."""
        self.client.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)


class FreshServer(ServerProcess):
    """A server that begins as an interpreter of its own, and is no fork."""

    popen = subprocess.Popen


class QuickServer(ServerProcess):
    """A server that is started again and again, each time ready when `start` returns."""

    def __init__(self, data: Path, **settings: Any) -> None:
        super().__init__(data, **settings)
        self.starts = 0

    def start(self) -> None:
        """Start a server, and wait until it is ready."""
        self.launch()
        self.starts += 1
        self.wait_until_ready(self.starts)

    def stop(self, sign: signal.Signals) -> int:
        """Send a signal to the server, and return its exit status once it has ended."""
        self.process.send_signal(sign)
        status = self.process.wait(60)
        self.client.close()
        self.client = self.pinned()
        return status

    def __enter__(self) -> Self:
        return self
