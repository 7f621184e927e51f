"""A cluster on loopback whose every link can be cut: NATS servers, nodes and gateways, each a process with a folder of its own."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from faults.disks import SmallDisk, may_mount
from faults.links import Link, Links
from kinbin_cluster.servers import ROUTE_PINGS, NatsServers, Process, free_port

__all__ = ["KEY", "Cluster", "Program", "until"]

KEY = "between-gateways-and-nodes"
START_SECONDS = 100.0


def until(holds: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until something holds. Raises TimeoutError that says what did not."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s: {what}")
        time.sleep(0.05)


@dataclass
class Program:
    """A node or a gateway."""

    name: str
    process: Process
    port: int
    to_nats: list[Link]
    """One to each server."""
    to_it: Link | None = None
    """Of a node: from the gateways."""

    @property
    def address(self) -> str:
        """Its own, around all links."""
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Cluster:
    """Three NATS servers, nodes and gateways. `with` starts and ends them."""

    folder: Path
    node_count: int = 3
    gateway_count: int = 2
    servers: int = 3
    plant: str = ""
    """A bug to be planted in every program: see `faults.plants`."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Settings of all programs, as environment variables."""

    def __post_init__(self) -> None:
        """Lay out everything; nothing runs yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.links = Links()
        self.nats = NatsServers(self.folder / "nats", self.servers)
        self.routes = {
            (one, another): self.links.to(self.nats._routes[another]) for one, another in itertools.permutations(range(self.servers), 2)
        }
        """From a server to another one: either of the two opens the connection that both use."""
        for number in range(self.servers if self.servers > 1 else 0):
            self._lead_through_links(number)
        self.disks: dict[str, SmallDisk] = {}
        """Of the last node and the last server, where this process may mount any."""
        if may_mount():
            for name, place in ((f"node-{self.node_count - 1}", "."), (f"nats-{self.servers - 1}", "nats")):
                self.disks[name] = SmallDisk(self.folder / place / name)
        self.nodes = [self._program("node", number) for number in range(self.node_count)]
        self.gateways = [self._program("gateway", number) for number in range(self.gateway_count)]

    def _lead_through_links(self, number: int) -> None:
        """Have a server reach the others by links alone.

        Clients, and other servers, would learn its own address from it, and go around them.
        """
        file = self.folder / "nats" / f"nats-{number}.conf"
        lines = [line for line in file.read_text().splitlines() if not line.startswith("cluster ")]
        routes = ", ".join(f'"nats://127.0.0.1:{link.port}"' for (one, _), link in self.routes.items() if one == number)
        listen = f"listen: 127.0.0.1:{self.nats._routes[number]}, advertise: 127.0.0.1:1"
        lines.append(f"cluster {{ name: kinbin, no_advertise: true, {listen}, routes: [{routes}], {ROUTE_PINGS} }}")
        file.write_text("\n".join(lines) + "\n")

    def data(self, node: Program) -> Path:
        """The directory of a node."""
        return self.folder / node.name

    def _program(self, kind: str, number: int) -> Program:
        name, port = f"{kind}-{number}", free_port()
        to_nats = [self.links.to(one) for one in self.nats.ports]
        to_it = self.links.to(port) if kind == "node" else None
        data = self.folder / name
        data.mkdir(exist_ok=True)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("KINBIN_")},
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
            "KINBIN_DATA_DIR": str(data), "KINBIN_HOST": "127.0.0.1", "KINBIN_PORT": str(port), "KINBIN_ACCESS_LOG": "false",
            "KINBIN_CLUSTER_NATS": ",".join(f"nats://127.0.0.1:{link.port}" for link in to_nats),
            "KINBIN_CLUSTER_NATS_REPLICAS": str(self.nats.replicas), "KINBIN_CLUSTER_KEY": KEY, "KINBIN_CLUSTER_NODE": name,
            "KINBIN_CLUSTER_ADDRESS": f"http://127.0.0.1:{to_it.port if to_it else port}", "KINBIN_CLUSTER_ZONE": f"zone-{number}",
            **self.more,
        }  # fmt: skip
        command = [sys.executable, "-m", f"kinbin_cluster.{kind}"]
        if self.plant:
            command = [sys.executable, "-m", "faults.plants", self.plant, kind]
        return Program(name, Process(command, self.folder / f"{name}.log", environment), port, to_nats, to_it)

    @property
    def programs(self) -> list[Program]:
        """Nodes and gateways."""
        return [*self.nodes, *self.gateways]

    @property
    def processes(self) -> list[Process]:
        """All of them."""
        return [*self.nats.processes, *(program.process for program in self.programs)]

    def start(self) -> None:
        """Start what does not run, and wait until it answers."""
        self.nats.start(seconds=START_SECONDS)
        for program in self.programs:
            program.process.start()
        for program in self.programs:
            self.wait_for(program)

    def wait_for(self, program: Program) -> None:
        """Wait until a program takes requests.

        Raises RuntimeError with what it printed.
        """
        deadline = time.monotonic() + START_SECONDS
        while not ready(program):
            if not program.process.running or time.monotonic() > deadline:
                raise RuntimeError(f"{program.name} does not start: {program.process.said()}")
            time.sleep(0.05)

    def leader(self, stream: str) -> int | None:
        """The number of the server that leads a stream, as the servers' monitors tell; None: nobody does just now."""
        for number, port in enumerate(self.nats._monitors):
            try:
                told = httpx.get(f"http://127.0.0.1:{port}/jsz", params={"streams": "true", "accounts": "true"}, timeout=2).json()
            except (httpx.HTTPError, ValueError):
                continue
            for account in told.get("account_details") or ():
                for one in account.get("stream_detail") or ():
                    if one["name"] == stream and (one.get("cluster") or {}).get("leader") == f"nats-{number}":
                        return number
        return None

    def asked(self, program: Program, path: str) -> httpx.Response:
        """What a node answers to a question about itself, asked around all links."""
        return httpx.get(f"{program.address}{path}", headers={"Authorization": f"Bearer {KEY}"}, timeout=5)

    def replica(self, program: Program, uid: str, shard: int, path: str, body: Any = None) -> httpx.Response:
        """What a node answers for its replica of a shard, asked around all links."""
        headers = {"Authorization": f"Bearer {KEY}"}
        address = f"{program.address}/v1/collections/c{uid}-{shard}{path}"
        if body is None:
            return httpx.get(address, headers=headers, timeout=30)
        return httpx.post(address, json=body, headers=headers, timeout=30)

    def close(self) -> None:
        """End everything."""
        for program in self.programs:
            program.process.kill()
        for process in self.nats.processes:
            process.kill()
        self.links.close()
        for disk in self.disks.values():
            disk.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def ready(program: Program) -> bool:
    """Whether a program takes requests."""
    try:
        return httpx.get(f"{program.address}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
