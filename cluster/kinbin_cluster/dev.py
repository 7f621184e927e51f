"""A whole cluster on this machine, on loopback: NATS servers, nodes and gateways, each a process, all files in one folder.

`kinbin cluster dev` starts it to try things; tests and fault campaigns start the same one, and stop and kill its parts.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

from kinbin_cluster.servers import NatsServers, Process, free_port

__all__ = ["DevCluster", "Part", "locked"]

READY_SECONDS = 120.0


class Part(Process):
    """A node or a gateway: a process that answers at an address."""

    def __init__(self, module: str, name: str, folder: Path, environment: dict[str, str], port: int) -> None:
        self.name = name
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        # What this shell sets for a server of its own is not meant for these.
        own = {key: value for key, value in os.environ.items() if not key.startswith("KINBIN_")}
        super().__init__([sys.executable, "-m", module], folder / f"{name}.log", own | environment)

    def start(self) -> None:
        """Start it, unless it runs. Raises RuntimeError where something listens at its port, which would seem to be it."""
        with socket.socket() as probe:
            if not self.running and probe.connect_ex(("127.0.0.1", self.port)) == 0:
                raise RuntimeError(f"something listens at {self.address} already: end it, or give another --port")
        super().start()

    def ready(self) -> bool:
        """Whether it takes requests."""
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def wait(self, *, seconds: float = READY_SECONDS) -> None:
        """Wait until it takes requests. Raises RuntimeError with what it said."""
        deadline = time.monotonic() + seconds
        while not self.ready():
            if not self.running or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is not ready: {self.said()}")
            time.sleep(0.05)


class DevCluster:
    """The processes by name: `servers` (NATS), `nodes` and `gateways`. `with DevCluster(folder) as cluster` starts and stops all.

    folder: made if absent; what is in it is taken up again, by one at a time: RuntimeError where parts of another one, or of one that was
    killed, run on it. extra: further environment variables of nodes and gateways.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        gateways: int = 1,
        servers: int = 3,
        gateway_port: int | None = None,
        extra: dict[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self._lock = locked(self.folder)
        self.servers = NatsServers(self.folder / "nats", servers)
        self.key = _kept_key(self.folder / "key")
        self._extra = extra or {}
        self.nodes: dict[str, Part] = {}
        self.gateways: dict[str, Part] = {}
        for number in range(nodes):
            self.add_node(f"node-{number}")
        for number in range(gateways):
            self._add_gateway(f"gateway-{number}", gateway_port + number if gateway_port else free_port())

    @property
    def environment(self) -> dict[str, str]:
        """The variables that every part has, and that `kinbin cluster` needs to reach this cluster."""
        return {
            "KINBIN_CLUSTER_NATS": self.servers.addresses,
            "KINBIN_CLUSTER_NATS_REPLICAS": str(self.servers.replicas),
            "KINBIN_CLUSTER_KEY": self.key,
            "KINBIN_HOST": "127.0.0.1",
        }

    def add_node(self, name: str, zone: str = "") -> Part:
        """One more node, which is not started yet."""
        port = free_port()
        special = {
            "KINBIN_PORT": str(port),
            "KINBIN_DATA_DIR": str(self.folder / name),
            "KINBIN_CLUSTER_NODE": name,
            "KINBIN_CLUSTER_ADDRESS": f"http://127.0.0.1:{port}",
            "KINBIN_CLUSTER_ZONE": zone,
        }
        self.nodes[name] = Part("kinbin_cluster.node", name, self.folder, self.environment | special | self._extra, port)
        self.nodes[name].kept = (self._lock.fileno(),)
        return self.nodes[name]

    def _add_gateway(self, name: str, port: int) -> None:
        special = {"KINBIN_PORT": str(port), "KINBIN_CLUSTER_NODE": name, "KINBIN_DATA_DIR": str(self.folder / name)}
        self.gateways[name] = Part("kinbin_cluster.gateway", name, self.folder, self.environment | special | self._extra, port)

    @property
    def parts(self) -> list[Part]:
        """Nodes, then gateways."""
        return [*self.nodes.values(), *self.gateways.values()]

    @property
    def address(self) -> str:
        """Of the first gateway."""
        return next(iter(self.gateways.values())).address

    def start(self) -> None:
        """Start all, and wait until all take requests. Raises RuntimeError with what the one said that does not."""
        if self._lock.closed:
            self._lock = locked(self.folder)
        for process in (*self.servers.processes, *self.parts):
            process.kept = (self._lock.fileno(),)
        self.servers.start()
        for part in self.parts:
            part.start()
        for part in self.parts:
            part.wait()

    def stop(self) -> None:
        """End all: gateways, then nodes, then the servers. Files stay."""
        for part in reversed(self.parts):
            part.stop()
        self.servers.stop()
        self._lock.close()

    def __enter__(self) -> DevCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def locked(folder: Path) -> IO[str]:
    """The lock of a folder, held until it is closed here and all processes that inherited it have ended. Raises RuntimeError."""
    lock = (folder / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise RuntimeError(
            f"parts of a cluster run on {folder} already: end them, or give another --folder. `pgrep -af {folder}` lists its NATS servers"
        ) from None
    return lock


def _kept_key(path: Path) -> str:
    """The key between the parts: made once for a folder."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(16), encoding="utf-8")
    return path.read_text(encoding="utf-8")
