"""NATS servers of this machine, for development and tests: processes with a folder each, on loopback.

`sync_interval: always`, as a cluster has to run: with the default of two minutes a loss of power loses what was acknowledged.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from kinbin.errors import install

__all__ = ["ROUTE_PINGS", "NatsServers", "Process", "free_port"]

_PORTS = range(10_000, 16_000)
"""Systems give none of these to connections by themselves, so that a server that was killed finds its own free when it starts again."""


def free_port() -> int:
    """A port of loopback that nothing listens on, and that no other process is given here while this one lives."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, socket.socket(type=socket.SOCK_DGRAM) as sign:
            try:
                probe.bind(("127.0.0.1", port))
                # A datagram socket of the same number says that it is taken. It ends with the process, however that ends.
                sign.bind(("127.0.0.1", port))
            except OSError:
                continue
            sign.detach()
            return port
    raise OSError("no port of loopback is free")


class Process:
    """A program that is started, killed and started again, with its output in a file. Not for several threads."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.command = command
        self.log = log
        self.kept: tuple[int, ...] = ()
        """Open files that it inherits: a lock is held for as long as it runs."""
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id, once it was started."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs. It is in a session of its own, so that Ctrl-C reaches only who started it."""
        if self.running:
            return
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,
                pass_fds=self.kept,
            )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal: SIGSTOP and SIGCONT, for one."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def stop(self, *, seconds: float = 15.0) -> None:
        """End it as its operator would, and kill it when that takes too long."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it at once, as kill -9 does, and wait until it is gone."""
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def said(self, characters: int = 2_000) -> str:
        """The end of what it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-characters:] if self.log.exists() else ""


ROUTE_PINGS = 'ping_interval: "1s", ping_max: 2'
"""Of servers to each other. A server that hears nobody and is heard calls elections without end, and no log takes a write: one whose route
carries one way alone is left out by the others after some seconds. By default that takes a minute or more."""


class NatsServers:
    """One or three NATS servers with JetStream in a folder. Ports and files stay over restarts."""

    def __init__(self, folder: Path, count: int = 3, *, max_file_bytes: int = 64 * 1_073_741_824) -> None:
        if count not in {1, 3, 5}:
            raise ValueError("1, 3 or 5 servers: a majority has to be there")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ports = [free_port() for _ in range(count)]
        self._routes = [free_port() for _ in range(count)]
        self._monitors = [free_port() for _ in range(count)]
        self._max_file_bytes = max_file_bytes
        program = _program()
        self.processes = []
        for number in range(count):
            file = folder / f"nats-{number}.conf"
            file.write_text(self._configuration(number), encoding="utf-8")
            self.processes.append(Process([program, "-c", str(file)], folder / f"nats-{number}.log"))

    def _configuration(self, number: int) -> str:
        lines = [
            f"server_name: nats-{number}",
            f"listen: 127.0.0.1:{self.ports[number]}",
            f"http: 127.0.0.1:{self._monitors[number]}",
            f'jetstream {{ store_dir: "{self.folder}/nats-{number}", sync_interval: always, max_file: {self._max_file_bytes} }}',
            "max_payload: 8MB",
            "max_pending: 256MB",
        ]
        if len(self.ports) > 1:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
            lines.append(f"cluster {{ name: kinbin, listen: 127.0.0.1:{self._routes[number]}, routes: [{routes}], {ROUTE_PINGS} }}")
        return "\n".join(lines) + "\n"

    @property
    def addresses(self) -> str:
        """What KINBIN_CLUSTER_NATS has to be."""
        return ",".join(f"nats://127.0.0.1:{port}" for port in self.ports)

    @property
    def replicas(self) -> int:
        """What KINBIN_CLUSTER_NATS_REPLICAS has to be."""
        return min(3, len(self.ports))

    def start(self, *, seconds: float = 60.0) -> None:
        """Start all of them, and wait until they have chosen a leader and are up to date. Raises RuntimeError."""
        for process in self.processes:
            process.start()
        self.wait(seconds=seconds)

    def wait(self, *, seconds: float = 60.0) -> None:
        """Wait until all that run are healthy. Raises RuntimeError with what they said."""
        deadline = time.monotonic() + seconds
        for process, port in zip(self.processes, self._monitors, strict=True):
            while not self._healthy(port):
                if not process.running or time.monotonic() > deadline:
                    raise RuntimeError(f"a NATS server is not ready: {process.said()}")
                time.sleep(0.05)

    @staticmethod
    def _healthy(port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        """End all of them."""
        for process in self.processes:
            process.send(signal.SIGCONT)
            process.send(signal.SIGTERM)
        for process in self.processes:
            process.stop()


def _program() -> str:
    """The server: beside the interpreter, where its wheel puts it, or on the PATH. Raises FileNotFoundError."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError(f"there is no program nats-server: {install('cluster')} brings it")
    return found
